//! Errors of sessions, with MongoDB's codes and texts.

use arbor_bson::Code;
use arbor_oplog::SessionId;
use arbor_txn::MaybeConflict;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot add session into the cache")]
    TooManySessions,
    #[error("too many transactions are open, and an operation of each is running")]
    TooManyTransactions,
    #[error(
        "Cannot start transaction with {{ txnNumber: {number} }} on session {} because a newer transaction with \
         txnNumberAndRetryCounter {{ txnNumber: {newer}, txnRetryCounter: 0 }} has already started on this session.",
        shown(session)
    )]
    TransactionTooOld { session: SessionId, number: i64, newer: i64 },
    #[error(
        "Retryable write with txnNumber {number} is prohibited on session {} because a newer retryable write with \
         txnNumber {newer} has already started on this session.",
        shown(session)
    )]
    WriteTooOld { session: SessionId, number: i64, newer: i64 },
    #[error(
        "Given transaction number {number} does not match any in-progress transactions. The active transaction number \
         is {active}"
    )]
    NotInProgress { number: i64, active: i64 },
    #[error("Transaction with {{ txnNumber: {number} }} has been aborted.")]
    Aborted { number: i64 },
    #[error("Transaction with {{ txnNumber: {number} }} has been committed.")]
    Committed { number: i64 },
    #[error(
        "Cannot start a transaction at given transaction number {number} a transaction with the same number is in state \
         {state}"
    )]
    AlreadyStarted { number: i64, state: &'static str },
    #[error("Must specify autocommit=false on all operations of a multi-statement transaction.")]
    NoAutocommit,
    /// While waiting for another operation of the same session.
    #[error("operation was interrupted")]
    Interrupted,
    #[error("a row of the session journal is damaged: {0}")]
    Damaged(&'static str),
    #[error(transparent)]
    Txn(#[from] arbor_txn::Error),
}

impl Error {
    /// The code of a refusal; none where the error is that of a layer below.
    pub fn code(&self) -> Option<Code> {
        Some(match self {
            Error::TooManySessions => Code::TOO_MANY_LOGICAL_SESSIONS,
            Error::TooManyTransactions => Code::LOCK_TIMEOUT,
            Error::TransactionTooOld { .. } | Error::WriteTooOld { .. } => Code::TRANSACTION_TOO_OLD,
            Error::NotInProgress { .. } | Error::Aborted { .. } => Code::NO_SUCH_TRANSACTION,
            Error::Committed { .. } => Code::TRANSACTION_COMMITTED,
            Error::AlreadyStarted { .. } => Code(50911),
            Error::NoAutocommit => Code::INVALID_OPTIONS,
            Error::Interrupted => Code::INTERRUPTED,
            Error::Damaged(_) => Code::DATA_CORRUPTION_DETECTED,
            Error::Txn(_) => return None,
        })
    }
}

impl MaybeConflict for Error {
    fn is_conflict(&self) -> bool {
        matches!(self, Error::Txn(error) if error.is_conflict())
    }
}

/// A session as texts name it: its UUID and the start of its user's digest.
fn shown(session: &SessionId) -> String {
    let digest: String = session.user.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{} - {digest}", session.id)
}
