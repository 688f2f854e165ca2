//! What the user of the engine may choose.

use arbor_engine::{Error, Result, TreeOptions};

/// Names of compressions that the system's RocksDB is built with.
pub const COMPRESSIONS: &[&str] = &["none", "snappy", "zlib", "bzip2", "lz4", "lz4hc", "zstd"];

#[derive(Clone, Debug)]
pub struct RocksOptions {
    /// Cache of uncompressed blocks. The memtables come on top, up to four times `memtable_bytes`.
    pub cache_bytes: usize,
    /// A checkpoint begins by itself when this much was written since the last one.
    pub memtable_bytes: u64,
    /// One of [`COMPRESSIONS`], for all trees.
    pub compression: String,
    /// Largest file of a bulk load, before compression.
    pub load_file_bytes: u64,
    /// Counts of rows stay exact, for which every put, delete and range delete reads what it replaces. Without, writes read
    /// nothing, and counts are what RocksDB estimates.
    pub exact_counts: bool,
}

impl RocksOptions {
    /// The size at which RocksDB flushes a memtable by itself: far above what the adapter lets it hold. Not without
    /// bound: after a full disk RocksDB takes writes again when so much space is free.
    pub(crate) fn write_buffer_bytes(&self) -> u64 {
        self.memtable_bytes.saturating_mul(16).clamp(16 << 20, 64 << 30)
    }
}

impl Default for RocksOptions {
    fn default() -> RocksOptions {
        RocksOptions {
            cache_bytes: 256 << 20,
            memtable_bytes: 64 << 20,
            compression: "snappy".to_owned(),
            load_file_bytes: 256 << 20,
            exact_counts: true,
        }
    }
}

/// RocksDB's number of a compression.
pub fn compression_number(name: &str) -> Result<i32> {
    let numbers = [0, 1, 2, 3, 4, 5, 7];
    let found = COMPRESSIONS.iter().zip(numbers).find(|(known, _)| **known == name);
    found.map(|(_, number)| number).ok_or_else(|| Error::InvalidOption {
        name: "compression".to_owned(),
        reason: format!("RocksDB has no compression '{name}'; known are {}", COMPRESSIONS.join(", ")),
    })
}

/// Options of a tree are checked and change nothing: all trees share one column family.
pub fn check_tree_options(options: &TreeOptions) -> Result<()> {
    options.settings.iter().try_for_each(|(name, value)| match name.as_str() {
        "compression" => compression_number(value).map(drop),
        _ => Err(Error::InvalidOption { name: name.clone(), reason: "unknown to the engine rocksdb".to_owned() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_have_numbers() {
        let check = |name, number| assert_eq!(compression_number(name).unwrap(), number, "{name}");
        check("none", 0);
        check("snappy", 1);
        check("lz4", 4);
        check("zstd", 7);
        assert!(compression_number("quicklz").unwrap_err().to_string().contains("known are none, snappy"));
    }

    #[test]
    fn tree_options_are_checked() {
        let check = |name: &str, value: &str| {
            check_tree_options(&TreeOptions { settings: vec![(name.to_owned(), value.to_owned())] }).is_ok()
        };
        assert!(check("compression", "zstd"));
        assert!(!check("compression", "best") && !check("pageSize", "4096"));
    }
}
