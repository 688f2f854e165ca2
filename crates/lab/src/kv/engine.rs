//! The storage engines of the build, which crate `arbor` lists, and how one is found by the name that was typed.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::{Engine, UpdateFunction};

use crate::{Error, Result};

/// An engine in a directory, or why it does not open.
pub type Opened = std::result::Result<Arc<dyn Engine>, String>;

/// An engine's name and how to open it.
#[derive(Clone, Copy)]
pub struct KvEngine {
    pub name: &'static str,
    /// Other names that the server takes for it.
    pub aliases: &'static [&'static str],
    /// Returns the reason why it cannot be opened on this machine, such as a library that is not installed.
    pub missing: fn() -> Option<String>,
    pub facts: fn() -> EngineFacts,
    pub open: fn(&Path, &KvSettings) -> Opened,
}

/// Facts about an engine that a reader of results needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineFacts {
    /// Name and version of the library that it is made of, if it is not Arbor's own.
    pub library: Option<String>,
    /// Compression of its files where no other one is chosen.
    pub compression: String,
}

/// Settings passed to every engine; each applies those that it supports.
pub struct KvSettings {
    pub cache_bytes: u64,
    pub direct_io: bool,
    pub updates: Arc<dyn UpdateFunction>,
}

impl KvEngine {
    /// Returns this engine where it can be opened. Errors: it cannot, with the reason.
    pub(crate) fn usable(self) -> Result<KvEngine> {
        (self.missing)().map_or(Ok(self), |reason| Err(Error::Usage(reason)))
    }

    /// Returns the engine that goes by a name or an alias, in any case of letters.
    pub(crate) fn known(engines: &[KvEngine], name: &str) -> Option<KvEngine> {
        let is_named = |engine: &&KvEngine| {
            [engine.name].iter().chain(engine.aliases).any(|known| known.eq_ignore_ascii_case(name))
        };
        engines.iter().find(is_named).copied()
    }

    /// Returns the engine that is asked for, if it can be opened. Errors: it is not in this build, or it cannot be opened; `option`
    /// is what the name was given to.
    pub(crate) fn asked(engines: &[KvEngine], option: &str, name: &str) -> Result<KvEngine> {
        let unknown = || {
            let known = engines.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ");
            Error::Usage(format!("--{option}: {name:?} is not in this build; it has {known}"))
        };
        KvEngine::known(engines, name).ok_or_else(unknown)?.usable()
    }

    /// Returns the engines that are asked for, each once. Errors as [`KvEngine::asked`].
    pub(crate) fn all_asked(engines: &[KvEngine], option: &str, names: &[String]) -> Result<Vec<KvEngine>> {
        let mut all: Vec<KvEngine> = Vec::new();
        for name in names {
            let engine = KvEngine::asked(engines, option, name)?;
            if let Some(note) = asked_for(engine.name, name) {
                eprintln!("{note}");
            }
            if !all.iter().any(|known| known.name == engine.name) {
                all.push(engine);
            }
        }
        Ok(all)
    }
}

/// Returns the sentence for a reader of results about an engine that was asked for by another name.
pub(crate) fn asked_for(engine: &str, typed: &str) -> Option<String> {
    (!engine.eq_ignore_ascii_case(typed)).then(|| format!("{engine} ran: it was asked for as {typed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(name: &'static str, aliases: &'static [&'static str], missing: fn() -> Option<String>) -> KvEngine {
        KvEngine { name, aliases, missing, facts: EngineFacts::default, open: |_, _| Err(String::new()) }
    }

    #[test]
    fn an_engine_is_found_by_its_aliases_and_named_as_it_is() {
        let engines = [engine("lmdb", &["mmapv1"], || None), engine("paper", &[], || Some("no paper".to_owned()))];
        let typed = ["MMAPv1", "lmdb"].map(str::to_owned);
        let found = KvEngine::all_asked(&engines, "engine", &typed).unwrap();
        assert_eq!(found.iter().map(|engine| engine.name).collect::<Vec<_>>(), ["lmdb"]);
        let refused = |name: &str| KvEngine::asked(&engines, "engine", name).err().map(|error| error.to_string());
        assert_eq!(refused("paper").unwrap(), "no paper");
        assert_eq!(refused("frob").unwrap(), "--engine: \"frob\" is not in this build; it has lmdb, paper");
        assert_eq!((asked_for("lmdb", "LMDB"), asked_for("lmdb", "mmapv1").is_some()), (None, true));
    }
}
