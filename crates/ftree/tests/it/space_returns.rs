//! Drops and deletes return their space to the file system, without being asked and soon.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::{Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_engine_contract::Scratch;
use arbor_ftree::{Forest, Options};

const MIB: u64 = 1 << 20;
const TREE: TreeId = TreeId(1);

fn apply(forest: &Forest, ops: Vec<Op>) {
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).unwrap();
}

/// Bytes that the file system holds for the data file.
fn held(scratch: &Scratch) -> u64 {
    std::fs::metadata(scratch.path().join("ftree.data")).unwrap().blocks() * 512
}

/// 12 MiB that cannot be compressed, durable; then `delete` is applied.
fn check(delete: Op) {
    let scratch = Scratch::new();
    let options = Options { checkpoint_interval_ms: 0, ..Options::new(Arc::new(RealDisk), 32 * MIB) };
    let forest = Forest::open(scratch.path(), options).unwrap();
    apply(&forest, vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }]);
    let mut random = Random::new(1);
    let mut rows = (0..12 * 1024u32).map(|n| (n.to_be_bytes().to_vec(), random.bytes(1024)));
    forest.bulk_load(TREE, &mut rows).unwrap();
    forest.checkpoint().unwrap();
    assert!(held(&scratch) > 12 * MIB);
    apply(&forest, vec![delete]);
    let begin = Instant::now();
    while held(&scratch) > 4 * MIB {
        assert!(begin.elapsed() < Duration::from_secs(30), "{} bytes are held", held(&scratch));
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("returned after {:?}", begin.elapsed());
}

#[test]
fn of_a_dropped_tree() {
    check(Op::DropTree { tree: TREE });
}

#[test]
fn of_a_deleted_range() {
    check(Op::DeleteRange { tree: TREE, from: vec![], to: None });
}

#[test]
fn of_most_of_a_tree() {
    check(Op::DeleteRange { tree: TREE, from: vec![0, 0, 1], to: Some(vec![0, 0, 255]) });
}
