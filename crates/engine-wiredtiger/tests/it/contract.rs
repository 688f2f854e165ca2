//! The engine contract on WiredTiger, with several options and two kinds of crash.

use std::fs;
use std::path::Path;

use arbor_engine::Engine;
use arbor_engine_contract::{self as contract, Factory};
use arbor_engine_wiredtiger::{WiredTigerEngine, WiredTigerOptions};

/// Ends by closing, which keeps the stable generation.
struct Closed {
    options: WiredTigerOptions,
}

impl Factory for Closed {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        Box::new(WiredTigerEngine::open(dir, self.options.clone()).unwrap())
    }
}

/// Ends as by kill -9: continues with a copy of the directory, taken while the engine ran.
struct Copied {
    options: WiredTigerOptions,
}

impl Factory for Copied {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        Box::new(WiredTigerEngine::open(dir, self.options.clone()).unwrap())
    }

    fn crash(&self, engine: Box<dyn Engine>, dir: &Path, _seed: u64) -> Box<dyn Engine> {
        let image = tempfile::tempdir().unwrap();
        copy(dir, image.path());
        drop(engine);
        fs::remove_dir_all(dir).unwrap();
        fs::create_dir(dir).unwrap();
        copy(image.path(), dir);
        self.open(dir)
    }
}

/// No checkpoint runs meanwhile, so what the last one names stays; eviction may write concurrently.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Syncs cost most of the time of these tests and show nothing in them: no machine fails here.
fn quick() -> WiredTigerOptions {
    let config_string = "checkpoint_sync=false".to_owned();
    WiredTigerOptions { config_string, cache_bytes: 32 << 20, ..WiredTigerOptions::default() }
}

#[test]
fn contract_with_usual_options() {
    contract::run(&Closed { options: WiredTigerOptions::default() }, 2);
}

#[test]
fn contract_with_copies_of_the_directory() {
    contract::run(&Copied { options: quick() }, 6);
}

#[test]
fn contract_with_small_pages_and_no_compression() {
    let pages = "leaf_page_max=4KB,internal_page_max=4KB,allocation_size=512B,memory_page_max=64KB";
    let options = WiredTigerOptions { compression: "none".to_owned(), tree_config_string: pages.to_owned(), ..quick() };
    contract::run_histories(&Copied { options }, 6);
}

#[test]
fn contract_with_prefixes_zlib_and_no_counts() {
    let options = WiredTigerOptions {
        compression: "zlib".to_owned(),
        tree_config_string: "prefix_compression=true,prefix_compression_min=1".to_owned(),
        count_rows: false,
        ..quick()
    };
    contract::run_histories(&Closed { options }, 6);
}
