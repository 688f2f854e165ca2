//! WiredTiger by the options that MongoDB gives it.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::{Engine, Result, TreeOptions};
use arbor_engine_wiredtiger::{WiredTigerEngine, WiredTigerOptions};
use arbor_lab::kv::KvSettings;
use arbor_store::EngineNames;

/// Options of `--wiredTiger...` that have a meaning here.
const TAKEN: &[&str] = &[
    "wiredTiger.blockCompressor",
    "wiredTiger.prefixCompression",
    "wiredTiger.configString",
    "wiredTiger.collectionConfigString",
    "wiredTiger.indexConfigString",
];

pub(super) fn takes(option: &str) -> bool {
    TAKEN.contains(&option)
}

pub(super) fn open(
    directory: &Path,
    cache_bytes: Option<u64>,
    options: &[(String, String)],
) -> Result<Arc<dyn Engine>> {
    // Before options are checked, for which the library is needed as well.
    arbor_engine_wiredtiger::available()?;
    let options: Vec<_> =
        options.iter().filter(|(name, _)| name != "wiredTiger.collectionConfigString").cloned().collect();
    let options = WiredTigerOptions::from_settings(&options)?;
    let cache_bytes = cache_bytes.unwrap_or(options.cache_bytes);
    Ok(Arc::new(WiredTigerEngine::open(directory, WiredTigerOptions { cache_bytes, ..options })?))
}

/// Nothing reads the counts there, and no write of WiredTiger's own would read for them.
pub(super) fn open_alone(directory: &Path, settings: &KvSettings) -> Result<Arc<dyn Engine>> {
    arbor_engine_wiredtiger::available()?;
    let usual = WiredTigerOptions { count_rows: false, ..WiredTigerOptions::default() };
    let options = WiredTigerOptions { cache_bytes: settings.cache_bytes, ..usual };
    Ok(Arc::new(WiredTigerEngine::open(directory, options)?))
}

/// As MongoDB makes them: indexes with shared prefixes, small pages and no compressor.
pub(super) fn names(options: &[(String, String)]) -> EngineNames {
    let given = |name: &str| options.iter().rfind(|(option, _)| option == name).map(|(_, value)| value.as_str());
    let mut collections = Vec::new();
    let mut indexes = vec![("configString", "leaf_page_max=16KB,internal_page_max=16KB")];
    indexes.push(("prefixCompression", given("wiredTiger.prefixCompression").unwrap_or("true")));
    indexes.push(("compression", "none"));
    if let Some(compressor) = given("wiredTiger.blockCompressor") {
        collections.push(("compression", compressor));
    }
    if let Some(text) = given("wiredTiger.collectionConfigString") {
        collections.push(("configString", text));
    }
    if let Some(text) = given("wiredTiger.indexConfigString") {
        indexes.push(("configString", text));
    }
    let owned = |list: Vec<(&str, &str)>| TreeOptions {
        settings: list.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    };
    let (collections, indexes) = (owned(collections), owned(indexes));
    EngineNames { name: "wiredTiger", collections, indexes, ..EngineNames::default() }
}
