//! Error type of this crate: the error sent to the client, made from errors of other crates by `error_map`.

use std::fmt::{self, Display, Formatter};
use std::ops::{Deref, DerefMut};

use arbor_bson::{Code, DocBuf};
use arbor_protocol::Error as ProtocolError;

pub type Result<T> = std::result::Result<T, Error>;

/// A [`arbor_protocol::Error`] that errors of other crates can become, which takes a type of this crate.
#[derive(Debug)]
pub struct Error(Box<ProtocolError>);

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        ProtocolError::new(code, message).into()
    }

    pub fn bad_value(message: impl Into<String>) -> Error {
        ProtocolError::bad_value(message).into()
    }

    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        ProtocolError::failed_to_parse(message).into()
    }

    pub fn type_mismatch(message: impl Into<String>) -> Error {
        ProtocolError::type_mismatch(message).into()
    }

    pub fn not_supported(what: &str) -> Error {
        ProtocolError::not_supported(what).into()
    }

    /// Returns the error with what was being done when it occurred before its text.
    pub fn during(mut self, what: &str) -> Error {
        self.message = format!("{what} :: caused by :: {}", self.message);
        self
    }

    /// Returns the error with further fields of its document.
    pub fn with_details(mut self, details: DocBuf) -> Error {
        self.details = Some(details);
        self
    }
}

impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Error {
        Error(Box::new(error))
    }
}

impl Deref for Error {
    type Target = ProtocolError;

    fn deref(&self) -> &ProtocolError {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut ProtocolError {
        &mut self.0
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {}
