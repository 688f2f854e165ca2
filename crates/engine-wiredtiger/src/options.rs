//! Options of the engine.

use arbor_engine::{Error, Result, TreeOptions};

use crate::config_string;
use crate::raw::has_extension;

/// Compressors of blocks that the packages of the library bring; the two others that MongoDB's WiredTiger has are refused
/// by name.
pub const COMPRESSORS: &[&str] = &["none", "snappy", "zlib"];

/// Compressors that are shared objects next to the library.
pub(crate) const EXTENSIONS: &[&str] = &["snappy", "zlib"];

/// Smallest cache. A batch with larger rows gets more for as long as it is applied (`edit.rs`).
pub(crate) const CACHE_BYTES_MIN: u64 = 32 << 20;

/// Maximum wait of one call for room in the cache. Without one, calls whose pages fill the cache would wait for each other without end.
const CACHE_WAIT_MS_MAX: u64 = 1000;

/// As MongoDB has it.
const EVICTION_THREADS_MAX: u64 = 4;
const CACHE_BYTES_PER_EVICTION_THREAD: u64 = 128 << 20;

/// Dirty pages for which there is room, if the cache is large enough: some of the largest rows.
const DIRTY_BYTES_MIN: u64 = 52 << 20;

#[derive(Clone, Debug)]
pub struct WiredTigerOptions {
    /// Memory of WiredTiger's cache, at least 32 MB.
    pub cache_bytes: u64,
    /// Compressor of trees that name none: one of [`COMPRESSORS`].
    pub compression: String,
    /// `storage.wiredTiger.engineConfig.configString`: more of `wiredtiger_open`.
    pub config_string: String,
    /// More of `WT_SESSION.create` for every tree, under what the tree itself says.
    pub tree_config_string: String,
    /// Puts and deletes look for the row that they replace, so that rows are counted but for range deletes. Without,
    /// each put counts as a new row.
    pub count_rows: bool,
}

impl Default for WiredTigerOptions {
    fn default() -> WiredTigerOptions {
        WiredTigerOptions {
            cache_bytes: 256 << 20,
            compression: if has_extension("snappy") { "snappy" } else { "none" }.to_owned(),
            config_string: String::new(),
            tree_config_string: String::new(),
            count_rows: true,
        }
    }
}

fn invalid(name: &str, reason: impl Into<String>) -> Error {
    Error::InvalidOption { name: name.to_owned(), reason: reason.into() }
}

impl WiredTigerOptions {
    /// Options from settings by the names of MongoDB's `storage.wiredTiger`: `wiredTiger.cacheSizeGB`,
    /// `wiredTiger.blockCompressor`, `wiredTiger.configString`, `wiredTiger.collectionConfigString`. What belongs to other
    /// engines is passed over; the last of a name counts.
    pub fn from_settings(settings: &[(String, String)]) -> Result<WiredTigerOptions> {
        let mut options = WiredTigerOptions::default();
        for (name, value) in settings {
            match name.as_str() {
                "wiredTiger.cacheSizeGB" => options.cache_bytes = gigabytes(name, value)?,
                "wiredTiger.blockCompressor" => options.compression = value.clone(),
                "wiredTiger.configString" => options.config_string = value.clone(),
                "wiredTiger.collectionConfigString" => options.tree_config_string = value.clone(),
                _ => {}
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Errors: `InvalidOption` by the name that [`WiredTigerOptions::from_settings`] knows.
    pub fn check(&self) -> Result<()> {
        check_compressor("wiredTiger.blockCompressor", &self.compression)?;
        config_string::check_open("wiredTiger.configString", &self.config_string)?;
        config_string::check_create("wiredTiger.collectionConfigString", &self.tree_config_string)
    }

    pub(crate) fn open_config(&self) -> String {
        // The user's string comes last, so that it counts; what must not change is refused in it.
        format!(
            "create,config_base=false,use_environment=false,session_max=20000,session_scratch_max=128KB,log=(enabled=false),checkpoint=(wait=0),\
             statistics=(fast),eviction=(threads_min=1,threads_max={}),eviction_dirty_trigger={},eviction_dirty_target={},\
             file_manager=(close_idle_time=600,close_scan_interval=10,close_handle_minimum=250),\
             cache_max_wait_ms={CACHE_WAIT_MS_MAX},cache_size={},{}",
            self.eviction_threads(),
            self.dirty_trigger(),
            self.dirty_trigger() / 2,
            self.cache_bytes.max(CACHE_BYTES_MIN),
            self.config_string
        )
    }

    /// Returns the number of threads that write pages out of the cache. Each holds images of its page outside of the cache, of up to
    /// some 50 MB for a page of large values, so a small cache has few.
    fn eviction_threads(&self) -> u64 {
        (self.cache_bytes / CACHE_BYTES_PER_EVICTION_THREAD).clamp(1, EVICTION_THREADS_MAX)
    }

    /// Returns the percentage of the cache that may be dirty before writers evict; 20 is WiredTiger's own. In a small cache that is less
    /// than one large row, which cannot be evicted before it is stable: WiredTiger would write it to its lookaside table and
    /// copy its page again and again, in up to three times the cache.
    fn dirty_trigger(&self) -> u64 {
        (DIRTY_BYTES_MIN * 100 / self.cache_bytes.max(CACHE_BYTES_MIN)).clamp(20, 80)
    }

    /// Returns the configuration of a tree's table. Requires: the options were checked.
    pub(crate) fn create_config(&self, options: &TreeOptions) -> Result<String> {
        let mut config = format!(
            "key_format=u,value_format=u,memory_page_max=10MB,split_pct=90,leaf_value_max=64MB,checksum=on,\
             block_compressor={},{}",
            self.compression, self.tree_config_string
        );
        for (name, value) in &options.settings {
            config.push(',');
            config.push_str(&tree_config(name, value)?);
        }
        Ok(config)
    }
}

fn gigabytes(name: &str, value: &str) -> Result<u64> {
    let number: f64 = value.parse().map_err(|_| invalid(name, format!("'{value}' is no number")))?;
    match number.is_finite() && (0.0..=10_000.0).contains(&number) {
        true => Ok((number * f64::from(1 << 30)) as u64),
        false => Err(invalid(name, "it must be between 0 and 10000")),
    }
}

fn check_compressor(name: &str, compressor: &str) -> Result<()> {
    let known = COMPRESSORS.contains(&compressor) && (compressor == "none" || has_extension(compressor));
    match known {
        true => Ok(()),
        false => Err(invalid(
            name,
            format!("this WiredTiger has no block compressor '{compressor}'; known are {}", COMPRESSORS.join(", ")),
        )),
    }
}

/// Returns the part of `WT_SESSION.create` for one setting of a tree.
fn tree_config(name: &str, value: &str) -> Result<String> {
    let config = match name {
        "compression" | "blockCompressor" | "block_compressor" => {
            check_compressor(name, value)?;
            format!("block_compressor={value}")
        }
        "leafPageMax" | "leaf_page_max" => format!("leaf_page_max={value}"),
        "internalPageMax" | "internal_page_max" => format!("internal_page_max={value}"),
        "allocationSize" | "allocation_size" => format!("allocation_size={value}"),
        "prefixCompression" | "prefix_compression" => format!("prefix_compression={value}"),
        "configString" => value.to_owned(),
        _ => return Err(invalid(name, "unknown to the engine wiredTiger")),
    };
    config_string::check_create(name, &config)?;
    Ok(config)
}

/// Errors: `InvalidOption` for a name or value that no table is made with.
pub(crate) fn check_tree_options(options: &TreeOptions) -> Result<()> {
    options.settings.iter().try_for_each(|(name, value)| tree_config(name, value).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, value: &str) -> Result<()> {
        check_tree_options(&TreeOptions { settings: vec![(name.to_owned(), value.to_owned())] })
    }

    #[test]
    fn tree_options_are_checked() {
        for (name, value) in [
            ("compression", "zlib"),
            ("blockCompressor", "none"),
            ("leafPageMax", "16KB"),
            ("internalPageMax", "4096"),
            ("allocation_size", "4KB"),
            ("prefixCompression", "true"),
            ("configString", "block_compressor=zlib,leaf_page_max=64KB"),
            ("configString", ""),
        ] {
            tree(name, value).unwrap();
        }
        for (name, value, reason) in [
            ("compression", "zstd", "no block compressor 'zstd'"),
            ("compression", "lz4", "known are none, snappy, zlib"),
            ("leafPageMax", "many", "leaf_page_max"),
            ("leafPageMax", "1KB,key_format=S", "key_format"),
            ("configString", "type=lsm", "type"),
            ("configString", "no_such=1", "no_such"),
            ("configString", "block_compressor=zstd", "zstd"),
            ("pageSize", "4096", "unknown to the engine wiredTiger"),
        ] {
            match tree(name, value) {
                Err(Error::InvalidOption { name: named, reason: said }) => {
                    assert!(named == name && said.contains(reason), "{name}={value}: {said}");
                }
                other => panic!("{name}={value}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_small_cache_has_few_threads_and_room_for_large_rows() {
        let sizes = |mib: u64| {
            let options = WiredTigerOptions { cache_bytes: mib << 20, ..WiredTigerOptions::default() };
            (options.eviction_threads(), options.dirty_trigger())
        };
        assert_eq!([32, 64, 128, 256, 512, 4096].map(sizes), [(1, 80), (1, 80), (1, 40), (2, 20), (4, 20), (4, 20)]);
        let config = WiredTigerOptions { cache_bytes: 64 << 20, ..WiredTigerOptions::default() }.open_config();
        assert!(config.contains("threads_max=1),eviction_dirty_trigger=80,eviction_dirty_target=40,"), "{config}");
    }

    #[test]
    fn settings_have_mongodbs_names() {
        let settings = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| (format!("wiredTiger.{name}"), (*value).to_owned())).collect()
        };
        let options = WiredTigerOptions::from_settings(&settings(&[
            ("cacheSizeGB", "0.5"),
            ("blockCompressor", "zlib"),
            ("configString", "eviction_dirty_target=10,file_manager=(close_idle_time=30)"),
        ]));
        let options = options.unwrap();
        assert_eq!((options.cache_bytes, options.compression.as_str()), (512 << 20, "zlib"));
        assert!(options.open_config().ends_with("file_manager=(close_idle_time=30)"));
        for (name, value, reason) in [
            ("cacheSizeGB", "much", "no number"),
            ("blockCompressor", "zstd", "known are"),
            ("configString", "log=(enabled=true)", "log"),
            ("configString", "cache_size=1GB", "cache_size"),
            ("configString", "eviction_target=lots", "eviction_target"),
            ("configString", "home=(/tmp", "bracket"),
            ("collectionConfigString", "source=\"file:x\"", "source"),
        ] {
            match WiredTigerOptions::from_settings(&settings(&[(name, value)])) {
                Err(Error::InvalidOption { name: named, reason: said }) => {
                    assert!(named.ends_with(name) && said.contains(reason), "{name}={value}: {said}");
                }
                other => panic!("{name}={value}: {other:?}"),
            }
        }
    }
}
