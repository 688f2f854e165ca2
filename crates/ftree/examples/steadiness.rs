//! Puts rows in random order and prints, slice by slice, how fast that went and what the background work did for it.
//! `cargo run --release -p arbor-ftree --example steadiness -- DIRECTORY [ROWS=4000000] [MEMORY_MB=64] [THREADS=0: as usual]`
//!
//! Run it in a memory cgroup if the page cache is to count. On a busy machine compare the CPU time per row, not rates.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::{Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_ftree::{Forest, Options};

const TREE: TreeId = TreeId(1);
const BATCH: u64 = 100;
const SLICES: u64 = 25;

type Statistics = HashMap<&'static str, u64>;

fn statistics(forest: &Forest) -> Statistics {
    forest.stats().expect("statistics").counters.into_iter().collect()
}

fn put(number: u64, dice: &mut Random) -> Op {
    let mut value = dice.bytes(60);
    value.resize(120, 0);
    Op::Put { tree: TREE, key: arbor_base::scatter(number).to_be_bytes().to_vec(), value }
}

/// User and system time of this process, all threads.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

struct Slice {
    rows: u64,
    wall: Duration,
    cpu: Duration,
    slowest: Duration,
}

impl Slice {
    fn print(&self, before: &Statistics, after: &Statistics) {
        let now = |name: &str| after.get(name).copied().unwrap_or_default();
        let since = |name: &str| now(name) - before.get(name).copied().unwrap_or_default();
        let rows = self.rows as f64;
        println!(
            "{:7.0} rows/s {:5.2} cpu us, slowest {:5.1} ms, slept {:4.0} ms | B/row down: {:4.0} {:4.0} {:4.0}, written: \
             leaves {:4.0} runs {:4.0}, jobs: leaf {:4} push {:4} refused {:2} | MB leaves {:5} buffered {:4} waiting {:4} \
             beyond {:4} memtables {:3} pinned {:3}",
            rows / self.wall.as_secs_f64(),
            self.cpu.as_secs_f64() * 1e6 / rows,
            self.slowest.as_secs_f64() * 1e3,
            since("pacing sleep us") as f64 / 1e3,
            since("bytes flushed to leaves") as f64 / rows,
            since("bytes flushed to level 1") as f64 / rows,
            since("bytes flushed to level 2") as f64 / rows,
            since("bytes written to leaves") as f64 / rows,
            since("bytes written to runs") as f64 / rows,
            since("leaf jobs"),
            since("push jobs"),
            since("installs discarded"),
            now("leaf bytes") >> 20,
            now("buffered bytes") >> 20,
            now("bytes waiting for flushes") >> 20,
            now("bytes beyond buffers") >> 20,
            now("memtable bytes") >> 20,
            now("cache pinned bytes") >> 20,
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, usual: u64| arguments.get(at).map_or(usual, |text| text.parse().expect("a number"));
    let directory = Path::new(arguments.get(1).expect("a directory")).join("steadiness");
    let (rows, memory_mb, threads) = (number(2, 4_000_000), number(3, 64), number(4, 0));
    let _ = std::fs::remove_dir_all(&directory);
    let mut options = Options::new(Arc::new(RealDisk), memory_mb << 20);
    if threads > 0 {
        options.threads = threads as usize;
    }
    let forest = Forest::open(&directory, options).expect("the forest opens");
    let apply = |ops| {
        forest.wait_for_room();
        forest.apply(&[Batch { position: forest.applied().next(), ops }]).expect("the batch applies");
    };
    apply(vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }]);
    let (mut dice, mut next, mut rates) = (Random::new(5), 0, Vec::new());
    while next < rows {
        let (begin, cpu_begin, before) = (Instant::now(), cpu(), statistics(&forest));
        let (first, end) = (next, (next + rows.div_ceil(SLICES)).min(rows));
        let mut slowest = Duration::ZERO;
        while next < end {
            let ops = (next..(next + BATCH).min(end)).map(|number| put(number, &mut dice)).collect::<Vec<_>>();
            next += ops.len() as u64;
            let call = Instant::now();
            apply(ops);
            slowest = slowest.max(call.elapsed());
        }
        let slice = Slice { rows: end - first, wall: begin.elapsed(), cpu: cpu() - cpu_begin, slowest };
        rates.push(slice.rows as f64 / slice.wall.as_secs_f64());
        slice.print(&before, &statistics(&forest));
    }
    let mean = |rates: &[f64]| rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
    let (all, last) = (mean(&rates), mean(rates.split_at(rates.len() - rates.len() / 5).1));
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    println!("mean {all:.0} rows/s, slowest slice {:.2}, last fifth {:.2} of the mean", slowest / all, last / all);
    let stats = forest.stats().expect("statistics");
    println!("{} bytes per row on disk, {} of them free", stats.disk_bytes / rows, stats.free_bytes / rows);
    forest.checkpoint().expect("a checkpoint");
    let stats = forest.stats().expect("statistics");
    println!("{} bytes per row in use after a checkpoint", (stats.disk_bytes - stats.free_bytes) / rows);
    drop(forest);
    scan(&directory, memory_mb, &mut dice);
}

/// Scans of 100 rows past the page cache, in a forest that was just opened.
fn scan(directory: &Path, memory_mb: u64, dice: &mut Random) {
    const SCANS: u64 = 1000;
    let mut options = Options::new(Arc::new(RealDisk), memory_mb << 20);
    (options.direct_io, options.threads) = (true, 0);
    let forest = Forest::open(directory, options).expect("the forest opens");
    let before = statistics(&forest);
    for _ in 0..SCANS {
        let snapshot = forest.snapshot().expect("a snapshot");
        let mut cursor = snapshot.cursor(TREE).expect("the tree is there");
        let mut more = cursor.seek(&dice.next_u64().to_be_bytes()).expect("seek answers");
        for _ in 0..99 {
            more = more && cursor.next().expect("next answers");
        }
    }
    let after = statistics(&forest);
    let since = |name: &str| after[name] - before[name];
    println!(
        "cold scan of 100 rows: {} bytes read, {} of blocks ({:.1} blocks of leaves, {:.1} of runs), {} of bodies",
        since("file bytes read") / SCANS,
        since("bytes read for blocks") / SCANS,
        since("leaf block misses") as f64 / SCANS as f64,
        since("run block misses") as f64 / SCANS as f64,
        since("bytes read for bodies") / SCANS,
    );
}
