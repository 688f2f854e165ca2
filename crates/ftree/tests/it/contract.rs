//! The engine contract on the fractal tree, from the defaults to settings so small that every few rows split something.

use std::path::Path;
use std::sync::Arc;

use arbor_base::invariants::assert_reached;
use arbor_disk::RealDisk;
use arbor_engine::{Engine, UpdateFunction};
use arbor_engine_contract::{self as contract, Adder, Factory};
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

/// Rare branches that the histories of [`contract_with_tiny_nodes_without_threads`] take.
const RARE: &[&str] = &[
    "ftree: a node splits",
    "ftree: a tree grows by a level",
    "ftree: a tree shrinks by a level",
    "ftree: small nodes are joined",
    "ftree: an empty slot joins its neighbour",
    "ftree: runs are handed down whole",
    "ftree: no row of a leaf is left",
    "ftree: a leaf splits",
    "ftree: small leaves are merged",
    "ftree: a full leaf stays as it is",
    "ftree: a deleted range is unlinked",
    "ftree: a dropped tree is not absorbed",
    "ftree: a block ripens",
    "ftree: a range tombstone hides a leaf",
    "ftree: a page is cut where a source has much",
    "ftree: a run is cut inside of a slot",
    "ftree: updates are joined",
    "ftree: a value moves to an extent of its own",
    "ftree: a table moves to the front of the file",
    "ftree: the free tail of the file is cut off",
    "ftree: the file grows from its free tail",
    "ftree: a leaf of a memtable splits",
];

#[test]
fn contract_with_tiny_nodes_without_threads() {
    contract::run(&Ftree { threads: 0, updates: true, tiny: true }, 8);
    assert_reached(RARE);
}

#[test]
fn contract_without_update_messages() {
    contract::run_histories(&Ftree { threads: 0, updates: false, tiny: true }, 5);
}
