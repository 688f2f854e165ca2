//! The engine contract on the fractal tree, from the defaults to settings so small that every few rows split something.

use std::path::Path;
use std::sync::Arc;

use arbor_disk::RealDisk;
use arbor_engine::contract::{self, Adder, Factory};
use arbor_engine::{Engine, UpdateFunction};
use arbor_ftree::{Codec, Forest, Options, TreeSettings};

struct Ftree {
    threads: usize,
    updates: bool,
    tiny: bool,
}

impl Factory for Ftree {
    fn open(&self, dir: &Path) -> Box<dyn Engine> {
        let mut options = Options::new(Arc::new(RealDisk), 64 << 20);
        options.threads = self.threads;
        options.updates = self.updates.then(|| Arc::new(Adder) as Arc<dyn UpdateFunction>);
        options.checkpoint_interval_ms = 0;
        if self.tiny {
            options.memtable_bytes = 8 << 10;
            options.checkpoint_bytes = 64 << 10;
            options.tree = TreeSettings {
                codec: Codec::Lz4,
                block_bytes: 256,
                leaf_bytes: 2 << 10,
                fanout: 4,
                blob_bytes: 1 << 10,
                run_bytes: 512,
                ..TreeSettings::default()
            };
        }
        Box::new(Forest::open(dir, options).unwrap())
    }
}

#[test]
fn contract() {
    contract::run(&Ftree { threads: 2, updates: true, tiny: false }, 4);
}

#[test]
fn contract_without_threads() {
    contract::run_histories(&Ftree { threads: 0, updates: true, tiny: false }, 4);
}

#[test]
fn contract_with_tiny_nodes() {
    contract::run(&Ftree { threads: 2, updates: true, tiny: true }, 8);
}

#[test]
fn contract_with_tiny_nodes_without_threads() {
    contract::run(&Ftree { threads: 0, updates: true, tiny: true }, 8);
}

#[test]
fn contract_without_update_messages() {
    contract::run_histories(&Ftree { threads: 0, updates: false, tiny: true }, 5);
}
