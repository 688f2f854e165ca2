//! Errors by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device, the quota or the file size limit is exhausted. What was there before is unharmed.
    #[error("no space left: {operation} {}", path.display())]
    OutOfSpace { operation: &'static str, path: PathBuf },
    #[error("not found: {}", path.display())]
    NotFound { path: PathBuf },
    #[error("exists already: {}", path.display())]
    AlreadyExists { path: PathBuf },
    /// Another process (or another owner in this one) holds the lock file.
    #[error("locked by another process: {}", path.display())]
    Locked { path: PathBuf },
    #[error("{operation} {}: {source}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    /// Sorts a system error into the variants.
    pub fn from_io(operation: &'static str, path: &Path, source: io::Error) -> Error {
        let path = path.to_owned();
        let code = source.raw_os_error().map(Errno::from_raw_os_error);
        match code {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Error::OutOfSpace { operation, path },
            Some(Errno::NOENT) => Error::NotFound { path },
            Some(Errno::EXIST) => Error::AlreadyExists { path },
            _ => Error::Io { operation, path, source },
        }
    }

    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Error::OutOfSpace { .. })
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound { .. })
    }
}
