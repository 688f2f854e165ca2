//! A disk that fills up: nothing is lost, puts are refused, and what frees space goes on until there is some.

use std::path::Path;
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_disk::FaultyDisk;
use arbor_engine::{Batch, Engine, Error, Op, Snapshot, TreeOptions};
use arbor_ftree::{Codec, Forest, Options, TreeSettings};

const MIB: u64 = 1 << 20;

fn open(disk: &FaultyDisk, threads: usize) -> Forest {
    let mut options = Options::new(Arc::new(disk.clone()), 16 * MIB);
    options.threads = threads;
    options.memtable_bytes = 128 << 10;
    options.checkpoint_interval_ms = 0;
    options.checkpoint_bytes = MIB;
    options.tree = TreeSettings { codec: Codec::None, leaf_bytes: 32 << 10, ..TreeSettings::default() };
    let forest = Forest::open(Path::new("/data"), options).unwrap();
    forest.core().io.space.set_red_zone(2 * MIB);
    forest
}

fn apply(forest: &Forest, ops: Vec<Op>) -> arbor_engine::Result<()> {
    forest.apply(&[Batch { position: forest.applied().next(), ops }])
}

fn put(tree: u64, n: u32) -> Op {
    // Not in key order, so that every slot gets something.
    Op::Put { tree: TreeId(tree), key: n.reverse_bits().to_be_bytes().to_vec(), value: vec![n as u8; 1000] }
}

fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

fn count(snapshot: &dyn Snapshot, tree: u64) -> u32 {
    let mut cursor = snapshot.cursor(TreeId(tree)).unwrap();
    let mut more = cursor.first().unwrap();
    let mut count = 0;
    while more {
        count += 1;
        more = cursor.next().unwrap();
    }
    count
}

/// Puts rows from the one with number `first` on until there is no space. Answers how many rows are in.
fn fill(forest: &Forest, tree: u64, first: u32) -> u32 {
    for n in first..40_000 {
        match apply(forest, vec![put(tree, n)]) {
            Ok(()) => {}
            Err(Error::OutOfSpace { .. }) => return n,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never got full");
}

fn fills_and_recovers(threads: usize, free: Op) {
    let disk = FaultyDisk::new();
    disk.set_capacity(Some(16 * MIB));
    let forest = open(&disk, threads);
    apply(&forest, vec![create(1), create(2)]).unwrap();
    let rows = fill(&forest, 1, 0);
    assert!(rows > 5000, "{rows} rows of 1000 bytes in 16 MiB");
    assert_eq!(count(&*forest.snapshot().unwrap(), 1), rows);
    apply(&forest, vec![free]).expect("what frees space goes on");
    let (before, mut again) = (std::time::Instant::now(), 0);
    while again < rows / 2 {
        // Space comes back with the next checkpoint, which the keeper makes or the next group.
        again = fill(&forest, 2, again);
        assert!(
            before.elapsed().as_secs() < 10,
            "{again} rows after {rows}: {:?} {:?} {} {:?}",
            forest.checkpoint(),
            forest.durable(),
            disk.counts().calls,
            forest.applied()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(count(&*forest.snapshot().unwrap(), 2), again);
}

#[test]
fn a_dropped_tree_makes_room() {
    fills_and_recovers(0, Op::DropTree { tree: TreeId(1) });
    fills_and_recovers(2, Op::DropTree { tree: TreeId(1) });
}

#[test]
fn a_deleted_range_makes_room() {
    fills_and_recovers(0, Op::DeleteRange { tree: TreeId(1), from: Vec::new(), to: None });
    fills_and_recovers(2, Op::DeleteRange { tree: TreeId(1), from: Vec::new(), to: None });
}
