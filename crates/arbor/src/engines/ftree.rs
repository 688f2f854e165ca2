//! The fractal tree from the settings: those of TokuMX, of TokuFT in MongoDB, and Arbor's own.
//!
//! | option | means |
//! |---|---|
//! | `ftree.directio` | reads and writes past the page cache; unless it says otherwise, from a memory limit of 128 MB on, but not where less than half of a limit below 384 MB is asked for as its cache |
//! | `ftree.NAME` | a setting of trees ([`arbor_ftree::settings`]) that say nothing else |
//! | `ftree.collection.NAME`, `ftree.index.NAME` | the same, stored with the new trees of collections, of indexes |

use std::path::Path;
use std::sync::Arc;

use arbor_disk::RealDisk;
use arbor_engine::{Engine, Result, TreeOptions};
use arbor_ftree::settings::settings_of;
use arbor_ftree::{Forest, Options};
use arbor_lab::kv::KvSettings;
use arbor_store::{EngineNames, UpdateMessages};

use crate::config::Settings;
use crate::memory::Sizes;

type OptionPair = (String, String);

pub(super) const ALIASES: &[&str] = &["tokuft", "PerconaFT"];
/// Tree settings that an option of the server may set.
const TREE_SETTINGS: &[&str] = &["compression", "pageSize", "readPageSize", "fanout", "writeBias"];

/// TokuMX set the defaults of trees by server parameters.
pub(super) fn option_of_parameter((name, value): &OptionPair) -> Option<OptionPair> {
    let option = match name.as_str() {
        "defaultCompression" => "ftree.compression",
        "defaultFanout" => "ftree.fanout",
        "defaultPageSize" => "ftree.pageSize",
        "defaultReadPageSize" => "ftree.readPageSize",
        _ => return None,
    };
    Some((option.to_owned(), value.clone()))
}

/// Why an option has no meaning; `None`: it has.
pub(super) fn refusal(option: &str) -> Option<String> {
    let reason = match option {
        "ftree.cleanerPeriod" | "ftree.cleanerIterations" => {
            "there is no cleaner: flushing is paced by what is buffered"
        }
        "ftree.compressBuffersBeforeEviction" => "buffered messages are compressed when they are written",
        "ftree.fsRedzone" => "the server keeps a reserve of free space for all engines",
        "loaderMaxMemory" | "loaderCompressTmp" => "index builds sort in memory of a fixed size",
        "ftree.directio" => return None,
        option if setting(option, "ftree.").is_some() => return None,
        option if setting(option, "ftree.collection.").is_some() => return None,
        option if setting(option, "ftree.index.").is_some() => return None,
        _ => "the engine 'ftree' has no such option",
    };
    Some(reason.to_owned())
}

/// The tree setting behind a prefix.
fn setting<'o>(option: &'o str, prefix: &str) -> Option<&'o str> {
    option.strip_prefix(prefix).filter(|name| TREE_SETTINGS.contains(name))
}

fn settings(given: &[OptionPair], prefix: &str) -> TreeOptions {
    let pair = |(option, value): &OptionPair| Some((setting(option, prefix)?.to_owned(), value.clone()));
    TreeOptions { settings: given.iter().filter_map(pair).collect() }
}

/// Errors: a setting of trees that the fractal tree refuses.
pub(super) fn options(
    cache_bytes: Option<u64>,
    checkpoint_seconds: Option<u64>,
    direct_io: bool,
    given: &[OptionPair],
) -> Result<Options> {
    let mut options = Options::new(Arc::new(RealDisk), cache_bytes.unwrap_or_else(usual_cache));
    if let Some(seconds) = checkpoint_seconds {
        options.checkpoint_interval_ms = seconds.max(1) * 1000;
    }
    options.direct_io = direct_io;
    options.tree = settings_of(&settings(given, "ftree."), &options.tree)?;
    options.updates = Some(Arc::new(UpdateMessages));
    Ok(options)
}

/// Returns true if the page cache is to hold nothing of the data. Where the file system refuses that, it does.
pub(super) fn is_direct(sizes: Sizes, cache: Option<u64>, given: &[OptionPair]) -> bool {
    let asked = given.iter().rfind(|(option, _)| option == "ftree.directio");
    asked.map_or_else(|| sizes.is_for_direct_io(cache), |(_, on)| on == "true")
}

pub(super) fn names(given: &[OptionPair]) -> Result<EngineNames> {
    let checked = |prefix| {
        let options = settings(given, prefix);
        settings_of(&options, &Default::default()).map(|_| options)
    };
    let (collections, indexes) = (checked("ftree.collection.")?, checked("ftree.index.")?);
    Ok(EngineNames { name: "ftree", aliases: ALIASES, collections, indexes })
}

fn usual_cache() -> u64 {
    Sizes::of(&Settings::default()).cache()
}

/// For looking at a directory.
pub(crate) fn inspection() -> Options {
    Options { updates: Some(Arc::new(UpdateMessages)), ..Options::new(Arc::new(RealDisk), usual_cache()) }
}

pub(super) fn open(directory: &Path, options: Options) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Forest::open(directory, options)?))
}

/// For `arbor lab kv`.
pub(super) fn open_alone(directory: &Path, settings: &KvSettings) -> Result<Arc<dyn Engine>> {
    let mut options = Options::new(Arc::new(RealDisk), settings.cache_bytes);
    options.direct_io = settings.direct_io;
    options.updates = Some(settings.updates.clone());
    open(directory, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_ftree::Codec;

    fn given(pairs: &[(&str, &str)]) -> Vec<OptionPair> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn options_of_the_founding_texts() {
        let given = given(&[
            ("ftree.collection.readPageSize", "16384"),
            ("ftree.collection.compression", "quicklz"),
            ("ftree.index.fanout", "128"),
            ("ftree.directio", "true"),
            ("ftree.compression", "zlib"),
            ("ftree.writeBias", "high"),
        ]);
        let small = Sizes::of(&Settings { memory_limit: Some(256 << 20), ..Settings::default() });
        let options = options(Some(8 << 30), Some(900), is_direct(small, None, &given), &given).unwrap();
        assert_eq!((options.memory_bytes_max, options.checkpoint_interval_ms), (8 << 30, 900_000));
        assert!(options.direct_io);
        let of =
            |on: &str| is_direct(small, None, &self::given(&[("ftree.directio", "false"), ("ftree.directio", on)]));
        assert!(is_direct(small, None, &[]) && of("true") && !of("false"), "the last one counts");
        assert_eq!((options.tree.codec, options.tree.buffer_percent), (Codec::Zstd(3), 20));
        let trees = names(&given).unwrap();
        assert_eq!((trees.collections.settings.len(), trees.indexes.settings.len()), (2, 1));
        assert!(given.iter().all(|(name, _)| refusal(name).is_none()));
    }

    #[test]
    fn wrong_values_are_errors_and_names_without_meaning_have_a_reason() {
        for wrong in [("ftree.compression", "best"), ("ftree.fanout", "1"), ("ftree.writeBias", "huge")] {
            assert!(options(None, None, false, &given(&[wrong])).is_err(), "{wrong:?}");
        }
        assert!(names(&given(&[("ftree.index.compression", "best")])).is_err());
        for name in ["ftree.fsRedzone", "ftree.collection.colour", "wiredTiger.configString", "loaderMaxMemory"] {
            assert!(refusal(name).is_some(), "{name}");
        }
        assert_eq!(option_of_parameter(&given(&[("quiet", "true")])[0]), None);
    }
}
