//! RocksDB's options for a database of the adapter.

use std::ffi::{CStr, CString};
use std::fmt::Write;
use std::path::Path;
use std::ptr;

use arbor_engine::{Error, Result};

use super::error::{checked, message_of};
use super::{available, ffi, updates};
use crate::options::{RocksOptions, compression_number};

const ARENA_BLOCK_BYTES: usize = 1 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// Blocks before compression.
const BLOCK_BYTES: usize = 8 << 10;
const FILE_BYTES: u64 = 64 << 20;
const CACHE_PART_BYTES: usize = 16 << 20;
/// As RocksDB has at most.
const CACHE_PARTS_BITS_MAX: u32 = 6;
/// `kBinarySearchWithFirstKey`, which the C interface has no name for. An iterator looks into every file of the first level;
/// with the first key of a block in the index it reads the block once it needs the row. Else it holds a block of each file: four
/// scans of documents of 15.5 MB held 310 MB of blocks, and 400 finds of one small row read 11 MB from each file next to it
/// (2026-11-23).
const INDEX_WITH_FIRST_KEYS: i32 = 3;
/// A row that does not fit in what is left of a block begins another one, unless the block has less than 82 bytes: else a large row
/// shares the block of the small ones before it, and readers of those read it too.
const BLOCK_DEVIATION_PERCENT: i32 = 99;
/// Operands of one key that a memtable holds before the next one becomes a row: a reader merges all of them.
const OPERANDS_MAX: usize = 100;
const REFILL_EVERY_US: i64 = 100_000;
const FAIRNESS: i32 = 10;

/// Options that the C interface has no call for:
/// - closing must not flush (see `checkpoint.rs`);
/// - after a failed flush RocksDB must not try again by itself, when the memtable has more in it.
const BY_NAME: &str = "avoid_flush_during_shutdown=true;max_bgerror_resume_count=0;";

/// Owned options.
pub(super) struct Settings {
    pub options: *mut ffi::rocksdb_options_t,
    cache: *mut ffi::rocksdb_cache_t,
    /// Null without update messages. The options point to it and do not own it.
    filter: *mut ffi::rocksdb_compactionfilter_t,
}

// SAFETY: R3.
unsafe impl Send for Settings {}
// SAFETY: R3; nothing changes the options after `new`.
unsafe impl Sync for Settings {}

impl Settings {
    pub(super) fn new(dir: &Path, chosen: &RocksOptions) -> Result<Settings> {
        // SAFETY: R1.
        let mut settings = unsafe {
            let options = ffi::rocksdb_options_create();
            let cache = new_cache(chosen.cache_bytes);
            Settings { options, cache, filter: ptr::null_mut() }
        };
        settings.set_tables();
        settings.set_sizes(chosen)?;
        settings.set_updates(chosen);
        settings.set_by_name(dir, chosen)?;
        Ok(settings)
    }

    fn set_tables(&self) {
        // SAFETY: R1; the options copy the block options. The filter policy belongs to these from the call that sets it.
        unsafe {
            let blocks = ffi::rocksdb_block_based_options_create();
            ffi::rocksdb_block_based_options_set_block_cache(blocks, self.cache);
            ffi::rocksdb_block_based_options_set_block_size(blocks, BLOCK_BYTES);
            ffi::rocksdb_block_based_options_set_block_size_deviation(blocks, BLOCK_DEVIATION_PERCENT);
            ffi::rocksdb_block_based_options_set_index_type(blocks, INDEX_WITH_FIRST_KEYS);
            let filter = ffi::rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY);
            ffi::rocksdb_block_based_options_set_filter_policy(blocks, filter);
            ffi::rocksdb_options_set_block_based_table_factory(self.options, blocks);
            ffi::rocksdb_block_based_options_destroy(blocks);
        }
    }

    fn set_sizes(&self, chosen: &RocksOptions) -> Result<()> {
        let compression = compression_number(&chosen.compression)?;
        let options = self.options;
        // SAFETY: R1; the options share the rate limiter.
        unsafe {
            ffi::rocksdb_options_set_compression(options, compression);
            ffi::rocksdb_options_set_create_if_missing(options, 1);
            ffi::rocksdb_options_set_write_buffer_size(options, chosen.write_buffer_bytes() as usize);
            ffi::rocksdb_options_set_arena_block_size(options, ARENA_BLOCK_BYTES);
            ffi::rocksdb_options_set_max_write_buffer_number(options, 4);
            ffi::rocksdb_options_set_target_file_size_base(options, FILE_BYTES);
            ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
            ffi::rocksdb_options_set_max_background_jobs(options, 2);
            ffi::rocksdb_options_set_keep_log_file_num(options, 4);
            ffi::rocksdb_options_set_max_log_file_size(options, 16 << 20);
            if let Some(bytes) = chosen.write_bytes_per_second {
                let rate = i64::try_from(bytes).unwrap_or(i64::MAX);
                let limiter = ffi::rocksdb_ratelimiter_create(rate, REFILL_EVERY_US, FAIRNESS);
                ffi::rocksdb_options_set_ratelimiter(options, limiter);
                ffi::rocksdb_ratelimiter_destroy(limiter);
            }
            if chosen.counters {
                ffi::rocksdb_options_enable_statistics(options);
            }
        }
        Ok(())
    }

    fn set_updates(&mut self, chosen: &RocksOptions) {
        let Some(function) = &chosen.updates else { return };
        self.filter = updates::filter();
        // SAFETY: R1; the options own the operator, and the filter is destroyed after them.
        unsafe {
            ffi::rocksdb_options_set_merge_operator(self.options, updates::operator(function));
            ffi::rocksdb_options_set_compaction_filter(self.options, self.filter);
            ffi::rocksdb_options_set_max_successive_merges(self.options, OPERANDS_MAX);
        }
    }

    /// The user's options come on top, those that the adapter needs last.
    fn set_by_name(&mut self, dir: &Path, chosen: &RocksOptions) -> Result<()> {
        let mut text = String::new();
        for (name, value) in &chosen.library {
            let _ = write!(text, "{name}={value};");
        }
        text.push_str(BY_NAME);
        let text = c_text(&text)?;
        // SAFETY: R1, R2; the old options go when the new ones, a changed copy, are there.
        unsafe {
            let named = ffi::rocksdb_options_create();
            let parsed = checked(dir, "options", |error| {
                ffi::rocksdb_get_options_from_string(self.options, text.as_ptr(), named, error)
            });
            if let Err(error) = parsed {
                ffi::rocksdb_options_destroy(named);
                return Err(error);
            }
            ffi::rocksdb_options_destroy(self.options);
            self.options = named;
        }
        Ok(())
    }

    pub(super) fn cache_bytes(&self) -> u64 {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_cache_get_usage(self.cache) as u64 }
    }

    pub(super) fn cache_bytes_max(&self) -> u64 {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_cache_get_capacity(self.cache) as u64 }
    }

    pub(super) fn set_cache_bytes(&self, bytes: usize) {
        // SAFETY: R1, R3.
        unsafe { ffi::rocksdb_cache_set_capacity(self.cache, bytes) }
    }
}

/// A cache whose parts are large enough that a value of many megabytes drives out what else is in its part: with RocksDB's own
/// choice, 64 parts of 0.5 MB, five such values that readers hold are outside a full cache.
///
/// # Safety
/// As R1; the caller owns the cache.
unsafe fn new_cache(bytes: usize) -> *mut ffi::rocksdb_cache_t {
    let parts_bits = (bytes / CACHE_PART_BYTES).checked_ilog2().unwrap_or(0).min(CACHE_PARTS_BITS_MAX);
    // SAFETY: R1; the cache copies the options.
    unsafe {
        let options = ffi::rocksdb_lru_cache_options_create();
        ffi::rocksdb_lru_cache_options_set_capacity(options, bytes);
        ffi::rocksdb_lru_cache_options_set_num_shard_bits(options, parts_bits as i32);
        let cache = ffi::rocksdb_cache_create_lru_opts(options);
        ffi::rocksdb_lru_cache_options_destroy(options);
        cache
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // SAFETY: R1; the database is closed by now.
        unsafe {
            ffi::rocksdb_options_destroy(self.options);
            ffi::rocksdb_cache_destroy(self.cache);
            if !self.filter.is_null() {
                ffi::rocksdb_compactionfilter_destroy(self.filter);
            }
        }
    }
}

pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Other(format!("the text '{}' holds a zero byte", text.escape_debug())))
}

/// Checks that RocksDB takes an option, by its own name, with this value. Errors: its answer.
pub(crate) fn check_option(name: &str, value: &str) -> std::result::Result<(), String> {
    available().map_err(|error| error.to_string())?;
    let text = c_text(&format!("{name}={value};")).map_err(|error| error.to_string())?;
    let text: &CStr = &text;
    // SAFETY: R1, R2.
    unsafe {
        let (base, parsed) = (ffi::rocksdb_options_create(), ffi::rocksdb_options_create());
        let refused =
            message_of(|error| ffi::rocksdb_get_options_from_string(base, text.as_ptr(), parsed, error)).err();
        ffi::rocksdb_options_destroy(base);
        ffi::rocksdb_options_destroy(parsed);
        refused.map_or(Ok(()), Err)
    }
}
