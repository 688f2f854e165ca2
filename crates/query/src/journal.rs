//! What retryable statements have done, for who sends them again.

use arbor_bson::Value;
use arbor_txn::Transaction;

use crate::{FindAndModifyOutcome, Result};

/// What a statement did: the answer of a retry.
#[derive(Clone, Debug)]
pub enum Executed {
    Inserted,
    Updated { matched: u64, modified: u64, upserted: Option<Value> },
    Deleted(u64),
    FoundAndModified(Box<FindAndModifyOutcome>),
}

/// The memory of one retryable write: of one session and transaction number. Its owner sees to it that no two commands use
/// it at the same time.
pub trait StatementJournal: Sync {
    /// What the statement of this number did. None: it has not run, or has changed nothing.
    fn executed(&self, statement: i32) -> Result<Option<Executed>>;

    /// Notes what statements do in the transaction that does it. May be called again for the same statements, with another
    /// transaction, when this one was not committed.
    fn record(&self, txn: &mut Transaction, executed: &[(i32, Executed)]) -> Result<()>;
}
