//! RocksDB's C interface, as far as the adapter uses it. The library is loaded when it is first needed, and stays.
//!
//! - R5: [`loaded`] returned `Ok` before any other function here is called: [`super::Db::open`] and the check of options see to it.
#![allow(non_camel_case_types, non_snake_case, reason = "the names are those of RocksDB's header")]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

use arbor_engine::adapter::SharedLibrary;
use libloading::Library;

const ROCKSDB: SharedLibrary =
    SharedLibrary { engine: "rocksdb", stem: "rocksdb", variable: "ARBOR_ROCKSDB_LIBRARY", package: "librocksdb7.8" };

static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// Loads the library unless it is loaded. Errors: it is missing, or lacks a function; each later call returns the same.
pub(super) fn loaded() -> arbor_engine::Result<()> {
    let functions = FUNCTIONS.get_or_init(|| Functions::load(&ROCKSDB));
    functions.as_ref().map(|_| ()).map_err(|reason| ROCKSDB.unavailable(reason))
}

/// Returns the library's version, as far as its file's name has it.
pub(super) fn version() -> Option<String> {
    loaded().ok()?;
    ROCKSDB.version()
}

/// Declares the handles of the library, which only it looks into.
macro_rules! handles {
    ($($name:ident),* $(,)?) => {
        $(
            #[repr(C)]
            pub(crate) struct $name {
                _opaque: [u8; 0],
            }
        )*
    };
}

/// Declares the table of functions, and a function of the same name for each that calls through it.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $returned:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) $(-> $returned)?,)*
            /// Keeps the functions where they are.
            _library: Library,
        }

        impl Functions {
            fn load(library: &SharedLibrary) -> Result<Functions, String> {
                let path = library.find()?;
                // SAFETY: RocksDB's initializers need nothing of the process.
                let library = unsafe { Library::new(&path) }.map_err(|error| error.to_string())?;
                // SAFETY: the types are those of `rocksdb/c.h`, which have not changed from 7.8 to 11.8.
                unsafe {
                    Ok(Functions {
                        $($name: *library
                            .get(concat!(stringify!($name), "\0").as_bytes())
                            .map_err(|error| format!("{}: {error}", path.display()))?,)*
                        _library: library,
                    })
                }
            }
        }

        $(
            #[inline]
            #[allow(clippy::too_many_arguments, reason = "as many as the C function has")]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) $(-> $returned)? {
                let Some(Ok(functions)) = FUNCTIONS.get() else { unreachable!("R5: RocksDB is loaded before it is called") };
                // SAFETY: as the caller's.
                unsafe { (functions.$name)($($argument),*) }
            }
        )*
    };
}

handles! {
    rocksdb_block_based_table_options_t,
    rocksdb_cache_t,
    rocksdb_compactionfilter_t,
    rocksdb_compactoptions_t,
    rocksdb_envoptions_t,
    rocksdb_filterpolicy_t,
    rocksdb_flushoptions_t,
    rocksdb_ingestexternalfileoptions_t,
    rocksdb_iterator_t,
    rocksdb_lru_cache_options_t,
    rocksdb_mergeoperator_t,
    rocksdb_options_t,
    rocksdb_pinnableslice_t,
    rocksdb_ratelimiter_t,
    rocksdb_readoptions_t,
    rocksdb_snapshot_t,
    rocksdb_sstfilewriter_t,
    rocksdb_t,
    rocksdb_writebatch_t,
    rocksdb_writeoptions_t,
}

functions! {
    fn rocksdb_approximate_sizes(db: *mut rocksdb_t, num_ranges: c_int, range_start_key: *const *const c_char, range_start_key_len: *const usize, range_limit_key: *const *const c_char, range_limit_key_len: *const usize, sizes: *mut u64, errptr: *mut *mut c_char);
    fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t;
    fn rocksdb_block_based_options_destroy(options: *mut rocksdb_block_based_table_options_t);
    fn rocksdb_block_based_options_set_block_cache(options: *mut rocksdb_block_based_table_options_t, block_cache: *mut rocksdb_cache_t);
    fn rocksdb_block_based_options_set_block_size(options: *mut rocksdb_block_based_table_options_t, block_size: usize);
    fn rocksdb_block_based_options_set_block_size_deviation(options: *mut rocksdb_block_based_table_options_t, block_size_deviation: c_int);
    fn rocksdb_block_based_options_set_filter_policy(options: *mut rocksdb_block_based_table_options_t, filter_policy: *mut rocksdb_filterpolicy_t);
    fn rocksdb_block_based_options_set_index_type(handle: *mut rocksdb_block_based_table_options_t, value: c_int);
    fn rocksdb_cache_create_lru_opts(handle: *mut rocksdb_lru_cache_options_t) -> *mut rocksdb_cache_t;
    fn rocksdb_cache_destroy(cache: *mut rocksdb_cache_t);
    fn rocksdb_cache_get_capacity(cache: *mut rocksdb_cache_t) -> usize;
    fn rocksdb_cache_get_usage(cache: *mut rocksdb_cache_t) -> usize;
    fn rocksdb_cache_set_capacity(cache: *mut rocksdb_cache_t, capacity: usize);
    fn rocksdb_close(db: *mut rocksdb_t);
    fn rocksdb_compact_range_opt(db: *mut rocksdb_t, opt: *mut rocksdb_compactoptions_t, start_key: *const c_char, start_key_len: usize, limit_key: *const c_char, limit_key_len: usize);
    fn rocksdb_compactionfilter_create(state: *mut c_void, destructor: Option<unsafe extern "C" fn(*mut c_void)>, filter: Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut c_uchar) -> c_uchar>, name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>) -> *mut rocksdb_compactionfilter_t;
    fn rocksdb_compactionfilter_destroy(handle: *mut rocksdb_compactionfilter_t);
    fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t;
    fn rocksdb_compactoptions_destroy(handle: *mut rocksdb_compactoptions_t);
    fn rocksdb_compactoptions_set_bottommost_level_compaction(handle: *mut rocksdb_compactoptions_t, value: c_uchar);
    fn rocksdb_compactoptions_set_exclusive_manual_compaction(handle: *mut rocksdb_compactoptions_t, value: c_uchar);
    fn rocksdb_create_iterator(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t) -> *mut rocksdb_iterator_t;
    fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t;
    fn rocksdb_delete_file_in_range(db: *mut rocksdb_t, start_key: *const c_char, start_key_len: usize, limit_key: *const c_char, limit_key_len: usize, errptr: *mut *mut c_char);
    fn rocksdb_disable_manual_compaction(db: *mut rocksdb_t);
    fn rocksdb_enable_manual_compaction(db: *mut rocksdb_t);
    fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t;
    fn rocksdb_envoptions_destroy(opt: *mut rocksdb_envoptions_t);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t;
    fn rocksdb_flush(db: *mut rocksdb_t, options: *const rocksdb_flushoptions_t, errptr: *mut *mut c_char);
    fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t;
    fn rocksdb_flushoptions_destroy(handle: *mut rocksdb_flushoptions_t);
    fn rocksdb_flushoptions_set_wait(handle: *mut rocksdb_flushoptions_t, value: c_uchar);
    fn rocksdb_free(ptr: *mut c_void);
    fn rocksdb_get_options_from_string(base_options: *const rocksdb_options_t, opts_str: *const c_char, new_options: *mut rocksdb_options_t, errptr: *mut *mut c_char);
    fn rocksdb_get_pinned(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t, key: *const c_char, keylen: usize, errptr: *mut *mut c_char) -> *mut rocksdb_pinnableslice_t;
    fn rocksdb_ingest_external_file(db: *mut rocksdb_t, file_list: *const *const c_char, list_len: usize, opt: *const rocksdb_ingestexternalfileoptions_t, errptr: *mut *mut c_char);
    fn rocksdb_ingestexternalfileoptions_create() -> *mut rocksdb_ingestexternalfileoptions_t;
    fn rocksdb_ingestexternalfileoptions_destroy(opt: *mut rocksdb_ingestexternalfileoptions_t);
    fn rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(opt: *mut rocksdb_ingestexternalfileoptions_t, allow_blocking_flush: c_uchar);
    fn rocksdb_ingestexternalfileoptions_set_move_files(opt: *mut rocksdb_ingestexternalfileoptions_t, move_files: c_uchar);
    fn rocksdb_iter_destroy(handle: *mut rocksdb_iterator_t);
    fn rocksdb_iter_get_error(handle: *const rocksdb_iterator_t, errptr: *mut *mut c_char);
    fn rocksdb_iter_key(handle: *const rocksdb_iterator_t, klen: *mut usize) -> *const c_char;
    fn rocksdb_iter_next(handle: *mut rocksdb_iterator_t);
    fn rocksdb_iter_prev(handle: *mut rocksdb_iterator_t);
    fn rocksdb_iter_seek(handle: *mut rocksdb_iterator_t, k: *const c_char, klen: usize);
    fn rocksdb_iter_seek_for_prev(handle: *mut rocksdb_iterator_t, k: *const c_char, klen: usize);
    fn rocksdb_iter_seek_to_last(handle: *mut rocksdb_iterator_t);
    fn rocksdb_iter_valid(handle: *const rocksdb_iterator_t) -> c_uchar;
    fn rocksdb_iter_value(handle: *const rocksdb_iterator_t, vlen: *mut usize) -> *const c_char;
    fn rocksdb_lru_cache_options_create() -> *mut rocksdb_lru_cache_options_t;
    fn rocksdb_lru_cache_options_destroy(handle: *mut rocksdb_lru_cache_options_t);
    fn rocksdb_lru_cache_options_set_capacity(handle: *mut rocksdb_lru_cache_options_t, value: usize);
    fn rocksdb_lru_cache_options_set_num_shard_bits(handle: *mut rocksdb_lru_cache_options_t, value: c_int);
    fn rocksdb_mergeoperator_create(state: *mut c_void, destructor: Option<unsafe extern "C" fn(*mut c_void)>, full_merge: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize, *const *const c_char, *const usize, c_int, *mut c_uchar, *mut usize) -> *mut c_char>, partial_merge: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const *const c_char, *const usize, c_int, *mut c_uchar, *mut usize) -> *mut c_char>, delete_value: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>, name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>) -> *mut rocksdb_mergeoperator_t;
    fn rocksdb_open(options: *const rocksdb_options_t, name: *const c_char, errptr: *mut *mut c_char) -> *mut rocksdb_t;
    fn rocksdb_options_create() -> *mut rocksdb_options_t;
    fn rocksdb_options_destroy(handle: *mut rocksdb_options_t);
    fn rocksdb_options_enable_statistics(handle: *mut rocksdb_options_t);
    fn rocksdb_options_set_arena_block_size(handle: *mut rocksdb_options_t, value: usize);
    fn rocksdb_options_set_block_based_table_factory(opt: *mut rocksdb_options_t, table_options: *mut rocksdb_block_based_table_options_t);
    fn rocksdb_options_set_compaction_filter(handle: *mut rocksdb_options_t, value: *mut rocksdb_compactionfilter_t);
    fn rocksdb_options_set_compression(handle: *mut rocksdb_options_t, value: c_int);
    fn rocksdb_options_set_create_if_missing(handle: *mut rocksdb_options_t, value: c_uchar);
    fn rocksdb_options_set_keep_log_file_num(handle: *mut rocksdb_options_t, value: usize);
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(handle: *mut rocksdb_options_t, value: c_uchar);
    fn rocksdb_options_set_max_background_jobs(handle: *mut rocksdb_options_t, value: c_int);
    fn rocksdb_options_set_max_log_file_size(handle: *mut rocksdb_options_t, value: usize);
    fn rocksdb_options_set_max_successive_merges(handle: *mut rocksdb_options_t, value: usize);
    fn rocksdb_options_set_max_write_buffer_number(handle: *mut rocksdb_options_t, value: c_int);
    fn rocksdb_options_set_merge_operator(handle: *mut rocksdb_options_t, value: *mut rocksdb_mergeoperator_t);
    fn rocksdb_options_set_ratelimiter(opt: *mut rocksdb_options_t, limiter: *mut rocksdb_ratelimiter_t);
    fn rocksdb_options_set_target_file_size_base(handle: *mut rocksdb_options_t, value: u64);
    fn rocksdb_options_set_write_buffer_size(handle: *mut rocksdb_options_t, value: usize);
    fn rocksdb_options_statistics_get_string(opt: *mut rocksdb_options_t) -> *mut c_char;
    fn rocksdb_pinnableslice_destroy(v: *mut rocksdb_pinnableslice_t);
    fn rocksdb_pinnableslice_value(t: *const rocksdb_pinnableslice_t, vlen: *mut usize) -> *const c_char;
    fn rocksdb_property_int(db: *mut rocksdb_t, propname: *const c_char, out_val: *mut u64) -> c_int;
    fn rocksdb_property_value(db: *mut rocksdb_t, propname: *const c_char) -> *mut c_char;
    fn rocksdb_ratelimiter_create(rate_bytes_per_sec: i64, refill_period_us: i64, fairness: i32) -> *mut rocksdb_ratelimiter_t;
    fn rocksdb_ratelimiter_destroy(handle: *mut rocksdb_ratelimiter_t);
    fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t;
    fn rocksdb_readoptions_destroy(handle: *mut rocksdb_readoptions_t);
    fn rocksdb_readoptions_set_iterate_lower_bound(handle: *mut rocksdb_readoptions_t, key: *const c_char, keylen: usize);
    fn rocksdb_readoptions_set_iterate_upper_bound(handle: *mut rocksdb_readoptions_t, key: *const c_char, keylen: usize);
    fn rocksdb_readoptions_set_snapshot(handle: *mut rocksdb_readoptions_t, value: *const rocksdb_snapshot_t);
    fn rocksdb_release_snapshot(db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t);
    fn rocksdb_set_options(db: *mut rocksdb_t, count: c_int, keys: *const *const c_char, values: *const *const c_char, errptr: *mut *mut c_char);
    fn rocksdb_sstfilewriter_create(env: *const rocksdb_envoptions_t, io_options: *const rocksdb_options_t) -> *mut rocksdb_sstfilewriter_t;
    fn rocksdb_sstfilewriter_destroy(writer: *mut rocksdb_sstfilewriter_t);
    fn rocksdb_sstfilewriter_finish(writer: *mut rocksdb_sstfilewriter_t, errptr: *mut *mut c_char);
    fn rocksdb_sstfilewriter_open(writer: *mut rocksdb_sstfilewriter_t, name: *const c_char, errptr: *mut *mut c_char);
    fn rocksdb_sstfilewriter_put(writer: *mut rocksdb_sstfilewriter_t, key: *const c_char, keylen: usize, val: *const c_char, vallen: usize, errptr: *mut *mut c_char);
    fn rocksdb_write(db: *mut rocksdb_t, options: *const rocksdb_writeoptions_t, batch: *mut rocksdb_writebatch_t, errptr: *mut *mut c_char);
    fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t;
    fn rocksdb_writebatch_delete(handle: *mut rocksdb_writebatch_t, key: *const c_char, klen: usize);
    fn rocksdb_writebatch_delete_range(b: *mut rocksdb_writebatch_t, start_key: *const c_char, start_key_len: usize, end_key: *const c_char, end_key_len: usize);
    fn rocksdb_writebatch_destroy(handle: *mut rocksdb_writebatch_t);
    fn rocksdb_writebatch_merge(handle: *mut rocksdb_writebatch_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize);
    fn rocksdb_writebatch_putv(b: *mut rocksdb_writebatch_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize, num_values: c_int, values_list: *const *const c_char, values_list_sizes: *const usize);
    fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t;
    fn rocksdb_writeoptions_destroy(handle: *mut rocksdb_writeoptions_t);
    fn rocksdb_writeoptions_disable_WAL(opt: *mut rocksdb_writeoptions_t, disable: c_int);
}
