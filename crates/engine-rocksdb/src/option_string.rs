//! `storage.rocksdb.configString`: RocksDB's own option string, `name=value;name={name=value;...};...`.
//!
//! Each name gets one of four answers: handed to RocksDB ([`TUNABLE`]), turned into an option of the adapter
//! ([`apply`]), passed over with a warning because RocksDB has it no more ([`RETIRED`]), or refused. Names that RocksDB
//! knows and this list does not are refused too: with them the adapter's promises (no flush before the log, snapshots,
//! the order of keys) could be broken.

use arbor_engine::{Error, Result};

use crate::options::{COMPRESSIONS, RocksOptions};
use crate::raw::check_option;

/// The setting that errors and warnings name.
const SETTING: &str = "rocksdb.configString";

/// Options that may be set freely, with RocksDB's meaning.
const TUNABLE: &[&str] = &[
    // the database
    "advise_random_on_open",
    "allow_mmap_reads",
    "bytes_per_sync",
    "compaction_readahead_size",
    "delayed_write_rate",
    "delete_obsolete_files_period_micros",
    "info_log_level",
    "keep_log_file_num",
    "max_background_jobs",
    "max_file_opening_threads",
    "max_log_file_size",
    "max_manifest_file_size",
    "max_open_files",
    "max_subcompactions",
    "skip_stats_update_on_db_open",
    "stats_dump_period_sec",
    "strict_bytes_per_sync",
    "table_cache_numshardbits",
    "use_adaptive_mutex",
    "use_direct_io_for_flush_and_compaction",
    "use_direct_reads",
    "writable_file_max_buffer_size",
    // the trees
    "arena_block_size",
    "block_based_table_factory",
    "bottommost_compression",
    "bottommost_compression_opts",
    "compaction_options_universal",
    "compaction_pri",
    "compaction_style",
    "compression_opts",
    "compression_per_level",
    "disable_auto_compactions",
    "force_consistency_checks",
    "hard_pending_compaction_bytes_limit",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "level_compaction_dynamic_level_bytes",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_bytes_for_level_multiplier_additional",
    "max_compaction_bytes",
    "max_sequential_skip_in_iterations",
    "memtable_huge_page_size",
    "memtable_prefix_bloom_size_ratio",
    "memtable_whole_key_filtering",
    "num_levels",
    "optimize_filters_for_hits",
    "paranoid_file_checks",
    "periodic_compaction_seconds",
    "report_bg_io_stats",
    "soft_pending_compaction_bytes_limit",
    "target_file_size_base",
    "target_file_size_multiplier",
];

/// Options that RocksDB had once, and their replacements.
const RETIRED: &[(&str, &str)] = &[
    ("soft_rate_limit", "soft_pending_compaction_bytes_limit"),
    ("hard_rate_limit", "hard_pending_compaction_bytes_limit"),
    ("rate_limit_delay_max_milliseconds", "delayed_write_rate"),
    ("max_grandparent_overlap_factor", "max_compaction_bytes"),
    ("source_compaction_factor", "max_compaction_bytes"),
    ("expanded_compaction_factor", "max_compaction_bytes"),
    ("base_background_compactions", "max_background_jobs"),
    ("max_mem_compaction_level", "nothing"),
    ("verify_checksums_in_compaction", "nothing, checksums are always verified"),
    ("filter_deletes", "nothing"),
    ("purge_redundant_kvs_while_flush", "nothing"),
    ("min_partial_merge_operands", "nothing"),
    ("table_cache_remove_scan_count_limit", "nothing"),
    ("allow_os_buffer", "use_direct_reads"),
    ("disable_data_sync", "nothing"),
    ("disableDataSync", "nothing"),
    ("skip_log_error_on_recovery", "nothing"),
    ("new_table_reader_for_compaction_inputs", "nothing"),
    ("preserve_deletes", "nothing"),
];

/// Puts an option string into the options. Returns the warnings.
pub(crate) fn apply(text: &str, options: &mut RocksOptions) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let mut jobs = 0;
    for (name, value) in parse(text)? {
        if let Some((_, now)) = RETIRED.iter().find(|(retired, _)| *retired == name) {
            warnings.push(format!("{SETTING}: RocksDB has '{name}' no more, it is passed over (in its place: {now})"));
            continue;
        }
        match name {
            // RocksDB must not flush by itself, so these bound what the adapter lets it hold.
            "write_buffer_size" => options.memtable_bytes = Some(bytes(name, value)?.max(1)),
            "max_write_buffer_number" => options.memtables_max = bytes(name, value)?.clamp(2, 64),
            "max_background_compactions" | "max_background_flushes" => jobs += bytes(name, value)?,
            "compression" => options.compression = compression_name(value).to_owned(),
            _ => {
                check(name, value)?;
                options.library.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    if jobs > 0 && !options.library.iter().any(|(name, _)| name == "max_background_jobs") {
        options.library.push(("max_background_jobs".to_owned(), jobs.to_string()));
        warnings.push(format!(
            "{SETTING}: max_background_compactions and max_background_flushes became max_background_jobs={jobs}"
        ));
    }
    Ok(warnings)
}

fn invalid(reason: String) -> Error {
    Error::InvalidOption { name: SETTING.to_owned(), reason }
}

/// Errors: not an option that may be set, or a value that RocksDB does not take.
pub(crate) fn check(name: &str, value: &str) -> Result<()> {
    if !TUNABLE.contains(&name) {
        return Err(invalid(format!("'{name}' is unknown, or not an option that can be set here")));
    }
    if name == "compaction_style" && value.contains("FIFO") {
        return Err(invalid("compaction_style FIFO would delete rows".to_owned()));
    }
    let own_cache = |inner: &str| inner.contains("block_cache") && !inner.contains("no_block_cache");
    if name == "block_based_table_factory" && own_cache(value) {
        return Err(invalid("the block cache is set by cacheSizeGB".to_owned()));
    }
    check_option(name, value).map_err(|reason| invalid(format!("'{name}={value}': {reason}")))
}

/// The top level of an option string.
fn parse(text: &str) -> Result<Vec<(&str, &str)>> {
    split(text)?
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| invalid(format!("'{part}' has no '='")))?;
            Ok((name.trim(), value.trim()))
        })
        .collect()
}

/// At the semicolons outside of braces.
fn split(text: &str) -> Result<Vec<&str>> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1).ok_or_else(|| invalid("a '}' without '{'".to_owned()))?,
            ';' if depth == 0 => {
                parts.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            '\0' => return Err(invalid("a zero byte".to_owned())),
            _ => {}
        }
    }
    if depth > 0 {
        return Err(invalid("a '{' without '}'".to_owned()));
    }
    parts.push(text.get(begin..).unwrap_or_default());
    Ok(parts)
}

/// A number with RocksDB's suffixes k, m, g, t.
pub(crate) fn bytes(name: &str, value: &str) -> Result<u64> {
    let shift = match value.trim_start_matches(|letter: char| letter.is_ascii_digit()) {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(invalid(format!("'{name}={value}' is not a size"))),
    };
    let digits = value.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| invalid(format!("'{name}={value}' is not a size")))
}

/// The adapter's name of what RocksDB calls `kSnappyCompression`; other names stay.
pub(crate) fn compression_name(value: &str) -> &str {
    COMPRESSIONS.iter().find(|known| known.library == value).map_or(value, |known| known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Founding text 000.
    const FOUNDING: &str = "write_buffer_size=16m;max_write_buffer_number=4;max_background_compactions=6;\
        max_background_flushes=3;target_file_size_base=16m;soft_rate_limit=2.9;hard_rate_limit=3;\
        max_bytes_for_level_base=128m;stats_dump_period_sec=60;level0_file_num_compaction_trigger=4;\
        level0_slowdown_writes_trigger=12;level0_stop_writes_trigger=20;max_grandparent_overlap_factor=8;\
        max_bytes_for_level_multiplier=8";

    #[test]
    fn the_founding_text_is_taken() {
        let mut options = RocksOptions::default();
        let warnings = apply(FOUNDING, &mut options).unwrap();
        assert_eq!((options.memtable_bytes, options.memtables_max), (Some(16 << 20), 4));
        let library: Vec<String> = options.library.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            library,
            [
                "target_file_size_base=16m",
                "max_bytes_for_level_base=128m",
                "stats_dump_period_sec=60",
                "level0_file_num_compaction_trigger=4",
                "level0_slowdown_writes_trigger=12",
                "level0_stop_writes_trigger=20",
                "max_bytes_for_level_multiplier=8",
                "max_background_jobs=9",
            ]
        );
        let about: Vec<&str> = warnings.iter().filter_map(|text| text.split('\'').nth(1)).collect();
        assert_eq!(about, ["soft_rate_limit", "hard_rate_limit", "max_grandparent_overlap_factor"]);
        assert!(warnings.last().unwrap().contains("max_background_jobs=9"), "{warnings:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, expected: &str| {
            let error = apply(text, &mut RocksOptions::default()).unwrap_err().to_string();
            assert!(error.starts_with("invalid option rocksdb.configString: ") && error.contains(expected), "{error}");
        };
        check("no_such_option=1", "'no_such_option' is unknown");
        check("comparator=leveldb.BytewiseComparator", "'comparator'");
        check("atomic_flush=true", "'atomic_flush'");
        check("num_levels=many", "'num_levels=many'");
        check("write_buffer_size=16x", "'write_buffer_size=16x' is not a size");
        check("write_buffer_size", "has no '='");
        check("block_based_table_factory={block_size=4k", "a '{' without '}'");
        check("a=b}", "a '}' without '{'");
        check("block_based_table_factory={block_cache=1g}", "cacheSizeGB");
        check("block_based_table_factory={no_such=1}", "block_based_table_factory");
        check("compaction_style=kCompactionStyleFIFO", "delete rows");
    }

    #[test]
    fn strings_are_split_outside_of_braces() {
        let mut options = RocksOptions::default();
        let text = " block_based_table_factory={block_size=16k;format_version=5} ; compression=kZSTD;;";
        assert_eq!(apply(text, &mut options).unwrap(), Vec::<String>::new());
        let value = "{block_size=16k;format_version=5}".to_owned();
        assert_eq!(options.library, [("block_based_table_factory".to_owned(), value)]);
        assert_eq!(options.compression, "zstd");
        assert_eq!(bytes("x", "3k").unwrap(), 3072);
        assert!(bytes("x", "99999999999g").is_err());
    }
}
