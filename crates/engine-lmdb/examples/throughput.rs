//! Small throughput benchmark of the adapter: `cargo run --release -p arbor-engine-lmdb --example throughput`.

use std::time::{Duration, Instant};

use arbor_base::{Random, TreeId};
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_engine_contract::Scratch;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

const ROWS: u64 = 1_000_000;
const VALUE_BYTES: usize = 200;

fn main() {
    let scratch = Scratch::new();
    let engine = LmdbEngine::open(scratch.path(), LmdbOptions::default()).expect("the engine opens");
    let create = |tree| Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() };
    apply(&engine, vec![create(1), create(2), create(3)]);

    let load = Instant::now();
    let mut rows = (0..ROWS).map(|n| (key(n), vec![n as u8; VALUE_BYTES]));
    engine.bulk_load(TreeId(1), &mut rows).expect("the load succeeds");
    rate("bulk load, rows", ROWS, load.elapsed());
    let sync = Instant::now();
    engine.checkpoint().expect("a checkpoint");
    println!("checkpoint of it: {:?}", sync.elapsed());
    print_size(&engine);

    gets(&engine, 1);
    gets(&engine, 2);
    scan(&engine);
    batches(&engine, "batches of 1000 puts, rising keys, puts", 2, |n| n);
    batches(&engine, "batches of 1000 puts, random keys, puts", 3, arbor_base::scatter);
    print_size(&engine);
    singles(&engine);
    print_size(&engine);
    estimates(&engine);
    print_size(&engine);
}

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn apply(engine: &LmdbEngine, ops: Vec<Op>) {
    engine.apply(&[Batch { position: engine.applied().next(), ops }]).expect("the batch applies");
}

fn rate(what: &str, count: u64, time: Duration) {
    let per_second = count as f64 / time.as_secs_f64();
    println!("{what}: {per_second:.0}/s ({:.0} ns each)", time.as_nanos() as f64 / count as f64);
}

fn print_size(engine: &LmdbEngine) {
    let stats = engine.stats().expect("stats");
    println!("file {} MB, free {} MB, {:?}", stats.disk_bytes >> 20, stats.free_bytes >> 20, stats.counters);
}

/// A snapshot per get, as a point query has.
fn gets(engine: &LmdbEngine, threads: u64) {
    let each = 1_000_000;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..each {
                    let snapshot = engine.snapshot().expect("a snapshot");
                    let value = snapshot.get(TreeId(1), &key(random.below(ROWS))).expect("get answers");
                    assert_eq!(value.map_or(0, |value| value.len()), VALUE_BYTES);
                }
            });
        }
    });
    rate(&format!("snapshot and get, random cached keys, {threads} threads"), each * threads, begin.elapsed());
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut random = Random::new(9);
    let begin = Instant::now();
    for _ in 0..each {
        snapshot.get(TreeId(1), &key(random.below(ROWS))).expect("get answers");
    }
    rate("get in one snapshot", each, begin.elapsed());
}

fn scan(engine: &LmdbEngine) {
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut cursor = snapshot.cursor(TreeId(1)).expect("a cursor");
    let (begin, mut bytes) = (Instant::now(), 0);
    let mut more = cursor.first().expect("a move");
    while more {
        bytes += cursor.value().len();
        more = cursor.next().expect("a move");
    }
    assert_eq!(bytes, ROWS as usize * VALUE_BYTES);
    rate("scan, rows", ROWS, begin.elapsed());
}

fn batches(engine: &LmdbEngine, what: &str, tree: u64, key_of: impl Fn(u64) -> u64) {
    let begin = Instant::now();
    for batch in 0..200 {
        let put = |n| Op::Put { tree: TreeId(tree), key: key(key_of(n)), value: vec![n as u8; VALUE_BYTES] };
        apply(engine, (batch * 1000..(batch + 1) * 1000).map(put).collect());
    }
    rate(what, 200_000, begin.elapsed());
}

fn singles(engine: &LmdbEngine) {
    let begin = Instant::now();
    let mut random = Random::new(4);
    for n in 0..50_000u64 {
        let key = key(random.below(ROWS));
        apply(engine, vec![Op::Put { tree: TreeId(1), key, value: vec![n as u8; VALUE_BYTES] }]);
    }
    rate("batches of one replaced row", 50_000, begin.elapsed());
}

fn estimates(engine: &LmdbEngine) {
    let snapshot = engine.snapshot().expect("a snapshot");
    let begin = Instant::now();
    for n in 0..10_000 {
        snapshot.estimate(TreeId(1), &key(n * 50), Some(&key(n * 90 + 1000))).expect("an estimate");
    }
    rate("estimate", 10_000, begin.elapsed());
}
