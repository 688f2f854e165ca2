//! Opening of RocksDB from the settings.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::{Engine, Result};
use arbor_engine_rocksdb::{RocksEngine, RocksOptions};
use arbor_lab::kv::KvSettings;

const PREFIX: &str = "rocksdb.";
const OPTION_STRING: &str = "rocksdb.configString";

/// Returns true if the option is for this engine; a wrong one is refused when the engine is opened.
pub(super) fn takes(option: &str) -> bool {
    option.starts_with(PREFIX)
}

/// Returns a warning about an option that is accepted.
pub(super) fn warning(option: &str, options: &[(String, String)]) -> Option<String> {
    if option != OPTION_STRING {
        return None;
    }
    let (_, warnings) = RocksOptions::from_settings(&own(options)).ok()?;
    (!warnings.is_empty()).then(|| warnings.join("; "))
}

pub(super) fn open(
    directory: &Path,
    cache_bytes: Option<u64>,
    options: &[(String, String)],
) -> Result<Arc<dyn Engine>> {
    // Before options are checked, for which the library is needed as well.
    arbor_engine_rocksdb::available()?;
    let (chosen, _) = RocksOptions::from_settings(&own(options))?;
    let cache_bytes = cache_bytes.map_or(chosen.cache_bytes, |bytes| bytes as usize);
    Ok(Arc::new(RocksEngine::open(directory, RocksOptions { cache_bytes, ..chosen })?))
}

/// Opens RocksDB with one budget for the cache and up to four memtables.
pub(super) fn open_alone(directory: &Path, settings: &KvSettings) -> Result<Arc<dyn Engine>> {
    let memtable_bytes = (settings.cache_bytes / 16).clamp(1 << 20, 64 << 20);
    let options = RocksOptions {
        cache_bytes: settings.cache_bytes.saturating_sub(4 * memtable_bytes) as usize,
        memtable_bytes: Some(memtable_bytes),
        // The other engines do not count what their caches do either.
        counters: false,
        updates: Some(settings.updates.clone()),
        ..RocksOptions::default()
    };
    Ok(Arc::new(RocksEngine::open(directory, options)?))
}

fn own(options: &[(String, String)]) -> Vec<(String, String)> {
    options.iter().filter(|(name, _)| takes(name)).cloned().collect()
}
