//! Errors by what the caller can do about them.

use arbor_base::TreeId;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The batch was not applied; reads continue, writes must be refused until space is freed.
    #[error("no space left on the device: {context}")]
    OutOfSpace { context: String },
    /// The engine refuses writes from now on (a failed fsync, a failed apply).
    #[error("storage engine is poisoned: {context}")]
    Poisoned { context: String },
    /// Stored bytes do not agree with their checksum or structure. Only the operations that need them fail.
    #[error("corrupt data in {place}: {context}")]
    Corrupt { place: String, context: String },
    /// The engine's cache is full of what others read and write, and stayed so. The same call may succeed later.
    #[error("no room in the cache of the storage engine: {context}")]
    CacheFull { context: String },
    #[error("unknown tree {0}")]
    UnknownTree(TreeId),
    #[error("invalid option {name}: {reason}")]
    InvalidOption { name: String, reason: String },
    /// Directory written by a newer format, by another engine, or in use by another process.
    #[error("cannot open {path}: {reason}")]
    CannotOpen { path: String, reason: String },
    #[error("the engine {engine} has no {what}")]
    Unsupported { engine: &'static str, what: &'static str },
    /// The tree lives in an engine that could not be opened; everything else works.
    #[error("the storage engine {engine} is not available: {reason}")]
    Unavailable { engine: String, reason: String, tree: Option<TreeId> },
    #[error("{context}: {source}")]
    Io { context: String, source: std::io::Error },
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub fn cannot_open(path: &std::path::Path, reason: impl Into<String>) -> Error {
        Error::CannotOpen { path: path.display().to_string(), reason: reason.into() }
    }

    /// An update message for an engine that takes none.
    pub fn no_updates(engine: &str) -> Error {
        Error::Other(format!("the engine {engine} was opened without a function for update messages"))
    }
}
