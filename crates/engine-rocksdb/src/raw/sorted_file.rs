//! A table file outside the database, for a bulk load.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use arbor_engine::{Error, Result};

use super::batch::chars;
use super::error::checked;
use super::settings::Settings;
use super::{ROW, ffi};
use crate::records::Content;

pub(super) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::CannotOpen {
        path: path.display().to_string(),
        reason: "the path holds a zero byte".to_owned(),
    })
}

pub(crate) struct SortedFile<'d> {
    writer: *mut ffi::rocksdb_sstfilewriter_t,
    environment: *mut ffi::rocksdb_envoptions_t,
    dir: &'d Path,
    /// The stored value of the row at hand.
    stored: Vec<u8>,
}

// SAFETY: R3.
unsafe impl Send for SortedFile<'_> {}

impl<'d> SortedFile<'d> {
    pub(super) fn create(dir: &'d Path, settings: &Settings, path: &Path) -> Result<SortedFile<'d>> {
        let name = c_path(path)?;
        // SAFETY: R1, R2; the writer copies both options.
        let file = unsafe {
            let environment = ffi::rocksdb_envoptions_create();
            let writer = ffi::rocksdb_sstfilewriter_create(environment, settings.options);
            SortedFile { writer, environment, dir, stored: Vec::new() }
        };
        // SAFETY: R1, R2.
        checked(dir, "bulk load", |error| unsafe {
            ffi::rocksdb_sstfilewriter_open(file.writer, name.as_ptr(), error)
        })?;
        Ok(file)
    }

    /// Requires: keys rise strictly.
    pub(crate) fn put(&mut self, content: Content, key: &[u8], value: &[u8]) -> Result<()> {
        let key = content.row(key);
        self.stored.clear();
        self.stored.extend_from_slice(value);
        self.stored.push(ROW);
        let value = &self.stored;
        // SAFETY: R1, R2.
        checked(self.dir, "bulk load", |error| unsafe {
            ffi::rocksdb_sstfilewriter_put(self.writer, chars(&key), key.len(), chars(value), value.len(), error)
        })
    }

    /// Writes and syncs the end of the file. Requires: it holds a row.
    pub(crate) fn finish(self) -> Result<()> {
        // SAFETY: R1.
        checked(self.dir, "bulk load", |error| unsafe { ffi::rocksdb_sstfilewriter_finish(self.writer, error) })
    }
}

impl Drop for SortedFile<'_> {
    fn drop(&mut self) {
        // SAFETY: R1.
        unsafe {
            ffi::rocksdb_sstfilewriter_destroy(self.writer);
            ffi::rocksdb_envoptions_destroy(self.environment);
        }
    }
}
