//! Errors by what the caller can do: each has the MongoDB code and text that a client sees.

use arbor_bson::DocBuf;
use arbor_lang::Code;
use arbor_txn::MaybeConflict;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The statement is wrong, or cannot be done on the documents that it found.
    #[error(transparent)]
    Lang(#[from] arbor_lang::Error),
    #[error(transparent)]
    Store(#[from] arbor_store::Error),
    #[error(transparent)]
    Txn(#[from] arbor_txn::Error),
    /// The validator of the collection refuses the document; `info` says which one and why.
    #[error("Document failed validation")]
    DocumentInvalid { info: Box<DocBuf> },
    #[error("operation exceeded time limit")]
    TimeExpired,
    #[error("operation was interrupted")]
    Killed,
    /// A trial's slice is exhausted; never leaves this crate.
    #[error("plan trial slice exhausted")]
    Paused,
    /// An error of a statement that was right: what was being done, and the error itself.
    #[error("{what} :: caused by :: {error}")]
    During { what: &'static str, error: Box<Error> },
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error::Lang(arbor_lang::Error::new(code, message))
    }

    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::new(Code::BAD_VALUE, message)
    }

    /// Returns the error with what was being done when it occurred.
    pub(crate) fn during(self, what: &'static str) -> Error {
        match self {
            error @ Error::During { .. } => error,
            error => Error::During { what, error: Box::new(error) },
        }
    }

    /// Something that cannot be unless this crate or the data below it is broken.
    pub(crate) fn internal(message: impl Into<String>) -> Error {
        Error::new(Code::INTERNAL_ERROR, message)
    }

    /// The statement failed for the client's own documents; the batch may continue when it is unordered.
    pub fn concerns_document(&self) -> bool {
        match self {
            Error::Lang(_) | Error::DocumentInvalid { .. } => true,
            Error::Store(error) => !matches!(error, arbor_store::Error::Txn(_)),
            Error::During { error, .. } => error.concerns_document(),
            _ => false,
        }
    }
}

impl MaybeConflict for Error {
    fn is_conflict(&self) -> bool {
        match self {
            Error::Txn(error) => error.is_conflict(),
            Error::Store(error) => error.is_conflict(),
            Error::During { error, .. } => error.is_conflict(),
            _ => false,
        }
    }
}
