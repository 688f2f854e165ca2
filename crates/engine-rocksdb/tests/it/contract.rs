//! The engine contract on RocksDB, with several options and several kinds of crash.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arbor_engine::Engine;
use arbor_engine_contract::{self as contract, Adder, Factory};
use arbor_engine_rocksdb::{RocksEngine, RocksOptions};

/// Crashes by dropping, which does not flush.
struct Dropped {
    options: RocksOptions,
}

impl Factory for Dropped {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        Box::new(RocksEngine::open(dir, self.options.clone()).unwrap())
    }
}

/// Crashes by continuing with a copy of the directory, taken while the engine ran.
struct Copied {
    options: RocksOptions,
}

impl Factory for Copied {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        Box::new(RocksEngine::open(dir, self.options.clone()).unwrap())
    }

    fn crash(&self, engine: Box<dyn Engine>, dir: &Path, _seed: u64) -> Box<dyn Engine> {
        let image = tempfile::tempdir().unwrap();
        while !copy(dir, image.path()) {}
        drop(engine);
        fs::remove_dir_all(dir).unwrap();
        fs::create_dir(dir).unwrap();
        assert!(copy(image.path(), dir));
        self.open(dir)
    }
}

/// Returns true if the directory kept still meanwhile (compactions end whenever they like).
fn copy(from: &Path, to: &Path) -> bool {
    let list = |dir: &Path| {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        files
    };
    for old in list(to) {
        fs::remove_file(to.join(old)).unwrap();
    }
    let sizes = |files: &[std::ffi::OsString]| -> Vec<_> {
        files.iter().map(|name| fs::metadata(from.join(name)).map_or(0, |data| data.len())).collect()
    };
    let files = list(from);
    let before = sizes(&files);
    let copied = files.iter().all(|name| fs::copy(from.join(name), to.join(name)).is_ok());
    copied && list(from) == files && sizes(&files) == before
}

fn usual() -> RocksOptions {
    RocksOptions { updates: Some(Arc::new(Adder)), ..RocksOptions::default() }
}

#[test]
fn contract_with_usual_options() {
    contract::run(&Dropped { options: usual() }, 20);
}

#[test]
fn contract_with_copies_of_the_directory() {
    contract::run(&Copied { options: usual() }, 10);
}

/// Checkpoints by the background thread and the writer all the time, many small files.
#[test]
fn contract_with_small_memtables() {
    let options = RocksOptions {
        cache_bytes: 1 << 16,
        memtable_bytes: Some(1 << 12),
        compression: "zstd".to_owned(),
        load_file_bytes: 1 << 14,
        ..usual()
    };
    contract::run(&Dropped { options: options.clone() }, 10);
    contract::run_histories(&Copied { options }, 10);
}

#[test]
fn contract_without_updates() {
    let options =
        RocksOptions { memtable_bytes: Some(1 << 14), memtables_max: 2, counters: false, ..RocksOptions::default() };
    contract::run(&Dropped { options }, 10);
}

/// Tiny blocks and files, compactions at every second file, universal style.
#[test]
fn contract_with_an_option_string() {
    let text = "block_based_table_factory={block_size=256;format_version=5};level0_file_num_compaction_trigger=2;\
        target_file_size_base=16k;max_bytes_for_level_base=64k;compaction_style=kCompactionStyleUniversal;\
        write_buffer_size=16k;max_write_buffer_number=2;optimize_filters_for_hits=true";
    let settings = [("rocksdb.configString".to_owned(), text.to_owned())];
    let (options, warnings) = RocksOptions::from_settings(&settings).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let options = RocksOptions { updates: Some(Arc::new(Adder)), ..options };
    contract::run(&Copied { options }, 10);
}

#[test]
fn contract_with_other_compressions() {
    for compression in ["none", "lz4", "lz4hc", "zlib"] {
        let options = RocksOptions { compression: compression.to_owned(), ..usual() };
        contract::run_histories(&Dropped { options }, 4);
    }
}
