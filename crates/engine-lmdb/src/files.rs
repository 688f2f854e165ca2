//! The names of the files, and what a failed call on one means.

use std::io;

use arbor_engine::Error;

pub(crate) const CHECKPOINT_FILE: &str = "checkpoint.meta";
pub(crate) const DATA_FILE: &str = "data.mdb";

/// Converts an I/O error of a file.
pub(crate) fn io_error(context: &str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::OutOfSpace { context: format!("{context}: {source}") }
        }
        _ => Error::Io { context: context.to_owned(), source },
    }
}
