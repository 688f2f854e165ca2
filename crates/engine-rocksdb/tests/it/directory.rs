//! Directories that are in use, foreign or damaged, the space of dropped trees, and the cost of reads next to large rows.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Position, Random, TreeId};
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_engine_rocksdb::{RocksEngine, RocksOptions};

const TREE: TreeId = TreeId(1);

fn open(dir: &Path) -> Result<RocksEngine, Error> {
    RocksEngine::open(dir, RocksOptions::default())
}

fn error_of(dir: &Path) -> String {
    open(dir).err().unwrap().to_string()
}

fn create() -> Op {
    Op::CreateTree { tree: TREE, options: TreeOptions::default() }
}

fn apply(engine: &RocksEngine, ops: Vec<Op>) {
    engine.apply(&[Batch { position: engine.applied().next(), ops }]).unwrap();
}

fn put(n: u64) -> Op {
    Op::Put { tree: TREE, key: n.to_be_bytes().to_vec(), value: Random::new(n).bytes(1000) }
}

fn table_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
}

#[test]
fn directories_that_cannot_be_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let engine = open(dir).unwrap();
    let in_use = format!("cannot open {}: in use by another engine or process", dir.display());
    assert_eq!(error_of(dir), in_use);
    apply(&engine, vec![create(), put(1)]);
    engine.checkpoint().unwrap();
    drop(engine);
    fs::write(dir.join("ARBOR_ENGINE"), "rocksdb 3\n").unwrap();
    assert!(error_of(dir).contains("ARBOR_ENGINE says 'rocksdb 3', this build reads 'rocksdb 2'"));
    fs::remove_file(dir.join("ARBOR_ENGINE")).unwrap();
    assert!(error_of(dir).contains("and is not a RocksDB directory of Arbor"));
    fs::write(dir.join("ARBOR_ENGINE"), "rocksdb 2\n").unwrap();
    drop(open(dir).unwrap());
    fs::remove_file(dir.join("CURRENT")).unwrap();
    assert!(error_of(dir).contains("the file CURRENT is missing"));
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), Err(Error::CannotOpen { .. })));
}

#[test]
fn wrong_options_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let options = RocksOptions { compression: "quicklz".to_owned(), ..RocksOptions::default() };
    assert!(matches!(RocksEngine::open(scratch.path(), options), Err(Error::InvalidOption { .. })));
    let engine = open(scratch.path()).unwrap();
    let settings = vec![("compression".to_owned(), "best".to_owned())];
    let op = Op::CreateTree { tree: TREE, options: TreeOptions { settings } };
    let refused = engine.apply(&[Batch { position: Position(1), ops: vec![op] }]);
    assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    assert_eq!(engine.applied(), Position(0));
}

/// Damage is named with its file; data in other files stays readable and writable.
#[test]
fn damage_names_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let engine = open(dir).unwrap();
    apply(&engine, std::iter::once(create()).chain((0..500).map(put)).collect());
    engine.checkpoint().unwrap();
    drop(engine);
    let files = table_files(dir);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0xaa);
    fs::write(file, bytes).unwrap();
    let engine = open(dir).unwrap();
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(TREE).unwrap();
    let walk = std::iter::once(cursor.first()).find(|step| step.is_err());
    let failed = walk.map_or_else(
        || {
            loop {
                match cursor.next() {
                    Ok(true) => {}
                    Ok(false) => panic!("the damage was not seen"),
                    Err(error) => break error,
                }
            }
        },
        |step| step.unwrap_err(),
    );
    match failed {
        Error::Corrupt { place, .. } => assert_eq!(place, file.display().to_string()),
        error => panic!("{error}"),
    }
    assert!(snapshot.get(TREE, &0u64.to_be_bytes()).unwrap().is_some());
    apply(&engine, vec![put(1000)]);
    drop(cursor);
    drop(snapshot);
    drop(engine);

    fs::remove_file(file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(error_of(dir).contains(name), "{}", error_of(dir));
}

#[test]
fn the_space_of_dropped_trees_returns() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).unwrap();
    apply(&engine, vec![create()]);
    engine.bulk_load(TREE, &mut (0..3000u64).map(|n| (n.to_be_bytes().to_vec(), Random::new(n).bytes(1000)))).unwrap();
    engine.checkpoint().unwrap();
    let held = engine.snapshot().unwrap();
    apply(&engine, vec![Op::DropTree { tree: TREE }]);
    engine.checkpoint().unwrap();
    engine.checkpoint().unwrap();
    let full = engine.stats().unwrap().disk_bytes;
    assert!(full > 3_000_000, "{full}");
    assert!(held.get(TREE, &7u64.to_be_bytes()).unwrap().is_some(), "the snapshot keeps the rows");
    drop(held);
    // At once, or by a compaction if the file was in one.
    let begin = Instant::now();
    while engine.stats().unwrap().disk_bytes > 100_000 {
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", engine.stats().unwrap());
        engine.checkpoint().unwrap();
        std::thread::yield_now();
    }
}

/// Memtables become full many times while the log is behind: nothing becomes durable, and closing does not flush.
#[test]
fn full_memtables_wait_for_the_log() {
    let scratch = tempfile::tempdir().unwrap();
    let options = RocksOptions { memtable_bytes: Some(1 << 20), ..RocksOptions::default() };
    let engine = RocksEngine::open(scratch.path(), options.clone()).unwrap();
    apply(&engine, vec![create()]);
    engine.checkpoint().unwrap();
    let log_end = Arc::new(AtomicU64::new(1));
    let (end, asked) = (log_end.clone(), Arc::new(AtomicU64::new(0)));
    let counted = asked.clone();
    engine.set_barrier(Arc::new(move |position| {
        counted.fetch_add(1, Ordering::Relaxed);
        let behind = || Error::Other("the log is behind".to_owned());
        (position.0 <= end.load(Ordering::Relaxed)).then_some(()).ok_or_else(behind)
    }));
    let mut refused = 0;
    for n in 0..6000 {
        let position = engine.applied().next();
        refused += u32::from(engine.apply(&[Batch { position, ops: vec![put(n)] }]).is_err());
    }
    assert!(refused > 0 && asked.load(Ordering::Relaxed) > 0, "the writer stops when memory is full");
    assert_eq!(engine.durable(), Position(1));
    assert!(table_files(scratch.path()).len() <= 1);
    // The log comes after.
    log_end.store(u64::MAX, Ordering::Relaxed);
    apply(&engine, vec![put(9999)]);
    assert!(engine.durable() > Position(1));
    let (durable, applied) = (engine.checkpoint().unwrap(), engine.applied());
    assert_eq!(durable, applied);
    log_end.store(applied.0, Ordering::Relaxed);
    apply(&engine, vec![put(10_000)]);
    drop(engine);
    let engine = RocksEngine::open(scratch.path(), options).unwrap();
    assert_eq!((engine.applied(), engine.durable()), (durable, durable));
}

/// A group near RocksDB's own limit waits for the log first: RocksDB may flush it by itself.
#[test]
fn a_huge_group_waits_for_the_log() {
    let scratch = tempfile::tempdir().unwrap();
    let options = RocksOptions { memtable_bytes: Some(1 << 20), ..RocksOptions::default() };
    let engine = RocksEngine::open(scratch.path(), options).unwrap();
    apply(&engine, vec![create()]);
    engine.set_barrier(Arc::new(|_| Err(Error::Other("the log is behind".to_owned()))));
    let huge = Batch { position: Position(2), ops: (0..12_000).map(put).collect() };
    assert!(engine.apply(std::slice::from_ref(&huge)).is_err());
    assert_eq!(engine.applied(), Position(1));
    engine.set_barrier(Arc::new(|_| Ok(())));
    engine.apply(&[huge]).unwrap();
    let keys = engine.tree_stats(TREE).unwrap().keys;
    assert!((6000..24_000).contains(&keys), "{keys}");
}

/// Each file of the first level has a large row. 400 finds of a small one read all of them, and scans held one of each file.
#[test]
fn large_rows_are_read_when_they_are_needed() {
    const LARGE: usize = 8 << 20;
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).unwrap();
    let (small, large) = (TREE, TreeId(2));
    apply(&engine, vec![create(), Op::CreateTree { tree: large, options: TreeOptions::default() }]);
    for n in 0..3u64 {
        let value = Random::new(n).bytes(LARGE);
        apply(&engine, vec![Op::Put { tree: large, key: n.to_be_bytes().to_vec(), value }]);
        if n == 0 {
            apply(&engine, (0..20).map(put).collect());
        }
        engine.checkpoint().unwrap();
    }
    assert_eq!(table_files(scratch.path()).len(), 3);
    let counter = |name: &str| engine.stats().unwrap().counters.iter().find(|(known, _)| *known == name).unwrap().1;
    let snapshot = engine.snapshot().unwrap();
    let before = counter("cache_read_in_bytes");
    let mut cursor = snapshot.cursor(small).unwrap();
    let (mut count, mut more) = (0, cursor.first().unwrap());
    while more {
        (count, more) = (count + 1, cursor.next().unwrap());
    }
    let read = counter("cache_read_in_bytes") - before;
    assert!(count == 20 && read < 1 << 20, "{count} rows, {read} bytes");
    drop(cursor);
    let mut cursor = snapshot.cursor(large).unwrap();
    assert!(cursor.first().unwrap());
    let held = counter("cache_pinned_bytes");
    assert!((LARGE as u64..2 * LARGE as u64).contains(&held), "{held} bytes");
}
