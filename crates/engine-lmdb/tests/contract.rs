//! The engine contract on LMDB.

use std::path::Path;

use arbor_engine::Engine;
use arbor_engine::contract::{self, Factory};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

struct Lmdb {
    background: bool,
}

impl Factory for Lmdb {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        let options = LmdbOptions { background: self.background, ..LmdbOptions::default() };
        Box::new(LmdbEngine::open(dir, options).unwrap())
    }
}

#[test]
fn contract() {
    contract::run(&Lmdb { background: true }, 20);
}

#[test]
fn contract_without_the_background_thread() {
    contract::run_histories(&Lmdb { background: false }, 20);
}
