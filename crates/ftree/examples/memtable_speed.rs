//! Speed of the memtable: `cargo run --release -p arbor-ftree --example memtable_speed`.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use arbor_base::TreeId;
use arbor_ftree::memtable::{MemTree, Memtable};
use arbor_ftree::snapshots::Snapshots;
use arbor_ftree::{Entry, Kind, Seq};

const LIMIT_BYTES: u64 = 16 << 20;
/// Operations that are timed together.
const STRETCH: u64 = 500;

fn hash(key: &[u8]) -> u64 {
    arbor_ftree::filter::hash(key)
}

fn key(i: u64) -> [u8; 8] {
    (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9).to_be_bytes()
}

/// Medians over short stretches, so that other processes' turns on the core do not count.
fn measure(name: &str, count: u64, mut work: impl FnMut(u64)) {
    let mut stretches: Vec<u128> = (0..count / STRETCH)
        .map(|stretch| {
            let start = Instant::now();
            (stretch * STRETCH..(stretch + 1) * STRETCH).for_each(&mut work);
            start.elapsed().as_nanos()
        })
        .collect();
    stretches.sort_unstable();
    let at = |part: usize| stretches[stretches.len() * part / 100] as f64 / STRETCH as f64;
    println!("{name:<40}{:>8.1} ns (10 %: {:.1}, 90 %: {:.1})", at(50), at(10), at(90));
}

/// Fills a new memtable up to its limit.
fn fill(name: &str, value: &[u8], key: impl Fn(u64) -> [u8; 8]) -> (std::sync::Arc<Memtable>, u64) {
    let memtable = Memtable::new(LIMIT_BYTES);
    let part = memtable.part(TreeId(7));
    let rows = LIMIT_BYTES / (value.len() as u64 + 60);
    measure(name, rows, |i| {
        let key = key(i);
        part.insert(Entry { key: &key, seq: Seq(i + 1), kind: Kind::Put, value }, hash(&key));
    });
    println!("   {rows} rows, {} bytes each", memtable.bytes() / rows);
    (memtable, rows)
}

fn walk(part: &MemTree, rows: u64) {
    let mut cursor = part.cursor();
    cursor.first();
    measure("next, reading the value", rows, |_| {
        black_box(cursor.entry().map(|entry| entry.value[0]));
        cursor.next();
    });
    cursor.last();
    measure("prev, reading the value", rows, |_| {
        black_box(cursor.entry().map(|entry| entry.value[0]));
        cursor.prev();
    });
}

fn main() {
    for _ in 0..3 {
        fill("insert, ascending, 120 bytes", &[7; 120], u64::to_be_bytes);
        fill("insert, ascending, 8 bytes", &[7; 8], u64::to_be_bytes);
        fill("insert, scattered, 8 bytes", &[7; 8], key);
        let (memtable, rows) = fill("insert, scattered, 120 bytes", &[7; 120], key);
        let part = memtable.part(TreeId(7));
        walk(&part, rows);
        let picked = |i: u64| key(i.wrapping_mul(0x9E37_79B9) % rows);
        measure("present key, filter, seek and value", 1 << 18, |i| {
            let key = picked(i);
            let mut cursor = part.cursor();
            if part.may_contain(hash(&key)) {
                cursor.seek_at(&key, Seq(u64::MAX - 1));
            }
            black_box(cursor.entry().map(|entry| entry.value[0]));
        });
        let mut wrong = 0u64;
        let absent: Vec<u64> = (0..1 << 18).map(|i| hash(&key(rows + i))).collect();
        measure("absent key, filter", 1 << 18, |i| wrong += u64::from(part.may_contain(absent[i as usize])));
        println!("   {:.2} % taken for present", wrong as f64 * 100.0 / f64::from(1 << 18));
        let (snapshots, visible) = (Snapshots::new(), AtomicU64::new(1));
        measure("register and drop a snapshot", 1 << 20, |_| drop(black_box(snapshots.register(&visible))));
    }
}
