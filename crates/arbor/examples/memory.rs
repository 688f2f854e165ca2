//! Memory of a forest compared to what it charged: a random load of many times the budget, mixed work, scans, and
//! many small trees. `cargo run --release -p arbor --example memory -- DIRECTORY [MEMORY_MB=64] [TIMES=13] [TREES=2000]`
//!
//! Prints for each phase the operations per second, and the maximum of: bytes charged, bytes that could not be evicted, bytes
//! requested from the allocator, bytes it reserved for them (size classes), and resident memory.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arbor_base::{Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_ftree::{Forest, Options};
use tikv_jemallocator::Jemalloc;

/// As the server sets it (`allocator.rs` of the crate `arbor`).
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static SETTINGS: &[u8; 79] = b"percpu_arena:percpu,background_thread:true,dirty_decay_ms:200,muzzy_decay_ms:0\0";

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ASKED: AtomicU64 = AtomicU64::new(0);
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Counts on the way to jemalloc.
struct Counting;

fn count(pointer: *mut u8, layout: Layout, sign: u64) {
    if !pointer.is_null() {
        // SAFETY: the caller just got it from jemalloc, or is about to give it back.
        let usable = unsafe { tikv_jemallocator::usable_size(pointer) } as u64;
        ASKED.fetch_add((layout.size() as u64).wrapping_mul(sign), Relaxed);
        RESERVED.fetch_add(usable.wrapping_mul(sign), Relaxed);
    }
}

// SAFETY: all is handed on to jemalloc.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let pointer = unsafe { Jemalloc.alloc(layout) };
        count(pointer, layout, 1);
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(pointer, layout, u64::MAX);
        // SAFETY: as the caller promises.
        unsafe { Jemalloc.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let pointer = unsafe { Jemalloc.alloc_zeroed(layout) };
        count(pointer, layout, 1);
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(pointer, layout, u64::MAX);
        // SAFETY: as the caller promises.
        let moved = unsafe { Jemalloc.realloc(pointer, layout, bytes) };
        // SAFETY: the caller promises that this is a layout.
        count(moved, unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) }, 1);
        moved
    }
}

const MAIN: TreeId = TreeId(1);
const ROW_BYTES: u64 = 128;
const BATCH: u64 = 100;

fn key(number: u64) -> Vec<u8> {
    arbor_base::scatter(number).to_be_bytes().to_vec()
}

fn put(tree: TreeId, number: u64, dice: &mut Random) -> Op {
    let mut value = dice.bytes(60);
    value.resize(120, 0);
    Op::Put { tree, key: key(number), value }
}

fn apply(forest: &Forest, ops: Vec<Op>) {
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).expect("the batch applies");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() << 10
}

fn sample(forest: &Forest) -> [u64; 5] {
    let cache = &forest.core().io.cache;
    [cache.used(), cache.pinned(), ASKED.load(Relaxed), RESERVED.load(Relaxed), resident()]
}

/// Runs a phase while a thread samples the memory every few milliseconds.
fn phase(forest: &Forest, name: &str, work: impl FnOnce() -> u64) {
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let (done, most) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = [0; 5];
            while !stop.load(Relaxed) {
                for (most, now) in most.iter_mut().zip(sample(forest)) {
                    *most = now.max(*most);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let done = work();
        stop.store(true, Relaxed);
        (done, watch.join().expect("the watch does not fail"))
    });
    let [used, pinned, asked, reserved, resident] = most.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let rate = done as f64 / begin.elapsed().as_secs_f64();
    println!(
        "{name:10} {rate:9.0}/s  charged {used:6.1}  pinned {pinned:6.1}  asked {asked:6.1}  reserved {reserved:6.1}  resident {resident:6.1}"
    );
}

fn load(forest: &Forest, rows: u64) -> u64 {
    let mut dice = Random::new(3);
    for batch in 0..rows / BATCH {
        apply(forest, (0..BATCH).map(|at| put(MAIN, batch * BATCH + at, &mut dice)).collect());
    }
    rows
}

fn gets(forest: &Forest, rows: u64, seed: u64, until: Instant) -> u64 {
    let (mut dice, mut done) = (Random::new(seed), 0);
    while Instant::now() < until {
        let snapshot = forest.snapshot().expect("a snapshot");
        for _ in 0..100 {
            snapshot.get(MAIN, &key(dice.below(rows))).expect("get answers");
        }
        done += 100;
    }
    done
}

fn mixed(forest: &Forest, rows: u64, until: Instant) -> u64 {
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|seed| scope.spawn(move || gets(forest, rows, seed, until))).collect();
        let (mut dice, mut done) = (Random::new(99), 0);
        while Instant::now() < until {
            apply(forest, (0..10).map(|_| put(MAIN, dice.below(rows), &mut dice.clone())).collect());
            dice.next_u64();
            done += 10;
        }
        done + readers.into_iter().map(|reader| reader.join().expect("a reader")).sum::<u64>()
    })
}

fn scans(forest: &Forest, seed: u64, until: Instant) -> u64 {
    let (mut dice, mut done) = (Random::new(seed), 0);
    while Instant::now() < until {
        let snapshot = forest.snapshot().expect("a snapshot");
        let mut cursor = snapshot.cursor(MAIN).expect("the tree is there");
        let mut more = cursor.seek(&dice.next_u64().to_be_bytes()).expect("seek answers");
        for _ in 0..20_000 {
            more = more && cursor.next().expect("next answers");
            done += 1;
        }
    }
    done
}

fn many_trees(forest: &Forest, trees: u64) -> u64 {
    let mut dice = Random::new(5);
    let tree = |number: u64| TreeId(10 + number);
    apply(forest, (0..trees).map(|at| Op::CreateTree { tree: tree(at), options: TreeOptions::default() }).collect());
    let rows = trees * 200;
    for batch in 0..rows / BATCH {
        let ops = (0..BATCH).map(|_| put(tree(dice.below(trees)), batch, &mut dice.clone())).collect();
        dice.next_u64();
        apply(forest, ops);
    }
    rows
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, usual: u64| arguments.get(at).map_or(usual, |text| text.parse().expect("a number"));
    let data = Path::new(arguments.get(1).expect("a directory")).join("memory");
    let (memory_mb, times, trees) = (number(2, 64), number(3, 13), number(4, 2000));
    let _ = std::fs::remove_dir_all(&data);
    let mut options = Options::new(Arc::new(RealDisk), memory_mb << 20);
    options.direct_io = std::env::var("DIRECT").is_ok();
    let forest = Forest::open(&data, options).expect("the forest opens");
    println!("budget {memory_mb} MB; all in MB, at most:");
    apply(&forest, vec![Op::CreateTree { tree: MAIN, options: TreeOptions::default() }]);
    let rows = (memory_mb << 20) * times / ROW_BYTES;
    let soon = || Instant::now() + Duration::from_secs(8);
    phase(&forest, "load-rand", || load(&forest, rows));
    phase(&forest, "mixed", || mixed(&forest, rows, soon()));
    phase(&forest, "scan", || scans(&forest, 7, soon()));
    phase(&forest, "trees", || many_trees(&forest, trees));
    let statistics = forest.stats().expect("statistics").counters;
    println!("{statistics:?}");
    drop(forest);
    let _ = std::fs::remove_dir_all(&data);
}
