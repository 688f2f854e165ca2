//! WiredTiger's return codes become errors.

use std::ffi::{CStr, c_int};
use std::io;
use std::path::{Path, PathBuf};

use arbor_engine::Error;

use super::{events, ffi};

const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ETIMEDOUT: i32 = 110;
const EDQUOT: i32 = 122;

/// A call that failed, with what WiredTiger said about it.
#[derive(Debug)]
pub struct Fault {
    code: i32,
    what: &'static str,
    said: Vec<String>,
    dir: PathBuf,
}

/// Result of a call of WiredTiger.
pub(crate) type Called<T = ()> = Result<T, Fault>;

/// `Ok` for 0, else the fault.
pub(super) fn checked(dir: &Path, what: &'static str, code: c_int) -> Called {
    match code {
        0 => Ok(()),
        code => Err(Fault { code, what, said: events::take_said(), dir: dir.to_owned() }),
    }
}

/// Returns true if the call found something.
pub(super) fn found(dir: &Path, what: &'static str, code: c_int) -> Called<bool> {
    match code {
        ffi::WT_NOTFOUND => Ok(false),
        code => checked(dir, what, code).map(|()| true),
    }
}

impl Fault {
    /// The transaction was rolled back for want of cache or for a conflict: it may be tried again.
    pub fn is_rollback(&self) -> bool {
        matches!(self.code, ffi::WT_ROLLBACK | ffi::WT_CACHE_FULL)
    }

    pub fn is_busy(&self) -> bool {
        self.code == EBUSY
    }

    pub fn is_timeout(&self) -> bool {
        self.code == ETIMEDOUT
    }

    pub fn is_missing(&self) -> bool {
        self.code == ENOENT
    }

    pub fn is_invalid(&self) -> bool {
        self.code == EINVAL
    }

    /// Returns WiredTiger's message, or the meaning of the code.
    pub fn text(&self) -> String {
        match self.said.is_empty() {
            true => meaning(self.code),
            false => self.said.join("; "),
        }
    }

    fn is_corruption(&self) -> bool {
        let words = [
            "checksum",
            "corrupt",
            "salvage",
            "read error",
            "No such file",
            "metadata",
            "not found",
            "unexpected",
            "does not appear",
        ];
        let text = self.text();
        self.code == ffi::WT_TRY_SALVAGE || words.iter().any(|word| text.contains(word))
    }
}

fn meaning(code: i32) -> String {
    // SAFETY: WiredTiger returns a static text for each code.
    unsafe { CStr::from_ptr(ffi::wiredtiger_strerror(code)).to_string_lossy().into_owned() }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let context = format!("WiredTiger, {}: {}", fault.what, fault.text());
        match fault.code {
            ENOSPC | EDQUOT => Error::OutOfSpace { context },
            ffi::WT_ROLLBACK | ffi::WT_CACHE_FULL => Error::CacheFull { context },
            ENOENT => Error::Corrupt { place: place_in(&fault.dir, &context), context },
            code if code < 0 && fault.is_corruption() => {
                Error::Corrupt { place: place_in(&fault.dir, &context), context }
            }
            ffi::WT_PANIC => Error::Poisoned { context },
            code if code > 0 => Error::Io { context, source: io::Error::from_raw_os_error(code) },
            _ => Error::Other(context),
        }
    }
}

/// The file that a text names, or the directory. A table comes before WiredTiger's own files.
fn place_in(dir: &Path, text: &str) -> String {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_');
    let words = text.split(ends).map(|word| word.trim_end_matches('.'));
    let names: Vec<&str> = words.filter(|word| word.ends_with(".wt") || word.ends_with(".turtle")).collect();
    let table = names.iter().find(|name| !name.starts_with("WiredTiger"));
    let file = table.or(names.first());
    file.map_or(dir.to_owned(), |file| dir.join(file)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_texts_have_meanings() {
        let check = |code: i32, said: &str, expected: &str| {
            let said = Some(said).filter(|said| !said.is_empty()).map(str::to_owned).into_iter().collect();
            let fault = Fault { code, what: "read", said, dir: PathBuf::from("/d") };
            assert_eq!(Error::from(fault).to_string(), expected);
        };
        check(
            ffi::WT_PANIC,
            "file:t3.wt, WT_CURSOR.next: t3.wt: read checksum error for 4096B block at offset 8192",
            "corrupt data in /d/t3.wt: WiredTiger, read: file:t3.wt, WT_CURSOR.next: t3.wt: read checksum error for 4096B block at offset 8192",
        );
        check(ffi::WT_PANIC, "", "storage engine is poisoned: WiredTiger, read: WT_PANIC: WiredTiger library panic");
        check(ENOSPC, "", "no space left on the device: WiredTiger, read: No space left on device");
        check(ENOENT, "WiredTiger.wt: x", "corrupt data in /d/WiredTiger.wt: WiredTiger, read: WiredTiger.wt: x");
        assert!(Fault { code: ffi::WT_ROLLBACK, what: "", said: vec![], dir: PathBuf::new() }.is_rollback());
    }
}
