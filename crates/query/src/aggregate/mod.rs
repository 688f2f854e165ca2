//! Aggregation pipelines.

use arbor_lang::Error as LangError;

use crate::{AggregateSpec, Cursor, Database, Interrupt, Result};

/// The documents that come out of a pipeline.
pub fn aggregate(_database: &Database, _spec: &AggregateSpec<'_>, _interrupt: &Interrupt) -> Result<Cursor> {
    Err(LangError::not_implemented("aggregate").into())
}
