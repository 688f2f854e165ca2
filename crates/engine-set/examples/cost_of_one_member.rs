//! Cost of a set of one engine over that engine alone: reads of one row, each on a snapshot of its own, and groups of
//! one small put. Turns of both alternate, and the fastest of all turns counts, so that a busy machine changes little.
//!
//! `cargo run --release -p arbor-engine-set --example cost_of_one_member`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::{Position, Random, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_engine_set::{EngineSet, Kind};
use arbor_ftree::{Forest, Options};

const TREE: TreeId = TreeId(100);
const ROWS: u64 = 100_000;
const TURNS: usize = 300;
const READS: u64 = 2_000;
const GROUPS: u64 = 500;

fn key(number: u64) -> [u8; 8] {
    arbor_base::scatter(number).to_be_bytes()
}

fn put(engine: &dyn Engine, number: u64) {
    let op = Op::Put { tree: TREE, key: key(number).to_vec(), value: vec![7; 100] };
    engine.apply(&[Batch { position: engine.applied().next(), ops: vec![op] }]).expect("a put applies");
}

fn fill(engine: &dyn Engine) {
    let create = Op::CreateTree { tree: TREE, options: TreeOptions::default() };
    engine.apply(&[Batch { position: Position(1), ops: vec![create] }]).expect("a tree can be made");
    (0..ROWS).for_each(|number| put(engine, number));
    engine.checkpoint().expect("a checkpoint can be made");
}

fn forest(directory: &Path) -> Arc<dyn Engine> {
    let mut options = Options::new(Arc::new(RealDisk), 256 << 20);
    // No work of the engine's own falls into a turn of one of the two.
    (options.threads, options.checkpoint_interval_ms) = (0, 0);
    (options.memtable_bytes, options.checkpoint_bytes) = (64 << 20, 1 << 40);
    std::fs::create_dir_all(directory).expect("a directory can be made");
    Arc::new(Forest::open(directory, options).expect("an engine opens"))
}

fn read(engine: &dyn Engine, dice: &mut Random) -> Duration {
    let begun = Instant::now();
    for _ in 0..READS {
        let snapshot = engine.snapshot().expect("a snapshot can be taken");
        assert!(snapshot.get(TREE, &key(dice.below(ROWS))).expect("a row can be read").is_some());
    }
    begun.elapsed() / READS as u32
}

fn write(engine: &dyn Engine, dice: &mut Random) -> Duration {
    let begun = Instant::now();
    (0..GROUPS).for_each(|_| put(engine, dice.below(ROWS)));
    begun.elapsed() / GROUPS as u32
}

fn compare(what: &str, engines: [&dyn Engine; 2], turns: usize, turn: impl Fn(&dyn Engine, &mut Random) -> Duration) {
    let mut fastest = [Duration::MAX; 2];
    let mut ratios = Vec::new();
    for number in 0..turns {
        let mut took = [Duration::ZERO; 2];
        for at in [number % 2, 1 - number % 2] {
            took[at] = turn(engines[at], &mut Random::new(number as u64));
            fastest[at] = fastest[at].min(took[at]);
        }
        ratios.push(took[1].as_secs_f64() / took[0].as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let [alone, set] = fastest.map(|time| time.as_nanos());
    let ratio = set as f64 / alone as f64;
    println!(
        "{what}: alone {alone} ns, in a set {set} ns, ratio {ratio:.3} (median of turns {:.3})",
        ratios[turns / 2]
    );
}

fn main() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let alone = forest(&dir.path().join("alone"));
    let kinds = vec![Kind::new("ftree", |directory| Ok(forest(directory)))];
    let set = EngineSet::open(&dir.path().join("set"), kinds, "ftree", "ftree").expect("a set opens");
    fill(&*alone);
    fill(&set);
    compare("read of a row", [&*alone, &set], TURNS, read);
    compare("group of one put", [&*alone, &set], TURNS, write);
}
