//! The database: writes, point reads, flushes, properties.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{ptr, slice};

use arbor_engine::{Error, Result};

use super::batch::chars;
use super::error::checked;
use super::settings::Settings;
use super::sorted_file::{SortedFile, c_path};
use super::{Rows, WriteBatch, available, ffi, value_of};
use crate::options::RocksOptions;
use crate::records::Content;

/// `BottommostLevelCompaction::kForceOptimized`: files of the last level too, but not those just written.
const FORCE_BOTTOM: u8 = 3;

pub(crate) struct Db {
    db: *mut ffi::rocksdb_t,
    /// The log is above the engine: RocksDB's own is off.
    write: *mut ffi::rocksdb_writeoptions_t,
    read: *mut ffi::rocksdb_readoptions_t,
    settings: Settings,
    dir: PathBuf,
}

// SAFETY: R3.
unsafe impl Send for Db {}
// SAFETY: R3.
unsafe impl Sync for Db {}

impl Db {
    pub(crate) fn open(dir: &Path, options: &RocksOptions) -> Result<Db> {
        available()?;
        let settings = Settings::new(dir, options)?;
        let name = c_path(dir)?;
        // SAFETY: R1, R2; RocksDB copies the options.
        let opened = checked(dir, "open", |error| unsafe { ffi::rocksdb_open(settings.options, name.as_ptr(), error) });
        let db = opened.map_err(|error| in_use(dir, error))?;
        // SAFETY: R1.
        unsafe {
            let write = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_disable_WAL(write, 1);
            Ok(Db { db, write, read: ffi::rocksdb_readoptions_create(), settings, dir: dir.to_owned() })
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn pointer(&self) -> *mut ffi::rocksdb_t {
        self.db
    }

    /// All of the batch or nothing.
    pub(crate) fn write(&self, batch: &WriteBatch) -> Result<()> {
        // SAFETY: R1.
        checked(&self.dir, "write", |error| unsafe { ffi::rocksdb_write(self.db, self.write, batch.batch, error) })
    }

    /// The value of a row; `key` is with its content's prefix.
    pub(crate) fn get(&self, key: &[u8], snapshot: Option<&RawSnapshot>) -> Result<Option<Vec<u8>>> {
        let read = snapshot.map_or(self.read, |snapshot| snapshot.read);
        // SAFETY: R1, R2, R4.
        let pinned = checked(&self.dir, "read", |error| unsafe {
            ffi::rocksdb_get_pinned(self.db, read, chars(key), key.len(), error)
        })?;
        if pinned.is_null() {
            return Ok(None);
        }
        let mut length = 0;
        // SAFETY: the value's bytes stay until the handle is destroyed, after they were copied.
        unsafe {
            let bytes = ffi::rocksdb_pinnableslice_value(pinned, &mut length);
            let stored = if length == 0 { &[] } else { slice::from_raw_parts(bytes.cast(), length) };
            let value = value_of(stored).map(<[u8]>::to_vec);
            ffi::rocksdb_pinnableslice_destroy(pinned);
            Ok(value)
        }
    }

    /// The rows of a content, in the newest state or in a snapshot.
    pub(crate) fn rows<'d>(&'d self, content: Content, snapshot: Option<&'d RawSnapshot>) -> Result<Rows<'d>> {
        Ok(Rows::new(self, content, snapshot))
    }

    /// The last key of all contents.
    pub(crate) fn last_key(&self) -> Result<Option<Vec<u8>>> {
        // SAFETY: R1; the key's bytes are copied before the iterator goes.
        unsafe {
            let iterator = ffi::rocksdb_create_iterator(self.db, self.read);
            ffi::rocksdb_iter_seek_to_last(iterator);
            let mut length = 0;
            let key = (ffi::rocksdb_iter_valid(iterator) != 0).then(|| {
                let bytes = ffi::rocksdb_iter_key(iterator, &mut length);
                slice::from_raw_parts(bytes.cast(), length).to_vec()
            });
            let failed = checked(&self.dir, "read", |error| ffi::rocksdb_iter_get_error(iterator, error));
            ffi::rocksdb_iter_destroy(iterator);
            failed.map(|()| key)
        }
    }

    /// Seals the memtable and begins to write it; returns before it is written.
    pub(crate) fn begin_flush(&self) -> Result<()> {
        // SAFETY: R1; the options are destroyed after the call.
        unsafe {
            let options = ffi::rocksdb_flushoptions_create();
            ffi::rocksdb_flushoptions_set_wait(options, 0);
            let begun = checked(&self.dir, "flush", |error| ffi::rocksdb_flush(self.db, options, error));
            ffi::rocksdb_flushoptions_destroy(options);
            begun
        }
    }

    /// Returns an integer property of RocksDB; 0 if it has none by that name.
    pub(crate) fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: R1; the name ends with a zero byte.
        match unsafe { ffi::rocksdb_property_int(self.db, name.as_ptr(), &mut value) } {
            0 => value,
            _ => 0,
        }
    }

    /// A report of RocksDB; empty if it has none by that name.
    pub(crate) fn report(&self, name: &CStr) -> String {
        // SAFETY: R1; the name ends with a zero byte.
        owned_text(unsafe { ffi::rocksdb_property_value(self.db, name.as_ptr()) })
    }

    /// RocksDB's counters as text; empty unless they are on.
    pub(crate) fn counters(&self) -> String {
        // SAFETY: R1, R3.
        owned_text(unsafe { ffi::rocksdb_options_statistics_get_string(self.settings.options) })
    }

    pub(crate) fn cache_bytes(&self) -> u64 {
        self.settings.cache_bytes()
    }

    pub(crate) fn cache_bytes_max(&self) -> u64 {
        self.settings.cache_bytes_max()
    }

    pub(crate) fn set_cache_bytes(&self, bytes: usize) {
        self.settings.set_cache_bytes(bytes);
    }

    /// Changes an option of the running database.
    pub(crate) fn set_option(&self, name: &CStr, value: &CStr) -> Result<()> {
        let (names, values) = ([name.as_ptr()], [value.as_ptr()]);
        // SAFETY: R1; one name and one value, which end with zero bytes and are copied.
        checked(&self.dir, "set an option", |error| unsafe {
            ffi::rocksdb_set_options(self.db, 1, names.as_ptr(), values.as_ptr(), error)
        })
    }

    /// Bytes of table files between two keys, about; memtables are not counted.
    pub(crate) fn file_bytes(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let (starts, ends) = ([chars(from)], [chars(to)]);
        let mut sizes = [0];
        // SAFETY: R1, R2; one range in, one size out.
        checked(&self.dir, "sizes", |error| unsafe {
            let lengths = (&from.len(), &to.len());
            let size = sizes.as_mut_ptr();
            ffi::rocksdb_approximate_sizes(
                self.db,
                1,
                starts.as_ptr(),
                lengths.0,
                ends.as_ptr(),
                lengths.1,
                size,
                error,
            )
        })?;
        Ok(sizes[0])
    }

    /// Removes the files that hold rows of this content only, from all snapshots too and at once durably.
    pub(crate) fn delete_files(&self, content: Content) -> Result<()> {
        let (from, to) = (content.prefix(), content.end());
        // SAFETY: R1, R2.
        checked(&self.dir, "delete files", |error| unsafe {
            ffi::rocksdb_delete_file_in_range(self.db, chars(&from), from.len(), chars(&to), to.len(), error)
        })
    }

    /// Rewrites the files that hold rows from `from` to `to`, both with the content's prefix and both included. Returns
    /// when it is done or cancelled; what fails is counted by RocksDB as a background error. RocksDB flushes the
    /// memtable first if it has a row in the range: the caller sees to it that this is lawful.
    pub(crate) fn compact(&self, from: &[u8], to: &[u8]) {
        // SAFETY: R1, R2; the options are destroyed after the call.
        unsafe {
            let options = ffi::rocksdb_compactoptions_create();
            ffi::rocksdb_compactoptions_set_exclusive_manual_compaction(options, 0);
            ffi::rocksdb_compactoptions_set_bottommost_level_compaction(options, FORCE_BOTTOM);
            ffi::rocksdb_compact_range_opt(self.db, options, chars(from), from.len(), chars(to), to.len());
            ffi::rocksdb_compactoptions_destroy(options);
        }
    }

    /// Cancels the compactions that [`Db::compact`] runs, and makes all later ones return at once until they are allowed.
    pub(crate) fn cancel_compactions(&self) {
        // SAFETY: R1, R3.
        unsafe { ffi::rocksdb_disable_manual_compaction(self.db) }
    }

    pub(crate) fn allow_compactions(&self) {
        // SAFETY: R1, R3.
        unsafe { ffi::rocksdb_enable_manual_compaction(self.db) }
    }

    pub(crate) fn sorted_file(&self, path: &Path) -> Result<SortedFile<'_>> {
        SortedFile::create(&self.dir, &self.settings, path)
    }

    /// Takes finished files over, durably. Never flushes a memtable for it: that would pass the log's barrier.
    pub(crate) fn ingest(&self, files: &[PathBuf]) -> Result<()> {
        let names = files.iter().map(|path| c_path(path)).collect::<Result<Vec<_>>>()?;
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: R1, R2; `names` (the texts) was shadowed, not dropped.
        unsafe {
            let options = ffi::rocksdb_ingestexternalfileoptions_create();
            ffi::rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
            ffi::rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(options, 0);
            let taken = checked(&self.dir, "bulk load", |error| {
                ffi::rocksdb_ingest_external_file(self.db, names.as_ptr(), names.len(), options, error)
            });
            ffi::rocksdb_ingestexternalfileoptions_destroy(options);
            taken
        }
    }
}

/// A text that RocksDB made for its caller.
fn owned_text(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it ends with a zero byte and is ours to free.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        ffi::rocksdb_free(text.cast());
        owned
    }
}

/// RocksDB's own lock: the texts for another process and for this one.
fn in_use(dir: &Path, error: Error) -> Error {
    let text = error.to_string();
    match text.contains("While lock file") || text.contains("lock hold by current process") {
        true => Error::CannotOpen {
            path: dir.display().to_string(),
            reason: "in use by another engine or process".to_owned(),
        },
        false => error,
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: R1, R4.
        unsafe {
            ffi::rocksdb_close(self.db);
            ffi::rocksdb_writeoptions_destroy(self.write);
            ffi::rocksdb_readoptions_destroy(self.read);
        }
    }
}

/// A state of the database that stays readable.
pub(crate) struct RawSnapshot {
    snapshot: *const ffi::rocksdb_snapshot_t,
    read: *mut ffi::rocksdb_readoptions_t,
    pub db: Arc<Db>,
}

// SAFETY: R3.
unsafe impl Send for RawSnapshot {}
// SAFETY: R3.
unsafe impl Sync for RawSnapshot {}

impl RawSnapshot {
    pub(crate) fn new(db: &Arc<Db>) -> RawSnapshot {
        // SAFETY: R1.
        unsafe {
            let snapshot = ffi::rocksdb_create_snapshot(db.db);
            let read = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_snapshot(read, snapshot);
            RawSnapshot { snapshot, read, db: db.clone() }
        }
    }

    pub(super) fn pointer(&self) -> *const ffi::rocksdb_snapshot_t {
        debug_assert!(!ptr::eq(self.snapshot, ptr::null()));
        self.snapshot
    }
}

impl Drop for RawSnapshot {
    fn drop(&mut self) {
        // SAFETY: R1, R4.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.read);
            ffi::rocksdb_release_snapshot(self.db.db, self.snapshot);
        }
    }
}
