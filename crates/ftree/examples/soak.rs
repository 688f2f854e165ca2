//! A long mixed run on a real disk: one writer and seven readers, snapshots held open, drops, range deletes, checkpoints.
//! `cargo run --release -p arbor-ftree --example soak -- DIRECTORY [MINUTES=60] [IDLE_MINUTES=10] [MEMORY_MB=128]`
//!
//! Every batch moves an amount between two rows, so every snapshot must show the same sum. At the end the forest is
//! verified, and its space is set against the bytes of the live rows as a fresh copy of them takes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, Snapshot, TreeOptions};
use arbor_ftree::{Forest, Options, check};

/// Rows whose sum stays.
const BANK: TreeId = TreeId(1);
/// Rows that are put, replaced and deleted.
const MAIN: TreeId = TreeId(2);
/// Dropped and made again.
const SIDE: TreeId = TreeId(3);
const ACCOUNTS: u64 = 20_000;
const EACH: u64 = 1000;
const ROWS: u64 = 4_000_000;
const READERS: u64 = 7;

fn options(memory_mb: u64) -> Options {
    Options::new(Arc::new(RealDisk), memory_mb << 20)
}

fn key(number: u64) -> Vec<u8> {
    arbor_base::scatter(number).to_be_bytes().to_vec()
}

fn value(dice: &mut Random) -> Vec<u8> {
    let mut value = dice.bytes(60);
    value.resize(120, 0);
    value
}

fn put(tree: TreeId, key: Vec<u8>, value: Vec<u8>) -> Op {
    Op::Put { tree, key, value }
}

fn create(tree: TreeId) -> Op {
    Op::CreateTree { tree, options: TreeOptions::default() }
}

fn apply(forest: &Forest, ops: Vec<Op>) {
    forest.wait_for_room();
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).expect("the batch applies");
}

fn write(forest: &Forest, dice: &mut Random, balances: &mut [u64]) -> u64 {
    let (from, to) = (dice.below(ACCOUNTS) as usize, dice.below(ACCOUNTS) as usize);
    let amount = dice.below(balances[from] + 1);
    balances[from] -= amount;
    balances[to] += amount;
    let mut ops: Vec<Op> = [from, to].map(|at| put(BANK, key(at as u64), balances[at].to_le_bytes().to_vec())).into();
    for _ in 0..100 {
        let row = key(dice.below(ROWS));
        ops.push(if dice.chance(1, 5) { Op::Delete { tree: MAIN, key: row } } else { put(MAIN, row, value(dice)) });
    }
    match dice.below(2000) {
        0 => ops.extend([Op::DropTree { tree: SIDE }, create(SIDE)]),
        1..20 => {
            let begin = dice.next_u64();
            let to = begin.checked_add(u64::MAX / 1000).map(|end| end.to_be_bytes().to_vec());
            ops.push(Op::DeleteRange { tree: MAIN, from: begin.to_be_bytes().to_vec(), to });
        }
        20 => ops.push(put(SIDE, key(dice.below(1000)), vec![7; 300_000])),
        _ => ops.extend((0..5).map(|_| put(SIDE, key(dice.below(200_000)), vec![3; 200]))),
    }
    let count = ops.len() as u64;
    apply(forest, ops);
    count
}

fn sum(snapshot: &dyn Snapshot) -> u64 {
    let mut cursor = snapshot.cursor(BANK).expect("the tree is there");
    let (mut sum, mut more) = (0, cursor.first().expect("first answers"));
    while more {
        sum += u64::from_le_bytes(cursor.value().try_into().expect("balances have eight bytes"));
        more = cursor.next().expect("next answers");
    }
    sum
}

fn read_until(forest: &Forest, stop: &AtomicBool, reads: &AtomicU64, seed: u64) {
    let mut dice = Random::new(seed);
    let mut held: Vec<(Instant, Arc<dyn Snapshot>)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let snapshot = forest.snapshot().expect("a snapshot");
        for _ in 0..2000 {
            snapshot.get(MAIN, &key(dice.below(ROWS))).expect("get answers");
        }
        let mut cursor = snapshot.cursor(MAIN).expect("the tree is there");
        let mut more = cursor.seek(&key(dice.below(ROWS))).expect("seek answers");
        for _ in 0..1000 {
            more = more && cursor.next().expect("next answers");
        }
        drop(cursor);
        reads.fetch_add(3000, Ordering::Relaxed);
        assert_eq!(sum(&*snapshot), ACCOUNTS * EACH, "at {}", snapshot.position());
        held.push((Instant::now(), snapshot));
        if held.len() > 3 {
            let (since, old) = held.swap_remove(dice.below(3) as usize);
            assert_eq!(sum(&*old), ACCOUNTS * EACH, "held for {:?}, since {}", since.elapsed(), old.position());
        }
    }
}

fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() >> 10
}

/// Bytes that a directory takes on the disk.
fn space(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}

/// Copies all live rows into a new forest and returns what that takes.
fn copy(forest: &Forest, directory: &Path, memory_mb: u64) -> u64 {
    let _ = std::fs::remove_dir_all(directory);
    let fresh = Forest::open(directory, options(memory_mb)).expect("a new forest opens");
    apply(&fresh, vec![create(BANK), create(MAIN), create(SIDE)]);
    let snapshot = forest.snapshot().expect("a snapshot");
    for tree in [BANK, MAIN, SIDE] {
        let mut cursor = snapshot.cursor(tree).expect("the tree is there");
        let mut more = cursor.first().expect("first answers");
        let mut rows = std::iter::from_fn(|| {
            let row = more.then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
            more = more && cursor.next().expect("next answers");
            row
        });
        fresh.bulk_load(tree, &mut rows).expect("the rows load");
    }
    fresh.checkpoint().expect("a checkpoint");
    space(directory)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, usual: u64| arguments.get(at).map_or(usual, |text| text.parse().expect("a number"));
    let directory = Path::new(arguments.get(1).expect("a directory"));
    let (minutes, idle, memory_mb) = (number(2, 60), number(3, 10), number(4, 128));
    let data = directory.join("soak");
    let _ = std::fs::remove_dir_all(&data);
    let forest = Forest::open(&data, options(memory_mb)).expect("the forest opens");
    let mut balances = vec![EACH; ACCOUNTS as usize];
    let rows = (0..ACCOUNTS).map(|number| put(BANK, key(number), EACH.to_le_bytes().to_vec()));
    apply(&forest, [create(BANK), create(MAIN), create(SIDE)].into_iter().chain(rows).collect());
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..READERS {
            let (forest, stop, reads) = (&forest, &stop, &reads);
            scope.spawn(move || read_until(forest, stop, reads, seed));
        }
        let (begin, mut dice, mut minute, mut written) = (Instant::now(), Random::new(11), 0, 0);
        let mut worst = Duration::ZERO;
        while begin.elapsed() < Duration::from_secs(minutes * 60) {
            let call = Instant::now();
            written += write(&forest, &mut dice, &mut balances);
            worst = worst.max(call.elapsed());
            if begin.elapsed().as_secs() / 60 > minute {
                minute += 1;
                println!(
                    "minute {minute}: {written} writes, {} reads, slowest batch {worst:?}, {} MB on disk, peak {} MB",
                    reads.swap(0, Ordering::Relaxed),
                    space(&data) >> 20,
                    peak_mb()
                );
                (written, worst) = (0, Duration::ZERO);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("peak {} MB of memory, budget {memory_mb} MB", peak_mb());
    std::thread::sleep(Duration::from_secs(idle * 60));
    let (taken, live) = (space(&data), copy(&forest, &directory.join("soak-copy"), memory_mb));
    println!("after {idle} idle minutes {taken} bytes, a copy {live}: {:.2}", taken as f64 / live as f64);
    println!("{:?}", forest.stats().expect("statistics").counters);
    forest.checkpoint().expect("a checkpoint");
    drop(forest);
    let report = check::verify(&data, &options(memory_mb)).expect("the forest is there");
    println!("verify: {report:?}");
    assert!(report.is_clean());
}
