//! The memory of a running engine is made smaller while it is read and written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arbor_base::{Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_ftree::{Forest, Options};

const TREE: TreeId = TreeId(1);
const ROWS: u64 = 12_000;
const ROW_BYTES: usize = 4 << 10;
const SMALL: u64 = 16 << 20;
/// One block or index that is just being put into the cache, for each thread.
const OVER_LIMIT: u64 = 2 << 20;

fn key(number: u64) -> Vec<u8> {
    arbor_base::scatter(number).to_be_bytes().to_vec()
}

fn put(forest: &Forest, dice: &mut Random, numbers: impl Iterator<Item = u64>) {
    let ops = numbers.map(|number| Op::Put { tree: TREE, key: key(number), value: dice.bytes(ROW_BYTES) }).collect();
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).unwrap();
}

fn read(forest: &Forest, number: u64) {
    assert!(forest.snapshot().unwrap().get(TREE, &key(number)).unwrap().is_some(), "row {number}");
}

/// A forest whose cache holds all rows.
fn warm(dir: &std::path::Path) -> Forest {
    let mut options = Options::new(Arc::new(RealDisk), 128 << 20);
    options.memtable_bytes = 1 << 20;
    let forest = Forest::open(dir, options).unwrap();
    let create = Op::CreateTree { tree: TREE, options: TreeOptions::default() };
    forest.apply(&[Batch { position: forest.applied().next(), ops: vec![create] }]).unwrap();
    let mut dice = Random::new(7);
    (0..ROWS / 50).for_each(|batch| put(&forest, &mut dice, batch * 50..(batch + 1) * 50));
    forest.checkpoint().unwrap();
    (0..ROWS).for_each(|number| read(&forest, number));
    forest
}

#[test]
fn a_smaller_cache_holds_within_seconds_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let forest = warm(dir.path());
    let used = || forest.core().io.cache.used();
    assert!(used() > 2 * SMALL, "only {} bytes are warm", used());
    let (stop, reads, writes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Random::new(8);
            while !stop.load(Relaxed) {
                read(&forest, dice.below(ROWS));
                reads.fetch_add(1, Relaxed);
            }
        });
        scope.spawn(|| {
            let mut dice = Random::new(9);
            while !stop.load(Relaxed) {
                let first = dice.below(ROWS);
                forest.wait_for_room();
                put(&forest, &mut dice, first..first + 10);
                writes.fetch_add(1, Relaxed);
            }
        });
        forest.set_parameter("cacheBytes", &SMALL.to_string()).unwrap();
        let begun = Instant::now();
        while used() > SMALL + OVER_LIMIT && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let (took, before) = (begun.elapsed(), (reads.load(Relaxed), writes.load(Relaxed)));
        // It stays so, and both continue.
        while begun.elapsed() < Duration::from_secs(20)
            && (reads.load(Relaxed) < before.0 + 200 || writes.load(Relaxed) < before.1 + 20)
        {
            std::thread::yield_now();
        }
        let after = used();
        stop.store(true, Relaxed);
        assert!(took < Duration::from_secs(10), "{took:?}: {after} bytes");
        assert!(after <= SMALL + OVER_LIMIT, "{after} bytes");
        assert!(reads.load(Relaxed) >= before.0 + 200 && writes.load(Relaxed) >= before.1 + 20);
    });
    assert_eq!(forest.parameter("cacheBytes").unwrap(), SMALL.to_string());
}

#[test]
fn what_is_no_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let forest = Forest::open(dir.path(), Options::new(Arc::new(RealDisk), 32 << 20)).unwrap();
    for (name, value) in
        [("cacheBytes", "lots"), ("cacheBytes", "1000"), ("checkpointIntervalMs", "-1"), ("colour", "red")]
    {
        let refused = forest.set_parameter(name, value);
        assert!(matches!(&refused, Err(Error::InvalidOption { name: said, .. }) if said == name), "{refused:?}");
    }
    forest.set_parameter("checkpointIntervalMs", "250").unwrap();
    assert_eq!(forest.parameter("checkpointIntervalMs").unwrap(), "250");
}
