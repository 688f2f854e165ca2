//! The engines of one server together: which is the home, which the default, what memory each gets.
//!
//! Without flags the default has the usual memory. A home that is another engine shares it with the default, half each:
//! both are open all the time. Every further engine gets an eighth, and only once something lives there.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::Engine;
use arbor_engine_set::{EngineSet, Kind, SetOptions};
use arbor_store::{TreeDefaults, UpdateMessages};

use super::{EngineChoice, NAMES, USUAL, ftree, missing};
use crate::config::Settings;
use crate::failure::{BAD_OPTIONS, Failure};
use crate::memory::Sizes;

#[derive(Clone, Debug)]
pub(crate) struct Engines {
    /// Made the directory; holds what the server keeps for itself.
    pub home: &'static str,
    /// Engine of new collections that name none.
    pub default: &'static str,
    choices: Vec<EngineChoice>,
    member: OfMember,
}

/// Options for storing what another member of a replica set has created.
#[derive(Clone)]
struct OfMember(SetOptions);

impl Default for OfMember {
    fn default() -> OfMember {
        OfMember(stored_by_any())
    }
}

/// Only the fractal tree stores update messages; for other engines the set makes rows of them.
fn stored_by_any() -> SetOptions {
    SetOptions { updates: Some(Arc::new(UpdateMessages)), ..SetOptions::default() }
}

impl std::fmt::Debug for OfMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OfMember").field(&self.0.storage_engine_override).finish()
    }
}

impl Engines {
    /// The default is what the settings ask for, else what the directory was made with. A directory of an engine that this build
    /// lacks is refused when it is opened. Errors: the settings ask for an engine that this build lacks, or whose library is not on this
    /// machine (before anything is written: a directory is made for one engine).
    pub(crate) fn of(settings: &Settings, found: Option<&str>) -> Result<Engines, Failure> {
        let home = found.and_then(known);
        let default = match settings.engine.as_deref() {
            Some(asked) => available(asked)?,
            None => home.unwrap_or(USUAL),
        };
        let home = home.unwrap_or(default);
        let choice =
            |name: &&'static str| EngineChoice::from_settings(name, settings, cache_of(name, home, default, settings));
        let storage_engine_override = match settings.engine_override.as_deref() {
            Some(asked) => Some(available(asked)?),
            None => None,
        };
        let adapts = settings.replica_set.is_some();
        if storage_engine_override.is_some() && !adapts {
            let text = "storageEngineOverride is for members of a replica set (--replSet); a standalone server has storageEngine";
            return Err(Failure::new(BAD_OPTIONS, text.to_owned()));
        }
        let member = OfMember(SetOptions { adapts, storage_engine_override, ..stored_by_any() });
        Ok(Engines { home, default, choices: NAMES.iter().map(choice).collect(), member })
    }

    /// Has the first tree that is stored otherwise than the set says reported.
    pub(crate) fn reporting(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Engines {
        self.member.0.on_other_settings = Some(Arc::new(report));
        self
    }

    /// As the directory was made, without settings of a user.
    pub(crate) fn of_directory(found: Option<&str>) -> Engines {
        let home = found.and_then(known).unwrap_or(USUAL);
        let choice = |name: &&'static str| EngineChoice::from_settings(name, &Settings::default(), None);
        Engines { home, default: home, choices: NAMES.iter().map(choice).collect(), member: OfMember::default() }
    }

    /// As the directory was made, with caches of this size.
    pub(crate) fn with_cache(home: &'static str, bytes: u64) -> Engines {
        let choice = |name: &&'static str| EngineChoice::from_settings(name, &Settings::default(), Some(bytes));
        Engines { home, default: home, choices: NAMES.iter().map(choice).collect(), member: OfMember::default() }
    }

    pub(crate) fn default(&self) -> Option<&EngineChoice> {
        self.choices.iter().find(|choice| choice.name == self.default)
    }

    /// The options that change nothing, with the reason.
    pub(crate) fn refused(&self) -> Vec<(&str, String)> {
        let mut refused = Vec::new();
        for choice in &self.choices {
            let own = choice.refused().into_iter().filter(|(option, _)| owner_of(option) == choice.name);
            refused.extend(own);
        }
        let first = self.choices.first().map(EngineChoice::refused).unwrap_or_default();
        let strange = first.into_iter().filter(|(option, _)| known(owner_of(option)).is_none());
        refused.extend(
            strange.map(|(option, _)| (option, format!("the engine '{}' is not in this build", owner_of(option)))),
        );
        refused
    }

    /// Returns the defaults of new trees. Errors: an option that an engine refuses.
    pub(crate) fn tree_defaults(&self) -> arbor_engine::Result<TreeDefaults> {
        let engines = self.choices.iter().map(EngineChoice::names).collect::<arbor_engine::Result<_>>()?;
        Ok(TreeDefaults { engines, default: self.default, home: self.home })
    }

    /// Opens home, default, and every other engine that something lives in.
    pub(crate) fn open(&self, directory: &Path) -> arbor_engine::Result<Arc<dyn Engine>> {
        let kind = |choice: &EngineChoice| {
            let choice = choice.clone();
            Kind::new(choice.name, move |directory| choice.open(directory))
        };
        let kinds = self.choices.iter().map(kind).collect();
        let set = EngineSet::open(directory, kinds, self.home, self.default)?;
        Ok(Arc::new(set.with_options(self.member.0.clone())?))
    }
}

fn known(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|known| **known == name).copied()
}

/// Returns the engine of a name that can be opened here.
fn available(asked: &str) -> Result<&'static str, Failure> {
    let name = known(asked).ok_or_else(|| not_in_this_build(asked))?;
    missing(name).map_or(Ok(name), |reason| Err(Failure::new(BAD_OPTIONS, reason)))
}

fn not_in_this_build(name: &str) -> Failure {
    let text = format!("the storage engine '{name}' is not in this build, which has {}", NAMES.join(", "));
    Failure::new(BAD_OPTIONS, text)
}

/// Returns the engine that an option is for, by the first part of its name. Options of TokuMX have no engine part.
fn owner_of(option: &str) -> &str {
    option.split_once('.').map_or(USUAL, |(engine, _)| engine)
}

/// `None`: what the engine takes by itself.
fn cache_of(name: &str, home: &str, default: &str, settings: &Settings) -> Option<u64> {
    let sizes = Sizes::of(settings);
    let own = settings.cache_bytes_of.iter().rfind(|(engine, _)| *engine == name).map(|(_, bytes)| *bytes);
    let own = own.or(settings.cache_bytes.filter(|_| name == default));
    let is_direct = name == USUAL && ftree::is_direct(sizes, own, &settings.engine_options);
    if let Some(own) = own {
        return Some(if is_direct { sizes.bounded_direct_cache(own) } else { sizes.bounded_cache(own) });
    }
    match (name == default, name == home) {
        (true, true) if is_direct => Some(sizes.direct_cache()),
        // an engine's own default is for the memory of the machine
        (true, true) => {
            let is_bounded = settings.memory_limit.is_some() || sizes.is_small();
            is_bounded.then(|| without_memtables(name, sizes.cache()))
        }
        (true, false) | (false, true) => Some(sizes.part_of_cache(2)),
        (false, false) => Some(sizes.part_of_cache(8)),
    }
}

/// RocksDB's memtables are outside its cache and take up to half as much (four times an eighth).
fn without_memtables(name: &str, memory: u64) -> u64 {
    if name == "rocksdb" { memory / 3 * 2 } else { memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(engine: Option<&str>, found: Option<&str>) -> Result<(&'static str, &'static str), String> {
        let settings = Settings { engine: engine.map(str::to_owned), ..Settings::default() };
        Engines::of(&settings, found).map(|engines| (engines.home, engines.default)).map_err(|failure| failure.message)
    }

    #[test]
    fn the_directory_says_the_home_and_the_user_the_default() {
        for (engine, found, expect) in [
            (None, None, ("ftree", "ftree")),
            (None, Some("lmdb"), ("lmdb", "lmdb")),
            (Some("lmdb"), Some("ftree"), ("ftree", "lmdb")),
            (Some("lmdb"), None, ("lmdb", "lmdb")),
            (None, Some("paper"), ("ftree", "ftree")),
        ] {
            assert_eq!(asked(engine, found), Ok(expect), "{engine:?} {found:?}");
        }
        let refused = asked(Some("paper"), None).unwrap_err();
        assert!(refused.contains("'paper' is not in this build, which has ftree, lmdb"), "{refused}");
    }

    #[test]
    fn an_override_is_of_this_build_and_for_a_member() {
        let settings = |replica_set: Option<&str>, engine: &str| Settings {
            engine_override: Some(engine.to_owned()),
            replica_set: replica_set.map(str::to_owned),
            ..Settings::default()
        };
        let of = |settings: &Settings| Engines::of(settings, Some("ftree")).map(|engines| engines.member.0);
        let member = of(&settings(Some("rs0"), "lmdb")).unwrap();
        assert_eq!((member.adapts, member.storage_engine_override), (true, Some("lmdb")));
        assert!(of(&settings(Some("rs0"), "paper")).is_err() && of(&settings(None, "lmdb")).is_err());
        assert!(!of(&Settings::default()).unwrap().adapts, "a standalone stores trees as it was asked to");
    }

    #[test]
    fn each_engine_has_its_own_memory() {
        let mut settings = Settings { cache_bytes: Some(7), ..Settings::default() };
        assert_eq!(cache_of("ftree", "ftree", "ftree", &settings), Some(7));
        settings.cache_bytes_of = vec![("rocksdb", 6), ("rocksdb", 7)];
        assert_eq!(cache_of("rocksdb", "ftree", "ftree", &settings), Some(7));
        assert_eq!(cache_of("ftree", "ftree", "ftree", &settings), Some(7));
        let half = cache_of("ftree", "ftree", "rocksdb", &settings).unwrap();
        let eighth = cache_of("wiredTiger", "ftree", "rocksdb", &settings).unwrap();
        let small = Settings { memory_limit: Some(256 << 20), ..Settings::default() };
        let alone = |name, settings: &Settings| cache_of(name, name, name, settings).unwrap();
        assert_eq!(alone("rocksdb", &small) / (1 << 20), 42, "its memtables take the rest");
        assert_eq!(alone("ftree", &small), 192 << 20);
        let cached = Settings { cache_bytes: Some(100 << 20), ..small.clone() };
        let choice = |settings| EngineChoice::from_settings("ftree", settings, Some(alone("ftree", settings)));
        assert!(choice(&small).direct_io && !choice(&cached).direct_io, "the page cache has the rest");
        let large = Settings { memory_limit: Some(1 << 30), ..Settings::default() };
        assert_eq!(alone("ftree", &large), Sizes::of(&large).direct_cache());
        let engine_options = vec![("ftree.directio".to_owned(), "false".to_owned())];
        let through_page_cache = Settings { engine_options, ..large };
        assert_eq!(alone("ftree", &through_page_cache), Sizes::of(&through_page_cache).cache());
        assert!(eighth <= half && half <= Sizes::of(&settings).cache(), "{eighth} {half}");
    }

    #[test]
    fn options_are_for_the_engine_that_they_name() {
        let option = |name: &str| (name.to_owned(), "1".to_owned());
        let names = ["ftree.cleanerPeriod", "ftree.directio", "paper.weight", "loaderMaxMemory"];
        let settings = Settings { engine_options: names.map(option).to_vec(), ..Settings::default() };
        let engines = Engines::of(&Settings { engine: Some("lmdb".to_owned()), ..settings }, None).unwrap();
        let refused: Vec<&str> = engines.refused().iter().map(|(name, _)| *name).collect();
        assert_eq!(refused, ["ftree.cleanerPeriod", "loaderMaxMemory", "paper.weight"]);
    }
}
