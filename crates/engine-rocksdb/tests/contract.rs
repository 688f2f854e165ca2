//! The engine contract on RocksDB, with several options and several kinds of crash.
#![cfg(feature = "rocksdb-system")]

use std::fs;
use std::path::Path;

use arbor_engine::Engine;
use arbor_engine::contract::{self, Factory};
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

/// Crashes by going on with a copy of the folder, taken while the engine ran.
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

/// Answers whether the folder kept still meanwhile (compactions end whenever they like).
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

#[test]
fn contract_with_usual_options() {
    contract::run(&Dropped { options: RocksOptions::default() }, 20);
}

#[test]
fn contract_with_copies_of_the_folder() {
    contract::run(&Copied { options: RocksOptions::default() }, 10);
}

/// Checkpoints by the background thread and the writer all the time, many small files.
#[test]
fn contract_with_small_memtables() {
    let options = RocksOptions {
        cache_bytes: 1 << 16,
        memtable_bytes: 1 << 12,
        compression: "zstd".to_owned(),
        load_file_bytes: 1 << 14,
        ..RocksOptions::default()
    };
    contract::run(&Dropped { options: options.clone() }, 10);
    contract::run_histories(&Copied { options }, 10);
}

#[test]
fn contract_with_estimated_counts() {
    let options = RocksOptions { exact_counts: false, memtable_bytes: 1 << 14, ..RocksOptions::default() };
    contract::run(&Dropped { options }, 10);
}

#[test]
fn contract_with_other_compressions() {
    for compression in ["none", "lz4", "zlib"] {
        let options = RocksOptions { compression: compression.to_owned(), ..RocksOptions::default() };
        contract::run_histories(&Dropped { options }, 4);
    }
}
