//! The error of this crate: what the client is told, made of the errors of other crates by `error_map`.

use std::fmt::{self, Display, Formatter};
use std::ops::{Deref, DerefMut};

use arbor_bson::{Code, DocBuf};
use arbor_protocol::Error as Told;

pub type Result<T> = std::result::Result<T, Error>;

/// A [`arbor_protocol::Error`] that errors of other crates can become, which takes a type of this crate.
#[derive(Debug)]
pub struct Error(Box<Told>);

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Told::new(code, message).into()
    }

    pub fn bad_value(message: impl Into<String>) -> Error {
        Told::bad_value(message).into()
    }

    pub fn failed_to_parse(message: impl Into<String>) -> Error {
        Told::failed_to_parse(message).into()
    }

    pub fn type_mismatch(message: impl Into<String>) -> Error {
        Told::type_mismatch(message).into()
    }

    pub fn not_supported(what: &str) -> Error {
        Told::not_supported(what).into()
    }

    /// Returns the error with further fields of its document.
    pub fn with_details(mut self, details: DocBuf) -> Error {
        self.details = Some(details);
        self
    }
}

impl From<Told> for Error {
    fn from(error: Told) -> Error {
        Error(Box::new(error))
    }
}

impl Deref for Error {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Told {
        &mut self.0
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {}
