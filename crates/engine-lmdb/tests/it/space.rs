//! Space: full pages, reuse of freed pages, a full map.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_engine_contract::Scratch;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

fn open(scratch: &Scratch, options: LmdbOptions) -> LmdbEngine {
    LmdbEngine::open(scratch.path(), options).unwrap()
}

fn quiet() -> LmdbOptions {
    LmdbOptions { background: false, ..LmdbOptions::default() }
}

fn file_bytes(scratch: &Scratch) -> u64 {
    std::fs::metadata(scratch.path().join("data.mdb")).unwrap().blocks() * 512
}

fn try_apply(engine: &LmdbEngine, ops: Vec<Op>) -> arbor_engine::Result<()> {
    engine.apply(&[Batch { position: engine.applied().next(), ops }])
}

fn apply(engine: &LmdbEngine, ops: Vec<Op>) {
    try_apply(engine, ops).unwrap();
}

fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

fn put(tree: u64, key: u64, bytes: usize) -> Op {
    Op::Put { tree: TreeId(tree), key: key.to_be_bytes().to_vec(), value: vec![key as u8; bytes] }
}

/// Rising keys fill pages although other trees follow in the file: the fences do their work.
#[test]
fn rising_keys_fill_their_pages() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, quiet());
    // Trees with some rows before and after, as collections and indexes are made.
    for tree in 1..=8 {
        apply(&engine, vec![create(tree)]);
        apply(&engine, (0..tree % 4 * 7).map(|n| put(tree, n, 60)).collect());
    }
    for tree in [2, 5, 8] {
        for group in 0..40 {
            apply(&engine, (0..100).map(|n| put(tree, 1000 + group * 100 + n, 150)).collect());
        }
    }
    // What the rows of one page need: 8 bytes of node header, a slot, 2 bytes of content number.
    let used = 3 * 4000 * (150 + 8 + 8 + 2 + 2);
    let pages = counter(&engine, "leaf pages") * 4096;
    assert!(pages < used * 115 / 100, "{pages} bytes of pages for {used} bytes of rows");
}

#[test]
fn a_bulk_load_fills_its_pages() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, quiet());
    apply(&engine, vec![create(1), create(2), put(2, 0, 10)]);
    let mut rows = (0..20_000u64).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 100]));
    engine.bulk_load(TreeId(1), &mut rows).unwrap();
    let used = 20_000 * (100 + 8 + 8 + 2 + 2);
    let pages = counter(&engine, "leaf pages") * 4096;
    assert!(pages < used * 110 / 100, "{pages} bytes of pages for {used} bytes of rows");
    let stats = engine.tree_stats(TreeId(1)).unwrap();
    assert!((pages * 9 / 10..=pages * 11 / 10).contains(&stats.disk_bytes), "{pages} {stats:?}");
}

fn counter(engine: &LmdbEngine, name: &str) -> u64 {
    let stats = engine.stats().unwrap();
    stats.counters.iter().find(|(counter, _)| *counter == name).unwrap().1
}

/// Puts and deletes a constant amount of rows over and over, with checkpoints: the file finds its size.
#[test]
fn churn_does_not_grow_the_file() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, quiet());
    apply(&engine, vec![create(1)]);
    let mut sizes = Vec::new();
    for round in 0..40u64 {
        for part in 0..5 {
            let keys = (0..100).map(|n| (round * 500 + part * 100 + n) * 7919 % 3000);
            let change = |key| match key % 3 {
                0 => Op::Delete { tree: TreeId(1), key: u64::to_be_bytes(key).to_vec() },
                _ => put(1, key, (key % 700) as usize + round as usize),
            };
            apply(&engine, keys.map(change).collect());
        }
        engine.checkpoint().unwrap();
        sizes.push(file_bytes(&scratch));
    }
    assert!(sizes[39] <= sizes[15] * 12 / 10, "{sizes:?}");
}

/// Without any checkpoint from outside the file finds its size as well.
#[test]
fn the_engine_makes_checkpoints_by_itself() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, LmdbOptions { freed_bytes_max: 1 << 20, ..LmdbOptions::default() });
    apply(&engine, vec![create(1)]);
    for round in 0..3000u64 {
        apply(&engine, (0..3).map(|n| put(1, (round * 3 + n) * 7919 % 5000, 100)).collect());
        // The background thread is woken at 256 pages; on a busy machine it may need a moment.
        let begin = Instant::now();
        while counter(&engine, "pages freed since checkpoint") > 300 {
            std::thread::sleep(Duration::from_millis(1));
            assert!(begin.elapsed() < Duration::from_secs(60), "no checkpoint is made");
        }
    }
    assert!(counter(&engine, "checkpoints") > 10);
    assert!(file_bytes(&scratch) < 6 << 20, "{}", file_bytes(&scratch));
}

#[test]
fn a_dropped_tree_leaves_its_space() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, quiet());
    let fill = |tree: u64| {
        apply(&engine, vec![create(tree)]);
        for group in 0..20 {
            apply(&engine, (0..200).map(|n| put(tree, group * 200 + n, 500)).collect());
            engine.checkpoint().unwrap();
        }
    };
    fill(1);
    let full = file_bytes(&scratch);
    for tree in 2..6 {
        apply(&engine, vec![Op::DropTree { tree: TreeId(tree - 1) }]);
        engine.sweep().unwrap();
        engine.checkpoint().unwrap();
        let free = engine.stats().unwrap().free_bytes;
        assert!(free * 10 > full * 8, "{free} of {full} are free");
        fill(tree);
        assert!(file_bytes(&scratch) < full * 13 / 10, "{} after {full}", file_bytes(&scratch));
    }
}

/// Sweeping finds every row, also those of long keys.
#[test]
fn nothing_stays_of_dropped_trees() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, quiet());
    let entries = counter(&engine, "entries");
    for round in 0..3 {
        apply(&engine, vec![create(1), create(2)]);
        for length in (0..4000usize).step_by(97) {
            let long =
                |end: u8| Op::Put { tree: TreeId(1), key: [&vec![b'k'; length][..], &[end]].concat(), value: vec![] };
            apply(&engine, vec![long(1), long(2), put(2, length as u64, length)]);
        }
        apply(
            &engine,
            vec![Op::DeleteRange { tree: TreeId(1), from: vec![], to: (round == 1).then(|| vec![b'k'; 2000]) }],
        );
        apply(&engine, vec![Op::DropTree { tree: TreeId(1) }, Op::DropTree { tree: TreeId(2) }]);
        engine.sweep().unwrap();
        assert_eq!(counter(&engine, "entries"), entries);
    }
}

/// Dropping is quick however large the tree is; the thread deletes its rows between other batches.
#[test]
fn a_drop_does_not_hold_batches_up() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, LmdbOptions::default());
    apply(&engine, vec![create(1), create(2)]);
    let mut rows = (0..60_000u64).map(|n| (n.to_be_bytes().to_vec(), vec![1; 50]));
    engine.bulk_load(TreeId(1), &mut rows).unwrap();
    apply(&engine, vec![Op::DropTree { tree: TreeId(1) }]);
    let begin = Instant::now();
    let mut meanwhile = 0;
    while counter(&engine, "swept rows") < 60_000 {
        apply(&engine, vec![put(2, meanwhile, 10)]);
        meanwhile += 1;
        assert!(begin.elapsed() < Duration::from_secs(60), "the sweep does not end");
    }
    assert!(meanwhile > 10, "only {meanwhile} batches were applied during the sweep");
}

/// A full map refuses writes with `OutOfSpace`, reads continue, and deleting helps.
#[test]
fn a_full_map() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, LmdbOptions { map_bytes: 4 << 20, ..quiet() });
    apply(&engine, (1..=4).map(create).collect());
    let mut key = 0;
    let error = loop {
        key += 1;
        if let Err(error) = try_apply(&engine, (0..20).map(|n| put(key % 4 + 1, key * 20 + n, 300)).collect()) {
            break error;
        }
        if key % 10 == 0 && engine.checkpoint().is_err() {
            // Counts do not fit any more; the checkpoint is tried again below.
        }
    };
    assert!(matches!(error, Error::OutOfSpace { .. }), "{error}");
    // To the last page.
    while try_apply(&engine, vec![put(1, key, 1)]).is_ok() {
        key += 1;
    }
    let keys = engine.tree_stats(TreeId(1)).unwrap().keys;
    assert!(keys > 500);
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(TreeId(1)).unwrap();
    assert!(cursor.first().unwrap() && cursor.last().unwrap());
    drop(cursor);
    drop(snapshot);
    // A checkpoint frees the pages that changed since the last one, also when there is no page left to write counts in.
    engine.checkpoint().unwrap();
    assert!(counter(&engine, "checkpoints without counts") > 0);
    let counted = counts(&engine);
    drop(engine);
    let engine = open(&scratch, LmdbOptions { map_bytes: 4 << 20, ..quiet() });
    assert_eq!(counts(&engine), counted);
    engine.checkpoint().unwrap();
    apply(&engine, vec![Op::DropTree { tree: TreeId(1) }]);
    engine.sweep().unwrap();
    engine.checkpoint().unwrap();
    for n in 0..20 {
        apply(&engine, (0..20).map(|m| put(2, 1_000_000 + n * 20 + m, 300)).collect());
        engine.checkpoint().unwrap();
    }
    let counted = counts(&engine);
    drop(engine);
    assert_eq!(counts(&open(&scratch, quiet())), counted);
}

fn counts(engine: &LmdbEngine) -> Vec<Option<(u64, u64)>> {
    let counts = |tree| engine.tree_stats(TreeId(tree)).ok().map(|stats| (stats.keys, stats.data_bytes));
    (1..=4).map(counts).collect()
}

/// Snapshots may take every reader slot; checkpoints have theirs.
#[test]
fn many_snapshots() {
    let scratch = Scratch::in_memory();
    let engine = open(&scratch, LmdbOptions { readers_max: 40, ..quiet() });
    apply(&engine, vec![create(1), put(1, 1, 10)]);
    let mut held = Vec::new();
    let error = loop {
        match engine.snapshot() {
            Ok(snapshot) => held.push(snapshot),
            Err(error) => break error,
        }
    };
    assert!(held.len() >= 30 && error.to_string().contains("maxreaders"), "{} {error}", held.len());
    for n in 0..3 {
        apply(&engine, vec![put(1, n, 10)]);
        assert_eq!(engine.checkpoint().unwrap(), engine.applied());
    }
    held.clear();
    assert!(engine.snapshot().unwrap().get(TreeId(1), &2u64.to_be_bytes()).unwrap().is_some());
}
