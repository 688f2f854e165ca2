//! A disk that fills up: nothing is lost, puts are refused, and batches that free space are applied until there is some.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Puts rows until there is no space, or all are in. Returns how many rows are in.
fn fill(forest: &Forest, tree: u64, rows: Range<u32>) -> u32 {
    for n in rows.clone() {
        match apply(forest, vec![put(tree, n)]) {
            Ok(()) => {}
            Err(Error::OutOfSpace { .. }) => return n,
            Err(other) => panic!("{other}"),
        }
    }
    rows.end
}

fn fills_and_recovers(threads: usize, free: Op) {
    let disk = FaultyDisk::new();
    disk.set_capacity(Some(16 * MIB));
    let forest = open(&disk, threads);
    apply(&forest, vec![create(1), create(2)]).unwrap();
    let rows = fill(&forest, 1, 0..40_000);
    assert!((5000..40_000).contains(&rows), "{rows} rows of 1000 bytes in 16 MiB");
    assert_eq!(count(&*forest.snapshot().unwrap(), 1), rows);
    apply(&forest, vec![free]).expect("batches that free space are applied");
    let (before, mut again) = (Instant::now(), 0);
    while again < rows / 2 {
        // Space comes back with the next checkpoint, which the maintenance thread makes or the next group.
        again = fill(&forest, 2, again..rows / 2);
        let context = || format!("{again} rows after {rows}: {:?} {:?}", forest.checkpoint(), forest.durable());
        assert!(before.elapsed() < Duration::from_secs(60), "{}", context());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(&*forest.snapshot().unwrap(), 2), again);
}

/// Space that others free on the file system is found by the first write that follows, however short ago it was measured.
#[test]
fn writes_continue_at_once_when_the_disk_has_room() {
    let disk = FaultyDisk::new();
    let forest = open(&disk, 0);
    apply(&forest, vec![create(1)]).unwrap();
    let mut next = 0;
    for free_bytes in [0, 50_000, 300_000] {
        disk.leave_free(free_bytes);
        next = fill(&forest, 1, next..next + 40_000);
        disk.set_capacity(None);
        apply(&forest, vec![put(1, next)]).unwrap();
        next += 1;
    }
    assert_eq!(count(&*forest.snapshot().unwrap(), 1), next);
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

/// Batch `n` puts its number into one of few rows of tree 1, and into a large row of its own of tree 2.
fn numbered(n: u32) -> Vec<Op> {
    let mut value = n.to_be_bytes().to_vec();
    let few = Op::Put { tree: TreeId(1), key: (n % 50).to_be_bytes().to_vec(), value: value.clone() };
    value.resize(1000, 0);
    vec![few, Op::Put { tree: TreeId(2), key: n.reverse_bits().to_be_bytes().to_vec(), value }]
}

/// The newest batch that a tree holds something of.
fn newest(snapshot: &dyn Snapshot, tree: u64) -> u32 {
    let mut cursor = snapshot.cursor(TreeId(tree)).unwrap();
    let mut more = cursor.first().unwrap();
    let mut newest = 0;
    while more {
        let number = cursor.value().first_chunk().expect("a number");
        newest = newest.max(u32::from_be_bytes(*number));
        more = cursor.next().unwrap();
    }
    newest
}

/// Every state that a power failure leaves is that of one batch, in all trees: the log need not have the batches after it.
fn check_image(disk: &FaultyDisk, seed: u64) {
    let image = disk.crash(seed);
    image.set_capacity(None);
    let forest = open(&image, 0);
    let (durable, snapshot) = (forest.applied().0 as u32, forest.snapshot().unwrap());
    if durable > 1 {
        assert_eq!((newest(&*snapshot, 1), newest(&*snapshot, 2)), (durable, durable));
    }
}

/// There is space for the runs of one tree of a memtable and none for those of the other.
#[test]
fn a_memtable_becomes_durable_for_all_trees_or_for_none() {
    for (variant, threads) in (0..6).map(|variant| (variant, if variant == 5 { 2 } else { 0 })) {
        let disk = FaultyDisk::new();
        disk.set_capacity(Some(8 * MIB + variant * 37 * 4096));
        let forest = open(&disk, threads);
        apply(&forest, vec![create(1), create(2)]).unwrap();
        let (mut next, mut refused) = (2, 0);
        while refused < 12 {
            match apply(&forest, numbered(next)) {
                Ok(()) => next += 1,
                Err(Error::OutOfSpace { .. }) => {
                    refused += 1;
                    check_image(&disk, u64::from(next) + refused);
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(next > 1000, "{next} rows of 1000 bytes in 8 MiB");
    }
}
