//! Charges stay within the budget, and so does what was asked of the allocator: a random load of many times
//! the budget with concurrent reads and scans, and many small trees.
//! A binary of its own: the allocator counts for the whole process.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arbor_base::{Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_ftree::{Codec, Forest, Options, TreeSettings, check};

/// Counts what is asked for, and the most of it at any time.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
static ASKED: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let asked = ASKED.fetch_add(layout.size() as u64, Relaxed) + layout.size() as u64;
        MOST.fetch_max(asked, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ASKED.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const BUDGET: u64 = 3 << 20;
/// Charges that may be above the limit: one block or index that is just being put into the cache, for each thread.
const OVER_LIMIT: u64 = 128 << 10;
/// Memory that is not charged: stacks of merges, read buffers, builders of blocks, the test's own rows.
const NOT_CHARGED: u64 = 1 << 20;
const ROWS: u64 = 16_000;
const MAIN: TreeId = TreeId(1);
const TREES: u64 = 100;

fn options(threads: usize) -> Options {
    let mut options = Options::new(Arc::new(RealDisk), BUDGET);
    options.threads = threads;
    options.memtable_bytes = 128 << 10;
    options.checkpoint_bytes = 4 << 20;
    options.tree = TreeSettings {
        codec: Codec::Lz4,
        block_bytes: 2 << 10,
        leaf_bytes: 64 << 10,
        fanout: 16,
        run_bytes: 4 << 10,
        ..TreeSettings::default()
    };
    options
}

fn key(number: u64) -> Vec<u8> {
    arbor_base::scatter(number).to_be_bytes().to_vec()
}

fn apply(forest: &Forest, ops: Vec<Op>) {
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).unwrap();
}

fn put(tree: TreeId, number: u64, dice: &mut Random) -> Op {
    Op::Put { tree, key: key(number), value: dice.bytes(600) }
}

fn check_memory(forest: &Forest, asked_before: u64, doing: &str) {
    let cache = &forest.core().io.cache;
    assert!(cache.limit() < BUDGET);
    assert!(cache.peak() <= cache.limit() + OVER_LIMIT, "{doing}: {} charged, {} allowed", cache.peak(), cache.limit());
    let most = MOST.load(Relaxed).saturating_sub(asked_before);
    assert!(most <= BUDGET + NOT_CHARGED, "{doing}: {most} bytes asked for, {} charged", cache.peak());
}

fn run(dir: &Path, threads: usize) {
    let asked_before = ASKED.load(Relaxed);
    MOST.store(asked_before, Relaxed);
    let forest = Forest::open(dir, options(threads)).unwrap();
    apply(&forest, vec![Op::CreateTree { tree: MAIN, options: TreeOptions::default() }]);
    let mut dice = Random::new(17);
    for batch in 0..ROWS / 20 {
        apply(&forest, (0..20).map(|at| put(MAIN, batch * 20 + at, &mut dice)).collect());
        let snapshot = forest.snapshot().unwrap();
        if batch % 4 == 0 {
            let number = dice.below(batch * 20 + 20);
            assert!(snapshot.get(MAIN, &key(number)).unwrap().is_some(), "row {number}");
        }
        if batch % 100 == 0 {
            let mut cursor = snapshot.cursor(MAIN).unwrap();
            let mut more = cursor.seek(&dice.next_u64().to_be_bytes()).unwrap();
            for _ in 0..300 {
                more = more && cursor.next().unwrap();
            }
        }
    }
    check_memory(&forest, asked_before, "one tree");
    let tree = |number: u64| TreeId(10 + number);
    apply(&forest, (0..TREES).map(|at| Op::CreateTree { tree: tree(at), options: TreeOptions::default() }).collect());
    for round in 0..TREES * 4 {
        let at = tree(dice.below(TREES));
        apply(&forest, (0..2).map(|row| put(at, 2 * round + row, &mut dice)).collect());
    }
    check_memory(&forest, asked_before, "many trees");
    forest.checkpoint().unwrap();
    drop(forest);
    let report = check::verify(dir, &options(threads)).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// One test, because it counts what the whole process asks for.
#[test]
fn memory_stays_within_the_budget() {
    for threads in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), threads);
    }
}
