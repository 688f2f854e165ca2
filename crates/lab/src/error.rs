//! Errors that stop an experiment. Errors of single operations do not: they are counted in the result.

use std::path::PathBuf;

use arbor_client::ClientError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    #[error("{server}: {source}")]
    Client { server: String, source: ClientError },
    #[error("{server}: {reason}")]
    Server { server: String, reason: String },
    #[error("the server {name} did not start: {reason}; its log is {log}")]
    Start { name: String, reason: String, log: PathBuf },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// A file of results that does not say what it should.
    #[error("{path}: {what}")]
    Results { path: PathBuf, what: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Engine(String),
    /// The run is complete and has not kept a threshold.
    #[error("{0}")]
    NotKept(String),
    #[error("a client thread panicked")]
    Panicked,
}

impl Error {
    pub(crate) fn results(path: &std::path::Path, what: impl Into<String>) -> Error {
        Error::Results { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
