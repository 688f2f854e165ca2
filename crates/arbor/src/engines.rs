//! The storage engines of this build, and how the settings open them.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::Engine;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
#[cfg(feature = "rocksdb-system")]
use arbor_engine_rocksdb::{RocksEngine, RocksOptions};
use arbor_lab::kv::KvEngine;

use crate::config::Settings;

/// Used where no engine, or one that is not in this build, is asked for.
const USUAL: &str = "lmdb";

const NAMES: &[&str] = &[
    USUAL,
    #[cfg(feature = "rocksdb-system")]
    "rocksdb",
];

/// What `arbor lab kv` measures.
pub const KV_ENGINES: &[KvEngine] = &[
    KvEngine {
        name: "lmdb",
        open: |folder, settings| {
            let options = LmdbOptions { updates: Some(settings.updates.clone()), ..LmdbOptions::default() };
            open_lmdb(folder, options).map_err(|error| error.to_string())
        },
    },
    #[cfg(feature = "rocksdb-system")]
    KvEngine {
        name: "rocksdb",
        open: |folder, settings| {
            let options = RocksOptions { cache_bytes: settings.cache_bytes as usize, ..RocksOptions::default() };
            open_rocksdb(folder, options).map_err(|error| error.to_string())
        },
    },
];

/// An engine of this build with what the user chose for it.
#[derive(Clone, Debug)]
pub struct EngineChoice {
    pub name: &'static str,
    pub cache_bytes: Option<u64>,
    /// One of the engine's names.
    pub compression: Option<String>,
}

impl EngineChoice {
    /// The engine by its name, if this build has it.
    pub fn named(name: &str) -> Option<EngineChoice> {
        let name = NAMES.iter().find(|known| **known == name)?;
        Some(EngineChoice { name, cache_bytes: None, compression: None })
    }

    /// What the settings ask for, as far as this build has it.
    pub fn of(settings: &Settings) -> EngineChoice {
        let usual = EngineChoice { name: USUAL, cache_bytes: None, compression: None };
        let mut choice = EngineChoice::named(&settings.engine).unwrap_or(usual);
        if choice.name == "rocksdb" {
            choice.cache_bytes = settings.cache_bytes;
            let mut given = settings.engine_options.iter();
            choice.compression = given.rfind(|(name, _)| choice.takes(name)).map(|(_, value)| value.clone());
        }
        choice
    }

    /// Whether the engine knows an option of [`Settings::engine_options`].
    pub fn takes(&self, option: &str) -> bool {
        self.name == "rocksdb" && option == "rocksdb.compression"
    }

    /// Whether the engine has a cache of its own.
    pub fn has_cache(&self) -> bool {
        self.name == "rocksdb"
    }

    pub fn open(&self, folder: &Path) -> arbor_engine::Result<Arc<dyn Engine>> {
        match self.name {
            #[cfg(feature = "rocksdb-system")]
            "rocksdb" => {
                let usual = RocksOptions::default();
                let options = RocksOptions {
                    cache_bytes: self.cache_bytes.map_or(usual.cache_bytes, |bytes| bytes as usize),
                    compression: self.compression.clone().unwrap_or(usual.compression),
                    ..usual
                };
                open_rocksdb(folder, options)
            }
            _ => open_lmdb(folder, LmdbOptions::default()),
        }
    }
}

fn open_lmdb(folder: &Path, options: LmdbOptions) -> arbor_engine::Result<Arc<dyn Engine>> {
    Ok(Arc::new(LmdbEngine::open(folder, options)?))
}

#[cfg(feature = "rocksdb-system")]
fn open_rocksdb(folder: &Path, options: RocksOptions) -> arbor_engine::Result<Arc<dyn Engine>> {
    Ok(Arc::new(RocksEngine::open(folder, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(engine: &str) -> EngineChoice {
        let engine_options = vec![("rocksdb.compression".to_owned(), "zstd".to_owned())];
        let settings =
            Settings { engine: engine.to_owned(), cache_bytes: Some(7), engine_options, ..Settings::default() };
        EngineChoice::of(&settings)
    }

    #[test]
    fn engines_of_other_builds_give_way() {
        assert_eq!(asked("wiredTiger").name, "lmdb");
        let lmdb = asked("lmdb");
        assert_eq!((lmdb.name, lmdb.cache_bytes, lmdb.compression), ("lmdb", None, None));
        assert!(EngineChoice::named("paper").is_none());
    }

    #[cfg(feature = "rocksdb-system")]
    #[test]
    fn rocksdb_takes_its_options() {
        let rocksdb = asked("rocksdb");
        assert_eq!((rocksdb.name, rocksdb.cache_bytes), ("rocksdb", Some(7)));
        assert_eq!(rocksdb.compression.as_deref(), Some("zstd"));
    }
}
