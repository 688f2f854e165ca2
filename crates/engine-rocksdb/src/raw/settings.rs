//! RocksDB's options for a database of the adapter.

use std::path::Path;

use arbor_engine::Result;
use librocksdb_sys as ffi;

use super::error::checked;
use crate::options::{RocksOptions, compression_number};

const ARENA_BLOCK_BYTES: usize = 1 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// Points between which a block's keys are cut short, and the size of blocks before compression.
const BLOCK_BYTES: usize = 8 << 10;
const FILE_BYTES: u64 = 64 << 20;

/// What the C interface has no call for:
/// - closing must not flush (see `checkpoint.rs`);
/// - after a failed flush RocksDB must not try again by itself, when the memtable has more in it.
const BY_NAME: &std::ffi::CStr = c"avoid_flush_during_shutdown=true;max_bgerror_resume_count=0;";

/// Owned options.
pub struct Settings {
    pub options: *mut ffi::rocksdb_options_t,
    cache: *mut ffi::rocksdb_cache_t,
}

// SAFETY: R3.
#[allow(unsafe_code)]
unsafe impl Send for Settings {}
// SAFETY: R3; nothing changes the options after `new`.
#[allow(unsafe_code)]
unsafe impl Sync for Settings {}

impl Settings {
    #[allow(unsafe_code)]
    pub fn new(dir: &Path, chosen: &RocksOptions) -> Result<Settings> {
        let compression = compression_number(&chosen.compression)?;
        // SAFETY: R1, R2; the block options and the base options are freed once, after RocksDB copied them. The filter
        // policy belongs to the block options from the call that sets it.
        unsafe {
            let base = ffi::rocksdb_options_create();
            let options = ffi::rocksdb_options_create();
            let parsed = checked(dir, "options", |error| {
                ffi::rocksdb_get_options_from_string(base, BY_NAME.as_ptr(), options, error)
            });
            ffi::rocksdb_options_destroy(base);
            let cache = ffi::rocksdb_cache_create_lru(chosen.cache_bytes);
            let settings = Settings { options, cache };
            parsed?;
            let blocks = ffi::rocksdb_block_based_options_create();
            ffi::rocksdb_block_based_options_set_block_cache(blocks, cache);
            ffi::rocksdb_block_based_options_set_block_size(blocks, BLOCK_BYTES);
            let filter = ffi::rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY);
            ffi::rocksdb_block_based_options_set_filter_policy(blocks, filter);
            ffi::rocksdb_options_set_block_based_table_factory(options, blocks);
            ffi::rocksdb_block_based_options_destroy(blocks);
            ffi::rocksdb_options_set_compression(options, compression);
            ffi::rocksdb_options_set_create_if_missing(options, 1);
            ffi::rocksdb_options_set_write_buffer_size(options, chosen.write_buffer_bytes() as usize);
            ffi::rocksdb_options_set_arena_block_size(options, ARENA_BLOCK_BYTES);
            ffi::rocksdb_options_set_max_write_buffer_number(options, 4);
            ffi::rocksdb_options_set_target_file_size_base(options, FILE_BYTES);
            ffi::rocksdb_options_set_max_background_jobs(options, 2);
            ffi::rocksdb_options_set_keep_log_file_num(options, 4);
            ffi::rocksdb_options_set_max_log_file_size(options, 16 << 20);
            Ok(settings)
        }
    }

    #[allow(unsafe_code)]
    pub fn cache_bytes(&self) -> u64 {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_cache_get_usage(self.cache) as u64 }
    }
}

impl Drop for Settings {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: R1.
        unsafe {
            ffi::rocksdb_options_destroy(self.options);
            ffi::rocksdb_cache_destroy(self.cache);
        }
    }
}
