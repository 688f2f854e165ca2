//! The engine contract on LMDB.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::{Engine, UpdateFunction};
use arbor_engine_contract::{self as contract, Adder, Factory};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

struct Lmdb {
    background: bool,
    updates: bool,
}

impl Factory for Lmdb {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        let updates = self.updates.then(|| Arc::new(Adder) as Arc<dyn UpdateFunction>);
        let options = LmdbOptions { background: self.background, updates, ..LmdbOptions::default() };
        Box::new(LmdbEngine::open(dir, options).unwrap())
    }
}

#[test]
fn contract() {
    contract::run(&Lmdb { background: true, updates: true }, 20);
}

#[test]
fn contract_without_the_background_thread() {
    contract::run_histories(&Lmdb { background: false, updates: true }, 20);
}

#[test]
fn contract_without_update_messages() {
    contract::run(&Lmdb { background: true, updates: false }, 2);
}
