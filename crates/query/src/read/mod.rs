//! Statements that read.

use arbor_bson::ArrayBuf;
use arbor_lang::Error as LangError;

use crate::{CountSpec, Cursor, Database, DistinctSpec, FindSpec, Interrupt, Result};

/// The documents that a query finds. The plan is made at once, rows are read batch by batch.
pub fn find(_database: &Database, _spec: &FindSpec<'_>, _interrupt: &Interrupt) -> Result<Cursor> {
    Err(LangError::not_implemented("find").into())
}

/// How many documents a query finds.
pub fn count(_database: &Database, _spec: &CountSpec<'_>, _interrupt: &Interrupt) -> Result<u64> {
    Err(LangError::not_implemented("count").into())
}

/// The values that the documents of a query have at one path, each once; elements of arrays count one by one.
pub fn distinct(_database: &Database, _spec: &DistinctSpec<'_>, _interrupt: &Interrupt) -> Result<ArrayBuf> {
    Err(LangError::not_implemented("distinct").into())
}
