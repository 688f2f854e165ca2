//! Options of the engine.

use std::sync::Arc;

use arbor_engine::{Error, Result, TreeOptions, UpdateFunction};

use crate::option_string;

/// A compression by the name that users write.
#[derive(Debug)]
pub struct Compression {
    pub name: &'static str,
    /// RocksDB's name.
    pub library: &'static str,
    number: i32,
}

const fn compression(name: &'static str, library: &'static str, number: i32) -> Compression {
    Compression { name, library, number }
}

/// Compressors that RocksDB is built with.
pub const COMPRESSIONS: &[Compression] = &[
    compression("none", "kNoCompression", 0),
    compression("snappy", "kSnappyCompression", 1),
    compression("zlib", "kZlibCompression", 2),
    #[cfg(not(feature = "rocksdb-vendored"))]
    compression("bzip2", "kBZip2Compression", 3),
    compression("lz4", "kLZ4Compression", 4),
    compression("lz4hc", "kLZ4HCCompression", 5),
    compression("zstd", "kZSTD", 7),
];

#[derive(Clone, Debug)]
pub struct RocksOptions {
    /// Cache of uncompressed blocks. The memtables come on top, up to `memtables_max` times `memtable_bytes`.
    pub cache_bytes: usize,
    /// A checkpoint begins by itself when this much was written since the last one (`write_buffer_size`). `None`: as much
    /// as suits the cache.
    pub memtable_bytes: Option<u64>,
    /// From this multiple of `memtable_bytes` on writers wait for the checkpoint (`max_write_buffer_number`).
    pub memtables_max: u64,
    /// Name of one of [`COMPRESSIONS`], for all trees.
    pub compression: String,
    /// Largest file of a bulk load, before compression.
    pub load_file_bytes: u64,
    /// Bound of what flushes and compactions write together (`maxWriteMBPerSec`).
    pub write_bytes_per_second: Option<u64>,
    /// True if RocksDB counts what it does (cache hits, bytes of compactions, stalls), which costs a few percent.
    pub counters: bool,
    /// Further options by RocksDB's names, from the option string.
    pub library: Vec<(String, String)>,
    /// Meaning of update messages; without it they are refused.
    pub updates: Option<Arc<dyn UpdateFunction>>,
}

impl Default for RocksOptions {
    fn default() -> RocksOptions {
        RocksOptions {
            cache_bytes: 256 << 20,
            memtable_bytes: None,
            memtables_max: 4,
            compression: "snappy".to_owned(),
            load_file_bytes: 256 << 20,
            write_bytes_per_second: None,
            counters: true,
            library: Vec::new(),
            updates: None,
        }
    }
}

impl RocksOptions {
    /// From the settings `storage.rocksdb.*`, given as `rocksdb.NAME`; the last of a name counts. Returns the warnings
    /// that the user should see too. Errors: a name that is unknown here, or a value that is not taken.
    pub fn from_settings(settings: &[(String, String)]) -> Result<(RocksOptions, Vec<String>)> {
        let (mut options, mut warnings) = (RocksOptions::default(), Vec::new());
        for (name, value) in settings {
            let invalid = |reason: &str| Error::InvalidOption { name: name.clone(), reason: reason.to_owned() };
            match name.strip_prefix("rocksdb.").unwrap_or(name) {
                "cacheSizeGB" => options.cache_bytes = gigabytes(value).ok_or_else(|| invalid("not a size"))?,
                "compression" => options.compression = value.clone(),
                "configString" => {
                    options.library.clear();
                    warnings = option_string::apply(value, &mut options)?;
                }
                "maxWriteMBPerSec" => {
                    let megabytes: u64 = value.parse().map_err(|_| invalid("not a number"))?;
                    options.write_bytes_per_second = (megabytes > 0).then(|| megabytes.saturating_mul(1 << 20));
                }
                "counters" => options.counters = value.parse().map_err(|_| invalid("neither true nor false"))?,
                _ => return Err(invalid("unknown to the engine rocksdb")),
            }
        }
        compression_number(&options.compression)?;
        Ok((options, warnings))
    }

    /// Unless chosen an eighth of a small cache: up to `memtables_max` are held in addition to it, and all of the process is
    /// to stay below twice the cache.
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.unwrap_or_else(|| (self.cache_bytes as u64 / 8).clamp(4 << 20, 64 << 20))
    }

    /// The size at which RocksDB flushes a memtable by itself: far above what the adapter lets it hold. Not without
    /// bound: after a full disk RocksDB takes writes again when this much space is free.
    pub(crate) fn write_buffer_bytes(&self) -> u64 {
        self.memtable_bytes().saturating_mul(self.memtables_max).saturating_mul(4).clamp(16 << 20, 64 << 30)
    }
}

/// Errors: an option that a tree cannot have. All trees share one column family, so `compression` may be said but not
/// differ from the engine's.
pub(crate) fn check_tree(options: &TreeOptions, compression: &str) -> Result<()> {
    check_names(options)?;
    match options.settings.iter().find(|(_, value)| value != compression) {
        None => Ok(()),
        Some((name, value)) => Err(Error::InvalidOption {
            name: name.clone(),
            reason: format!(
                "all trees of the engine rocksdb have one compression (storage.rocksdb.compression), which is \
                 '{compression}', not '{value}'"
            ),
        }),
    }
}

/// Checks what holds for any option of a tree, whatever the engine was opened with since it was logged.
pub(crate) fn check_names(options: &TreeOptions) -> Result<()> {
    options.check_names("rocksdb", &["compression"])?;
    options.settings.iter().try_for_each(|(_, value)| compression_number(value).map(drop))
}

fn gigabytes(value: &str) -> Option<usize> {
    let size = value.parse::<f64>().ok().filter(|size| size.is_finite() && *size > 0.0)?;
    Some((size * f64::from(1 << 30)) as usize)
}

/// RocksDB's number of a compression.
pub(crate) fn compression_number(name: &str) -> Result<i32> {
    find_compression(name).map(|(_, known)| known.number)
}

/// Finds a compressor and its index in [`COMPRESSIONS`].
pub(crate) fn find_compression(name: &str) -> Result<(usize, &'static Compression)> {
    let found = COMPRESSIONS.iter().enumerate().find(|(_, known)| known.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = COMPRESSIONS.iter().map(|known| known.name).collect();
        Error::InvalidOption {
            name: "compression".to_owned(),
            reason: format!("RocksDB has no compression '{name}'; known are {}", known.join(", ")),
        }
    })
}

/// The one name, as a list.
pub(crate) fn compression_list(name: &str) -> &'static [&'static str] {
    const LISTS: &[&[&str]] = &[&["none"], &["snappy"], &["zlib"], &["bzip2"], &["lz4"], &["lz4hc"], &["zstd"]];
    LISTS.iter().find(|list| list.contains(&name)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[(&str, &str)]) -> Vec<(String, String)> {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn default_memtables_stay_small_with_a_small_cache() {
        for (cache_mb, memtable_bytes, expect_mb) in [
            (0, None, 4),
            (32, None, 4),
            (96, None, 12),
            (1024, None, 64),
            (96, Some(32 << 20), 32),
            (96, Some(64 << 20), 64),
        ] {
            let options = RocksOptions { cache_bytes: cache_mb << 20, memtable_bytes, ..RocksOptions::default() };
            assert_eq!(options.memtable_bytes(), expect_mb << 20, "{cache_mb} MB");
        }
    }

    #[test]
    fn compressions_have_numbers() {
        let check = |name, number| {
            assert_eq!(compression_number(name).unwrap(), number, "{name}");
            assert_eq!(compression_list(name), [name]);
        };
        check("none", 0);
        check("snappy", 1);
        check("lz4", 4);
        check("zstd", 7);
        assert!(compression_number("quicklz").unwrap_err().to_string().contains("known are none, snappy"));
    }

    #[test]
    fn tree_options_are_checked() {
        let check = |name: &str, value: &str| {
            let refused = check_tree(&TreeOptions { settings: settings(&[(name, value)]) }, "snappy");
            refused.map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(check("compression", "snappy"), "");
        assert!(check("compression", "zstd").contains("which is 'snappy', not 'zstd'"));
        assert!(check("compression", "best").contains("no compression 'best'"));
        assert!(check("pageSize", "4096").contains("pageSize"));
    }

    #[test]
    fn settings_become_options() {
        let given = [
            ("rocksdb.cacheSizeGB", "0.5"),
            ("rocksdb.compression", "zstd"),
            ("rocksdb.configString", "write_buffer_size=8m;hard_rate_limit=3;num_levels=5"),
            ("rocksdb.maxWriteMBPerSec", "20"),
            ("rocksdb.counters", "false"),
        ];
        let (options, warnings) = RocksOptions::from_settings(&settings(&given)).unwrap();
        assert_eq!((options.cache_bytes, options.memtable_bytes), (512 << 20, Some(8 << 20)));
        assert_eq!((options.compression.as_str(), options.counters), ("zstd", false));
        assert_eq!(options.write_bytes_per_second, Some(20 << 20));
        assert_eq!(options.library, settings(&[("num_levels", "5")]));
        assert!(warnings.len() == 1 && warnings[0].contains("hard_rate_limit"), "{warnings:?}");
        for (name, value) in [
            ("rocksdb.compression", "quicklz"),
            ("rocksdb.cacheSizeGB", "-1"),
            ("rocksdb.maxWriteMBPerSec", "fast"),
            ("rocksdb.counters", "perhaps"),
            ("rocksdb.fanout", "16"),
        ] {
            let refused = RocksOptions::from_settings(&settings(&[(name, value)]));
            assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{name}");
        }
    }
}
