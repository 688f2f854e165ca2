//! RocksDB's error texts become errors.

use std::ffi::{CStr, c_char};
use std::io;
use std::path::Path;
use std::ptr;

use arbor_engine::{Error, Result};

use super::ffi;

/// Runs a call that reports through an error pointer.
pub(super) fn checked<T>(dir: &Path, what: &str, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    message_of(call).map_err(|text| error_of(dir, what, &text))
}

/// Like `checked`, but with RocksDB's text as the error.
pub(super) fn message_of<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> std::result::Result<T, String> {
    let mut message: *mut c_char = ptr::null_mut();
    let answer = call(&mut message);
    if message.is_null() {
        return Ok(answer);
    }
    // SAFETY: RocksDB set the pointer to a text that ends with a zero byte and is ours to free.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        ffi::rocksdb_free(message.cast());
        Err(text)
    }
}

/// Classifies an error text of RocksDB by its first word, the kind.
pub(super) fn error_of(dir: &Path, what: &str, text: &str) -> Error {
    let context = format!("rocksdb, {what}: {text}");
    if text.contains("No space left on device") || text.contains("Disk quota exceeded") {
        return Error::OutOfSpace { context };
    }
    if text.starts_with("Corruption") || text.contains("No such file or directory") {
        return Error::Corrupt { place: place_in(dir, text), context };
    }
    match text.starts_with("IO error") {
        true => Error::Io { context: format!("rocksdb, {what}"), source: io::Error::other(text.to_owned()) },
        false => Error::Other(context),
    }
}

/// The file that a text names, or the directory. A table comes first: the manifest that lists a missing one is named too.
fn place_in(dir: &Path, text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| ":;,()'\"".contains(c)));
    let names: Vec<&str> = words.filter_map(|word| word.rsplit('/').next()).collect();
    // RocksDB looks for a missing table by its name of old, too, and reports that.
    let table = names.iter().find_map(|name| name.strip_suffix(".sst").or(name.strip_suffix(".ldb")));
    let list = || names.iter().find(|name| name.starts_with("MANIFEST-") || **name == "CURRENT");
    let file = table.map(|number| format!("{number}.sst")).or_else(|| list().map(|name| (*name).to_owned()));
    file.map_or(dir.to_owned(), |file| dir.join(file)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_meanings() {
        let check =
            |text: &str, expected: &str| assert_eq!(error_of(Path::new("/d"), "read", text).to_string(), expected);
        check(
            "Corruption: block checksum mismatch: stored = 1 in /d/000012.sst offset 0 size 9",
            "corrupt data in /d/000012.sst: rocksdb, read: Corruption: block checksum mismatch: stored = 1 in /d/000012.sst offset 0 size 9",
        );
        check(
            "Corruption: IO error: No such file or directory: /d/000008.ldb: No such file in file /d/MANIFEST-000012",
            "corrupt data in /d/000008.sst: rocksdb, read: Corruption: IO error: No such file or directory: /d/000008.ldb: No such file in file /d/MANIFEST-000012",
        );
        check("Corruption: odd", "corrupt data in /d: rocksdb, read: Corruption: odd");
        check(
            "IO error: No space left on device: x",
            "no space left on the device: rocksdb, read: IO error: No space left on device: x",
        );
        check("IO error: x", "rocksdb, read: IO error: x");
        check("Busy: x", "rocksdb, read: Busy: x");
    }
}
