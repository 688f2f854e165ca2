//! Writing, reading, flushing, checkpoints, drops and range deletes at the same time. Every batch moves money between
//! accounts, so every snapshot must show the same sum, however long it is held.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_base::invariants::{assert_reached, not_reached};
use arbor_disk::FaultyDisk;
use arbor_engine::{Batch, Engine, Op, Snapshot, TreeOptions};
use arbor_engine_contract::Adder;
use arbor_ftree::{Codec, Forest, Options, TreeSettings, check};

const ACCOUNTS: u64 = 3000;
const EACH: u64 = 1000;
const BANK: TreeId = TreeId(1);
const SIDE: TreeId = TreeId(2);

fn options(disk: &FaultyDisk) -> Options {
    let mut options = Options::new(Arc::new(disk.clone()), 4 << 20);
    options.threads = 3;
    options.memtable_bytes = 16 << 10;
    options.checkpoint_interval_ms = 100;
    options.checkpoint_bytes = 256 << 10;
    options.updates = Some(Arc::new(Adder));
    options.tree = TreeSettings {
        codec: Codec::Lz4,
        block_bytes: 512,
        leaf_bytes: 4 << 10,
        fanout: 5,
        blob_bytes: 600,
        run_bytes: 1 << 10,
        ..TreeSettings::default()
    };
    options
}

fn account(number: u64) -> Vec<u8> {
    arbor_base::scatter(number).to_be_bytes().to_vec()
}

fn create(tree: TreeId) -> Op {
    Op::CreateTree { tree, options: TreeOptions::default() }
}

fn put(tree: TreeId, key: Vec<u8>, value: Vec<u8>) -> Op {
    Op::Put { tree, key, value }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

fn next_batch(dice: &mut Dice, forest: &Forest, balances: &mut [u64]) -> Batch {
    let (from, to) = (dice.below(ACCOUNTS) as usize, dice.below(ACCOUNTS) as usize);
    let amount = dice.below(balances[from] + 1);
    balances[from] -= amount;
    balances[to] += amount;
    let mut ops = Vec::new();
    for (number, change) in [(from, amount.wrapping_neg()), (to, amount)] {
        let key = account(number as u64);
        ops.push(match dice.below(4) {
            0 => put(BANK, key, balances[number].to_le_bytes().to_vec()),
            _ => Op::Update { tree: BANK, key, update: change.to_le_bytes().to_vec() },
        });
    }
    if from == to {
        ops = vec![put(BANK, account(to as u64), balances[to].to_le_bytes().to_vec())];
    }
    let number = dice.below(5000);
    match dice.below(40) {
        0 => ops.extend([Op::DropTree { tree: SIDE }, create(SIDE)]),
        1..4 => ops.push(Op::DeleteRange { tree: SIDE, from: account(number), to: None }),
        4 => ops.push(put(SIDE, account(number), vec![9; 3000])),
        _ => ops.extend((0..8).map(|n| put(SIDE, account(number + n), vec![n as u8; 90]))),
    }
    Batch { position: forest.applied().next(), ops }
}

/// An account without money may have no row.
fn sum(snapshot: &dyn Snapshot, forwards: bool) -> u64 {
    let mut cursor = snapshot.cursor(BANK).unwrap();
    let mut more = if forwards { cursor.first() } else { cursor.last() }.unwrap();
    let mut sum = 0;
    while more {
        sum += u64::from_le_bytes(cursor.value().try_into().unwrap());
        more = if forwards { cursor.next() } else { cursor.prev() }.unwrap();
    }
    sum
}

fn read_until(forest: &Forest, stop: &AtomicBool, seed: u64) {
    let mut dice = Dice(seed);
    let mut held = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let snapshot = forest.snapshot().unwrap();
        assert_eq!(sum(&*snapshot, dice.below(2) == 0), ACCOUNTS * EACH, "at {}", snapshot.position());
        let by_key: u64 = (0..ACCOUNTS)
            .filter_map(|number| snapshot.get(BANK, &account(number)).unwrap())
            .map(|value| u64::from_le_bytes((*value).try_into().unwrap()))
            .sum();
        assert_eq!(by_key, ACCOUNTS * EACH, "by key at {}", snapshot.position());
        let side = || {
            let mut cursor = snapshot.cursor(SIDE).unwrap();
            let mut rows = vec![];
            let mut more = cursor.first().unwrap();
            while more {
                rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
                more = cursor.next().unwrap();
            }
            rows
        };
        let rows = side();
        assert!(rows == side(), "a snapshot does not change");
        held.push(snapshot);
        if held.len() > 6 {
            let old = held.swap_remove(dice.below(6) as usize);
            assert_eq!(sum(&*old, true), ACCOUNTS * EACH, "held since {}", old.position());
        }
    }
}

/// Branches that threads take because of each other. It depends on their timing when each was taken.
const REACHED: &[&str] = &[
    "ftree: batches are applied during a checkpoint",
    "ftree: a run arrives while its leaf is rewritten",
    "ftree: a tree changed under a job",
    "ftree: what is in use stays in the cache",
];
const AT_LEAST: Duration = Duration::from_secs(3);
const AT_MOST: Duration = Duration::from_secs(120);

#[test]
fn every_snapshot_shows_the_same_sum() {
    let disk = FaultyDisk::new();
    let forest = Forest::open(Path::new("/data"), options(&disk)).unwrap();
    let rows = (0..ACCOUNTS).map(|number| put(BANK, account(number), EACH.to_le_bytes().to_vec()));
    let ops = [create(BANK), create(SIDE)].into_iter().chain(rows).collect();
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).unwrap();
    let mut balances = vec![EACH; ACCOUNTS as usize];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 1..3 {
            let (forest, stop) = (&forest, &stop);
            scope.spawn(move || read_until(forest, stop, seed));
        }
        let (begin, mut dice) = (Instant::now(), Dice(7));
        while begin.elapsed() < AT_LEAST || (begin.elapsed() < AT_MOST && !not_reached(REACHED).is_empty()) {
            forest.apply(&[next_batch(&mut dice, &forest, &mut balances)]).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = forest.stats().unwrap();
    let statistic = |name: &str| stats.counters.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
    for name in ["absorb jobs", "push jobs", "leaf jobs", "checkpoints"] {
        assert!(statistic(name) > 0, "{name}: {stats:?}");
    }
    assert_eq!(statistic("slots put aside"), 0);
    assert_reached(REACHED);
    forest.validate();
    forest.checkpoint().unwrap();
    drop(forest);
    let report = check::verify(Path::new("/data"), &options(&disk)).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let forest = Forest::open(Path::new("/data"), options(&disk)).unwrap();
    assert_eq!(sum(&*forest.snapshot().unwrap(), true), ACCOUNTS * EACH);
}
