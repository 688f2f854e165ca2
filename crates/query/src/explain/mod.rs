//! Explaining plans: how a statement would be or was executed.

pub mod filter_doc;

use arbor_bson::DocBuf;
use arbor_lang::Error as LangError;

use crate::{Database, ExplainSpec, Interrupt, Result, Verbosity};

/// `queryPlanner` and, from `executionStats` on, `executionStats`; the caller adds `serverInfo` and `ok`.
pub fn explain(
    _database: &Database,
    _spec: &ExplainSpec<'_>,
    _verbosity: Verbosity,
    _interrupt: &Interrupt,
) -> Result<DocBuf> {
    Err(LangError::not_implemented("explain").into())
}
