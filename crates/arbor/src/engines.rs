//! The storage engines of this build, and how the settings open them.

mod ftree;
mod rocksdb;
mod several;
mod wiredtiger;

use std::path::Path;
use std::sync::Arc;

use arbor_engine::Engine;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions, READERS_MAX, RESTING_ALL_MAX};
use arbor_engine_rocksdb::RocksOptions;
use arbor_engine_wiredtiger::WiredTigerOptions;
use arbor_lab::kv::{EngineFacts, KvEngine};
use arbor_query::CURSORS_MAX;
use arbor_server::BLOCKING_THREADS_MAX;
use arbor_session::TRANSACTIONS_MAX;
use arbor_store::EngineNames;

use crate::config::Settings;
use crate::memory::Sizes;

pub(crate) use ftree::inspection as ftree_options;
pub(crate) use several::Engines;

/// Used where no engine, or one that is not in this build, is asked for.
pub(crate) const USUAL: &str = "ftree";

/// The engines of this build.
pub(crate) const NAMES: &[&str] = &[USUAL, "lmdb", "rocksdb", "wiredTiger"];

/// LMDB's reader slots suffice for all holders of snapshots: cursors, open transactions, statements (which may take a second
/// one to read the newest state), past states and background work; and for the idle readers.
const _: () = {
    let background = 512;
    let held = CURSORS_MAX + TRANSACTIONS_MAX + 2 * BLOCKING_THREADS_MAX + background;
    assert!(held + RESTING_ALL_MAX <= READERS_MAX as usize);
};

/// Engines that `arbor lab kv` measures.
pub(crate) const KV_ENGINES: &[KvEngine] = &[
    KvEngine {
        name: USUAL,
        aliases: ftree::ALIASES,
        missing: || None,
        facts: || facts(None, "auto"),
        open: |directory, settings| as_opened(ftree::open_alone(directory, settings)),
    },
    KvEngine {
        name: "lmdb",
        aliases: &["mmapv1"],
        missing: || None,
        facts: || facts(Some(arbor_engine_lmdb::library()), "none"),
        open: |directory, settings| {
            let options = LmdbOptions { updates: Some(settings.updates.clone()), ..LmdbOptions::default() };
            as_opened(open_lmdb(directory, options))
        },
    },
    KvEngine {
        name: "rocksdb",
        aliases: &[],
        missing: || reason(arbor_engine_rocksdb::available()),
        facts: || facts(arbor_engine_rocksdb::library(), &RocksOptions::default().compression),
        open: |directory, settings| as_opened(rocksdb::open_alone(directory, settings)),
    },
    KvEngine {
        name: "wiredTiger",
        aliases: &[],
        missing: || reason(arbor_engine_wiredtiger::available()),
        facts: || facts(arbor_engine_wiredtiger::library(), &WiredTigerOptions::default().compression),
        open: |directory, settings| as_opened(wiredtiger::open_alone(directory, settings)),
    },
];

/// Returns the reason why an engine of this build cannot be opened on this machine.
fn missing(name: &str) -> Option<String> {
    KV_ENGINES.iter().find(|engine| engine.name == name).and_then(|engine| (engine.missing)())
}

fn facts(library: Option<String>, compression: &str) -> EngineFacts {
    EngineFacts { library, compression: compression.to_owned() }
}

fn reason(available: arbor_engine::Result<()>) -> Option<String> {
    available.err().map(|error| error.to_string())
}

fn as_opened(engine: arbor_engine::Result<Arc<dyn Engine>>) -> arbor_lab::kv::Opened {
    engine.map_err(|error| error.to_string())
}

/// An engine of this build with what the user chose for it.
#[derive(Clone, Debug)]
pub(crate) struct EngineChoice {
    pub name: &'static str,
    cache_bytes: Option<u64>,
    checkpoint_seconds: Option<u64>,
    /// Only the fractal tree does it.
    direct_io: bool,
    /// For any engine, in the order given.
    options: Vec<(String, String)>,
}

impl EngineChoice {
    /// The engine by its name, if this build has it.
    pub(crate) fn named(name: &str) -> Option<EngineChoice> {
        let name = NAMES.iter().find(|known| **known == name)?;
        Some(EngineChoice { name, cache_bytes: None, checkpoint_seconds: None, direct_io: false, options: Vec::new() })
    }

    /// With what the settings say for it.
    fn from_settings(name: &'static str, settings: &Settings, cache_bytes: Option<u64>) -> EngineChoice {
        let mut options = settings.engine_options.clone();
        options.extend(settings.parameters.iter().filter_map(ftree::option_of_parameter));
        let checkpoint_seconds = settings.checkpoint_seconds_given;
        let direct_io = ftree::is_direct(Sizes::of(settings), cache_bytes, &settings.engine_options);
        let choice = EngineChoice { name, cache_bytes, checkpoint_seconds, direct_io, options };
        EngineChoice { cache_bytes: cache_bytes.filter(|_| choice.has_cache()), ..choice }
    }

    /// The options that the engine does not take, with the reason.
    pub(crate) fn refused(&self) -> Vec<(&str, String)> {
        let reason = |option: &str| match self.name {
            "rocksdb" if rocksdb::takes(option) => rocksdb::warning(option, &self.options),
            "wiredTiger" if wiredtiger::takes(option) => None,
            "ftree" => ftree::refusal(option),
            name => Some(format!("the engine '{name}' has no such option")),
        };
        self.options.iter().filter_map(|(option, _)| Some((option.as_str(), reason(option)?))).collect()
    }

    /// Returns true if the engine has a cache of its own.
    pub(crate) fn has_cache(&self) -> bool {
        self.name != "lmdb"
    }

    /// Returns the engine's user-visible names, and the defaults of its new trees. Errors: an option that the engine refuses.
    fn names(&self) -> arbor_engine::Result<EngineNames> {
        Ok(match self.name {
            "ftree" => ftree::names(&self.options)?,
            "lmdb" => EngineNames { name: "lmdb", aliases: &["mmapv1"], ..EngineNames::default() },
            "wiredTiger" => wiredtiger::names(&self.options),
            name => EngineNames { name, ..EngineNames::default() },
        })
    }

    /// As far as it can be read. A damaged file of LMDB may end the process.
    pub(crate) fn open_damaged(&self, directory: &Path) -> arbor_engine::Result<Arc<dyn Engine>> {
        match self.name {
            "lmdb" => open_lmdb(directory, LmdbOptions { verified_pages_max: 0, ..LmdbOptions::default() }),
            _ => self.open(directory),
        }
    }

    pub(crate) fn open(&self, directory: &Path) -> arbor_engine::Result<Arc<dyn Engine>> {
        match self.name {
            "rocksdb" => rocksdb::open(directory, self.cache_bytes, &self.options),
            "wiredTiger" => wiredtiger::open(directory, self.cache_bytes, &self.options),
            "lmdb" => open_lmdb(directory, LmdbOptions::default()),
            _ => {
                let options = ftree::options(self.cache_bytes, self.checkpoint_seconds, self.direct_io, &self.options)?;
                ftree::open(directory, options)
            }
        }
    }
}

fn open_lmdb(directory: &Path, options: LmdbOptions) -> arbor_engine::Result<Arc<dyn Engine>> {
    Ok(Arc::new(LmdbEngine::open(directory, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &'static str) -> EngineChoice {
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = Settings {
            engine_options: vec![option("rocksdb.compression", "zstd"), option("ftree.cleanerPeriod", "1")],
            parameters: vec![option("defaultFanout", "128"), option("quiet", "true")],
            ..Settings::default()
        };
        EngineChoice::from_settings(name, &settings, Some(7))
    }

    #[test]
    fn what_an_engine_does_not_take_is_named() {
        let lmdb = asked("lmdb");
        assert_eq!(lmdb.cache_bytes, None);
        let names: Vec<&str> = lmdb.refused().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["rocksdb.compression", "ftree.cleanerPeriod", "ftree.fanout"]);
        let ftree = asked("ftree");
        assert_eq!(ftree.cache_bytes, Some(7));
        let refused = ftree.refused();
        assert_eq!(refused[0], ("rocksdb.compression", "the engine 'ftree' has no such option".to_owned()));
        assert!(refused.len() == 2 && refused[1].1.contains("no cleaner"), "{refused:?}");
    }

    #[test]
    fn rocksdb_takes_its_options() {
        let rocksdb = asked("rocksdb");
        assert_eq!((rocksdb.name, rocksdb.cache_bytes), ("rocksdb", Some(7)));
        assert!(rocksdb.refused().iter().all(|(name, _)| *name != "rocksdb.compression"));
    }
}
