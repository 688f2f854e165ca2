//! The one error of this crate: a MongoDB code with the text a client sees.

use crate::Code;

/// Errors of parsing and evaluating. `message` is the `errmsg` of the reply, word for word.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// An error known by its number alone (`Location<number>` unless the table names it).
    pub fn location(number: i32, message: impl Into<String>) -> Error {
        Error::new(Code(number), message)
    }

    pub fn bad_value(message: impl Into<String>) -> Error {
        Error::new(Code::BAD_VALUE, message)
    }

    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        Error::new(Code::FAILED_TO_PARSE, message)
    }

    pub fn type_mismatch(message: impl Into<String>) -> Error {
        Error::new(Code::TYPE_MISMATCH, message)
    }

    pub fn not_implemented(what: &str) -> Error {
        Error::new(Code::NOT_IMPLEMENTED, format!("{what} is not supported by this server yet"))
    }
}
