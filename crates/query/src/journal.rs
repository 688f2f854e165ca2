//! Outcomes of retryable statements, for clients that send them again.

use arbor_bson::Value;
use arbor_txn::Transaction;

use crate::{Error, FindAndModifyOutcome, Result};

/// Outcome of a statement: the reply to a retry.
#[derive(Clone, Debug)]
pub enum Executed {
    Inserted,
    Updated {
        matched: u64,
        modified: u64,
        upserted: Option<Value>,
    },
    Deleted(u64),
    /// With the whole document, not projected.
    FoundAndModified(Box<FindAndModifyOutcome>),
}

impl Executed {
    fn kind(&self) -> &'static str {
        match self {
            Executed::Inserted => "insert",
            Executed::Updated { .. } => "update",
            Executed::Deleted(_) => "delete",
            Executed::FoundAndModified(_) => "findAndModify",
        }
    }

    /// Errors: what was executed was another statement.
    pub(crate) fn found_and_modified(self) -> Result<Box<FindAndModifyOutcome>> {
        match self {
            Executed::FoundAndModified(outcome) => Ok(outcome),
            other => Err(other.is_no("findAndModify")),
        }
    }

    /// The error of a statement that was another one when it was sent before.
    pub(crate) fn is_no(&self, kind: &str) -> Error {
        let before = self.kind();
        let message =
            format!("{kind} retry request is not compatible with previous write in the transaction of type: {before}");
        Error::Lang(arbor_lang::Error::location(40606, message))
    }
}

/// The memory of one retryable write: of one session and transaction number. Its owner sees to it that no two commands use
/// it at the same time.
pub trait StatementJournal: Sync {
    /// Returns the outcome of the statement with this number. None: it has not run, or has changed nothing.
    fn executed(&self, statement: i32) -> Result<Option<Executed>>;

    /// Notes what statements do in the transaction that does it. May be called again for the same statements, with another
    /// transaction, when this one was not committed.
    fn record(&self, txn: &mut Transaction, executed: &[(i32, &Executed)]) -> Result<()>;
}
