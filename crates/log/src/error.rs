//! Errors by what the caller can do about them.

use std::path::PathBuf;

use arbor_base::Position;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was appended; the log is as before and stays usable.
    #[error("no space left for the log: {context}")]
    OutOfSpace { context: String },
    /// A sync failed, or a failed append could not be rolled back: the log refuses writes until it is reopened.
    #[error("the log is poisoned: {context}")]
    Poisoned { context: String },
    /// Records that were durable cannot be read.
    #[error("corrupt log segment {} at offset {offset}: {reason}", segment.display())]
    Corrupt { segment: PathBuf, offset: u64, reason: &'static str },
    /// Written by a newer release.
    #[error("log segment {} has format version {version}, which is newer than this program", segment.display())]
    NewerVersion { segment: PathBuf, version: u32 },
    #[error("log record {position} was trimmed, the first kept is {first}")]
    Trimmed { position: Position, first: Position },
    #[error("log record of {length} bytes is larger than {max}")]
    TooLarge { length: usize, max: usize },
    #[error("log position {position} was not appended yet, the last is {appended}")]
    NotAppended { position: Position, appended: Position },
    /// The record was cut off after it was read or waited for; another one may be in its place.
    #[error("log record {position} was cut off; the last one then was {last}")]
    Cut { position: Position, last: Position },
    #[error("the log is at epoch {current}: epoch {epoch} is over")]
    StaleEpoch { epoch: u64, current: u64 },
    #[error("{} {reason}", path.display())]
    Member { path: PathBuf, reason: &'static str },
    #[error("the log is closed")]
    Closed,
    /// Nothing was changed, unless the text says otherwise.
    #[error("log: {0}")]
    Io(arbor_disk::Error),
}

impl From<arbor_disk::Error> for Error {
    fn from(error: arbor_disk::Error) -> Error {
        match error.is_out_of_space() {
            true => Error::OutOfSpace { context: error.to_string() },
            false => Error::Io(error),
        }
    }
}

/// A failed write, by the state of the log after it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The log is as it was before.
    RolledBack(Error),
    /// It is no longer known what is durable, or durability cannot be achieved.
    Poisoned(String),
}

impl Failure {
    pub(crate) fn poisoned(error: impl ToString) -> Failure {
        Failure::Poisoned(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::RolledBack(error)
    }
}

impl From<arbor_disk::Error> for Failure {
    fn from(error: arbor_disk::Error) -> Failure {
        Failure::RolledBack(error.into())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::RolledBack(error) => error,
            Failure::Poisoned(context) => Error::Poisoned { context },
        }
    }
}
