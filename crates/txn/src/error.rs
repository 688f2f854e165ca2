//! Errors by what the caller can do about them.

use arbor_base::{Position, TreeId};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another transaction committed one of this transaction's keys after its snapshot. Nothing was written; the same
    /// work may succeed on a new snapshot.
    #[error("write conflict: another transaction committed first")]
    Conflict,
    /// Nothing was written. Reads continue; writes succeed again when there is space.
    #[error("no space left on the device: {context}")]
    OutOfSpace { context: String },
    /// The transaction is committed in the log at this position and will be visible once the engine has space again (or
    /// after the next start); it must not be tried again.
    #[error("committed at {position}, but not visible yet: no space left on the device")]
    CommittedNotApplied { position: Position },
    /// The transaction is in the log at this position. It will be visible if the set has it, and never if a new leader does not; it is not
    /// known here yet.
    #[error("the outcome of the commit at {position} is not known yet: it waits for other members of the set")]
    Unsettled { position: Position },
    /// Nothing was written.
    #[error("this member of the set does not take writes")]
    NotLeading,
    /// Writes are refused until the next start. The writes of the transaction that encountered the failure may or may not be
    /// there after it.
    #[error("writes are refused after a failure: {reason}")]
    Poisoned { reason: String },
    #[error("the store is closed")]
    Closed,
    #[error("transaction of {bytes} bytes exceeds the limit of {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    /// The tree was never created, or is dropped at this snapshot.
    #[error("unknown tree {0}")]
    UnknownTree(TreeId),
    /// A log record with a valid checksum that cannot be decoded.
    #[error("corrupt log record at {position}: {reason}")]
    CorruptRecord { position: Position, reason: &'static str },
    /// Records of the log between the engine's state and the log's begin, or after its end, are missing. A crash does not
    /// cause this.
    #[error(
        "the log is damaged: it has records {first} to {last}, and the storage engine's state shows that records {} to {} \
         are missing. Restore the missing files of the log, or carry over what can be read with 'arbor salvage'",
        missing.0, missing.1
    )]
    LogGap { missing: (Position, Position), first: Position, last: Position },
    /// No state of that time is kept any more, or none ever was.
    #[error("the state at time {time:#x} is no longer kept")]
    SnapshotTooOld { time: u64 },
    #[error("the time {time:#x} has not come yet, it is {now:#x}")]
    NotYet { time: u64, now: u64 },
    /// It was not prepared here, or has ended.
    #[error("the transaction is not prepared")]
    NotPrepared,
    /// Nothing was written.
    #[error("a transaction over several servers cannot create or drop collections or indexes")]
    CreatesTrees,
    /// Another member did not serve what was asked of it. It may be asked again.
    #[error("another member of the set: {reason}")]
    Peer { reason: String },
    /// This member cannot be synced, or opened, as it is.
    #[error("{reason}")]
    NotSynced { reason: String },
    #[error(transparent)]
    Engine(arbor_engine::Error),
    #[error(transparent)]
    Log(arbor_log::Error),
    /// Nothing was written: the append failed and was rolled back.
    #[error("the commit was refused: {reason}")]
    Refused { reason: String },
}

impl From<arbor_engine::Error> for Error {
    fn from(error: arbor_engine::Error) -> Error {
        match error {
            arbor_engine::Error::OutOfSpace { context } => Error::OutOfSpace { context },
            arbor_engine::Error::Poisoned { context } => Error::Poisoned { reason: context },
            arbor_engine::Error::UnknownTree(tree) => Error::UnknownTree(tree),
            other => Error::Engine(other),
        }
    }
}

pub(crate) fn log_error(error: arbor_log::Error) -> Error {
    match error {
        arbor_log::Error::OutOfSpace { context } => Error::OutOfSpace { context },
        arbor_log::Error::Poisoned { context } => Error::Poisoned { reason: context },
        arbor_log::Error::Closed => Error::Closed,
        arbor_log::Error::TooLarge { length, max } => Error::TooLarge { bytes: length, bytes_max: max },
        other => Error::Log(other),
    }
}
