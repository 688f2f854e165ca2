//! Why the process ends early. Exit codes are mongod's, since init scripts know them.

/// An option that is unknown, wrong or does not go with another.
pub(crate) const BAD_OPTIONS: u8 = 2;
/// The address is in use.
pub(crate) const CANNOT_LISTEN: u8 = 48;
/// The directory was written by a newer release, or by another server.
pub(crate) const FOREIGN_DIRECTORY: u8 = 62;
/// Everything else that ends the start: the directory is missing or locked, its data is damaged.
pub(crate) const CANNOT_START: u8 = 100;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// A failure that ends the start.
    pub(crate) fn cannot_start(message: impl std::fmt::Display) -> Failure {
        Failure::new(CANNOT_START, message.to_string())
    }
}
