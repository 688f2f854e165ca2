//! LMDB's return codes as engine errors.

use std::io;

use arbor_engine::{Error, Result};
use libc::c_int;
use lmdb_master_sys as ffi;

/// `what` names the call, for the error's text.
pub(super) fn check(code: c_int, what: &str) -> Result<()> {
    if code == ffi::MDB_SUCCESS { Ok(()) } else { Err(error(code, what)) }
}

pub(super) fn error(code: c_int, what: &str) -> Error {
    let context = || format!("lmdb {what}: {}", text(code));
    match code {
        ffi::MDB_MAP_FULL | libc::ENOSPC | libc::EDQUOT => Error::OutOfSpace { context: context() },
        ffi::MDB_CORRUPTED | ffi::MDB_PAGE_NOTFOUND | ffi::MDB_INVALID => {
            Error::Corrupt { place: "data.mdb".to_owned(), context: context() }
        }
        ffi::MDB_PANIC => Error::Poisoned { context: context() },
        code if code > 0 => Error::Io { context: format!("lmdb {what}"), source: io::Error::from_raw_os_error(code) },
        _ => Error::Other(context()),
    }
}

fn text(code: c_int) -> String {
    // SAFETY: mdb_strerror returns a static NUL-terminated string for every code.
    let text = unsafe { std::ffi::CStr::from_ptr(ffi::mdb_strerror(code)) };
    text.to_string_lossy().into_owned()
}
