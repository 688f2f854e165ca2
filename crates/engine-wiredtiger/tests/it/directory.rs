//! Directories that are in use, foreign or damaged; space; settings of the running engine; large groups.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Position, Random, TreeId};
use arbor_engine::{Batch, Engine, Error, Op, TreeOptions};
use arbor_engine_wiredtiger::{WiredTigerEngine, WiredTigerOptions};

const TREE: TreeId = TreeId(1);

fn open(dir: &Path) -> Result<WiredTigerEngine, Error> {
    WiredTigerEngine::open(dir, WiredTigerOptions::default())
}

fn error_of(dir: &Path) -> String {
    open(dir).err().unwrap().to_string()
}

fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

fn apply(engine: &WiredTigerEngine, ops: Vec<Op>) {
    engine.apply(&[Batch { position: engine.applied().next(), ops }]).unwrap();
}

fn put_in(tree: u64, n: u64) -> Op {
    Op::Put { tree: TreeId(tree), key: n.to_be_bytes().to_vec(), value: Random::new(n).bytes(1000) }
}

fn put(n: u64) -> Op {
    put_in(1, n)
}

fn tables(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with('t')).collect();
    names.sort();
    names
}

#[test]
fn directories_that_cannot_be_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let engine = open(dir).unwrap();
    let in_use = format!("cannot open {}: in use by another engine or process", dir.display());
    assert_eq!(error_of(dir), in_use);
    apply(&engine, vec![create(1), put(1)]);
    engine.checkpoint().unwrap();
    drop(engine);
    fs::write(dir.join("ARBOR_ENGINE"), "wiredTiger 2\n").unwrap();
    assert!(error_of(dir).contains("ARBOR_ENGINE says 'wiredTiger 2', this build reads 'wiredTiger 1'"));
    fs::remove_file(dir.join("ARBOR_ENGINE")).unwrap();
    assert!(error_of(dir).contains("and is not a WiredTiger directory of Arbor"));
    fs::write(dir.join("ARBOR_ENGINE"), "wiredTiger 1\n").unwrap();
    drop(open(dir).unwrap());
    for name in ["WiredTiger", "WiredTiger.turtle", "WiredTiger.wt"] {
        fs::rename(dir.join(name), dir.join("aside")).unwrap();
        assert!(error_of(dir).contains(&format!("the file {name} is missing next to")), "{}", error_of(dir));
        fs::rename(dir.join("aside"), dir.join(name)).unwrap();
    }
    assert_eq!(open(dir).unwrap().applied(), Position(1));
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), Err(Error::CannotOpen { .. })));
}

type Damage = fn(&mut Vec<u8>);

/// WiredTiger's own files: whatever is wrong with them, an error names one of them.
#[test]
fn damage_of_the_metadata_is_answered() {
    let damages: [(&str, Damage); 6] = [
        ("WiredTiger.turtle", |bytes| bytes.truncate(10)),
        ("WiredTiger.turtle", |bytes| bytes.fill(b'x')),
        ("WiredTiger.wt", |bytes| bytes.truncate(4096)),
        ("WiredTiger.wt", |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x55)),
        ("WiredTiger.wt", |bytes| bytes.iter_mut().skip(4096).for_each(|byte| *byte ^= 1)),
        ("t0.wt", |bytes| bytes.iter_mut().skip(4096).for_each(|byte| *byte ^= 1)),
    ];
    for (number, (name, damage)) in damages.iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let engine = open(dir).unwrap();
        apply(&engine, vec![create(1), put(1)]);
        engine.checkpoint().unwrap();
        drop(engine);
        let mut bytes = fs::read(dir.join(name)).unwrap();
        damage(&mut bytes);
        fs::write(dir.join(name), bytes).unwrap();
        let error = open(dir).map(|engine| engine.applied()).expect_err(name);
        let text = error.to_string();
        assert!(text.contains("WiredTiger") && text.contains(&dir.display().to_string()), "{number} {name}: {text}");
    }
}

/// Damage is named with its file, and ends WiredTiger: it returns errors until it is opened again.
#[test]
fn damage_of_a_table_names_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let engine = open(dir).unwrap();
    apply(&engine, [create(1), create(2), put_in(2, 7)].into_iter().chain((0..500).map(put)).collect());
    engine.checkpoint().unwrap();
    drop(engine);
    let file = dir.join("t1.wt");
    let sound = fs::read(&file).unwrap();
    let mut bytes = sound.clone();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0xaa);
    fs::write(&file, bytes).unwrap();

    let engine = open(dir).unwrap();
    assert!(engine.snapshot().unwrap().get(TreeId(2), &7u64.to_be_bytes()).unwrap().is_some());
    let snapshot = engine.snapshot().unwrap();
    let failed = (0..500u64).find_map(|n| snapshot.get(TREE, &n.to_be_bytes()).err()).expect("the damage is seen");
    match failed {
        Error::Corrupt { place, .. } => assert_eq!(place, file.display().to_string()),
        error => panic!("{error}"),
    }
    let next = engine.applied().next();
    assert!(engine.apply(&[Batch { position: next, ops: vec![put(9)] }]).is_err());
    assert!(engine.checkpoint().is_err());
    // WiredTiger stays as it is until the process ends, and keeps the directory.
    drop(snapshot);
    drop(engine);
    assert!(error_of(dir).contains("in use"), "{}", error_of(dir));

    for missing in [true, false] {
        let other = tempfile::tempdir().unwrap();
        let dir = other.path();
        for name in fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()) {
            fs::copy(scratch.path().join(&name), dir.join(&name)).unwrap();
        }
        match missing {
            true => fs::remove_file(dir.join("t1.wt")).unwrap(),
            false => fs::write(dir.join("t1.wt"), &sound[..sound.len() / 3]).unwrap(),
        }
        let engine = open(dir).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let failed = (0..500u64).find_map(|n| snapshot.get(TREE, &n.to_be_bytes()).err()).expect("the damage is seen");
        assert!(failed.to_string().contains("t1.wt"), "{failed}");
    }
}

#[test]
fn the_space_of_dropped_trees_returns() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let engine = open(dir).unwrap();
    apply(&engine, vec![create(1)]);
    engine.bulk_load(TREE, &mut (0..3000u64).map(|n| (n.to_be_bytes().to_vec(), Random::new(n).bytes(1000)))).unwrap();
    engine.checkpoint().unwrap();
    let stats = engine.tree_stats(TREE).unwrap();
    assert!(stats.keys == 3000 && stats.disk_bytes > 3_000_000, "{stats:?}");
    let held = engine.snapshot().unwrap();
    assert!(held.get(TREE, &1u64.to_be_bytes()).unwrap().is_some());
    apply(&engine, vec![Op::DropTree { tree: TREE }]);
    engine.checkpoint().unwrap();
    assert!(engine.stats().unwrap().disk_bytes > 3_000_000);
    assert!(held.get(TREE, &7u64.to_be_bytes()).unwrap().is_some(), "the snapshot keeps the rows");
    drop(held);
    engine.checkpoint().unwrap();
    assert!(engine.stats().unwrap().disk_bytes < 500_000, "{:?}", tables(dir));
    assert_eq!(tables(dir), ["t0.wt"]);
}

/// A crash after a tree was made, and one after it was dropped, leave no file.
#[test]
fn orphans_go_at_open() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, image) = (scratch.path().join("a"), scratch.path().join("b"));
    fs::create_dir(&image).unwrap();
    let engine = open(&dir).unwrap();
    apply(&engine, vec![create(1), put(1)]);
    engine.checkpoint().unwrap();
    engine.set_barrier(Arc::new(|_| Err(Error::Other("the log is behind".to_owned()))));
    apply(&engine, vec![create(2), put_in(2, 5), Op::DropTree { tree: TREE }]);
    assert_eq!(tables(&dir), ["t0.wt", "t1.wt", "t2.wt"]);
    for name in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()) {
        fs::copy(dir.join(&name), image.join(&name)).unwrap();
    }
    let engine = open(&image).unwrap();
    assert_eq!((engine.applied(), engine.trees().unwrap()), (Position(1), vec![TREE]));
    assert_eq!(tables(&image), ["t0.wt", "t1.wt"]);
    assert!(engine.snapshot().unwrap().get(TREE, &1u64.to_be_bytes()).unwrap().is_some());
}

#[test]
fn compaction_gives_space_back() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).unwrap();
    apply(&engine, vec![create(1)]);
    engine
        .bulk_load(TREE, &mut (0..20_000u64).map(|n| (n.to_be_bytes().to_vec(), Random::new(n).bytes(1000))))
        .unwrap();
    engine.checkpoint().unwrap();
    let gone = (0..20_000u64).filter(|n| n / 100 % 4 != 0);
    apply(&engine, gone.map(|n| Op::Delete { tree: TREE, key: n.to_be_bytes().to_vec() }).collect());
    engine.checkpoint().unwrap();
    assert_eq!(engine.tree_stats(TREE).unwrap().keys, 5000);
    let freed = engine.compact(TREE, &|| false).unwrap();
    let stats = engine.tree_stats(TREE).unwrap();
    assert!(freed > 8_000_000 && stats.disk_bytes < 12_000_000, "{freed} {stats:?}");
    assert!(engine.snapshot().unwrap().get(TREE, &400u64.to_be_bytes()).unwrap().is_some());
    assert_eq!(engine.compact(TREE, &|| true).unwrap(), 0);
    assert!(matches!(engine.compact(TreeId(9), &|| false), Err(Error::UnknownTree(_))));
}

#[test]
fn the_cache_changes_while_the_engine_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).unwrap();
    let statistic = |name: &str| {
        let stats = engine.stats().unwrap();
        stats.counters.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}")).1
    };
    assert_eq!(statistic("cache: maximum bytes configured"), 256 << 20);
    engine.set_parameter("cacheBytes", "100000000").unwrap();
    assert_eq!(statistic("cache: maximum bytes configured"), 100_000_000);
    engine.set_parameter("runtimeConfig", "cache_size=200M,eviction=(threads_max=6)").unwrap();
    assert_eq!(statistic("cache: maximum bytes configured"), 200 << 20);
    assert_eq!(engine.parameter("cacheBytes").unwrap(), (200 << 20).to_string());
    for name in [
        "cache: bytes currently in the cache",
        "cache: tracked dirty bytes in the cache",
        "cache: pages read into cache",
        "cache: pages written from cache",
        "transaction: transaction checkpoints",
        "snapshots held",
    ] {
        statistic(name);
    }
    for (name, value) in
        [("cacheBytes", "lots"), ("cacheBytes", "1000"), ("fanout", "1"), ("runtimeConfig", "log=(enabled)")]
    {
        assert!(
            matches!(engine.set_parameter(name, value), Err(Error::InvalidOption { name: said, .. }) if said == name)
        );
    }
}

/// A group that is larger than the cache applies, whole batches at a time.
#[test]
fn a_group_larger_than_the_cache_applies() {
    let scratch = tempfile::tempdir().unwrap();
    let options = WiredTigerOptions { cache_bytes: 64 << 20, ..WiredTigerOptions::default() };
    let engine = WiredTigerEngine::open(scratch.path(), options).unwrap();
    apply(&engine, vec![create(1)]);
    let value = Random::new(1).bytes(1 << 20);
    let put = |n: u64| Op::Put { tree: TREE, key: n.to_be_bytes().to_vec(), value: value.clone() };
    engine.apply(&[Batch { position: Position(2), ops: (0..100).map(put).collect() }]).unwrap();
    assert_eq!(engine.tree_stats(TREE).unwrap().keys, 100);
    let snapshot = engine.snapshot().unwrap();
    assert!((0..100u64).all(|n| snapshot.get(TREE, &n.to_be_bytes()).unwrap().is_some()));
    engine.checkpoint().unwrap();
}

/// One open cursor and four documents of 11 MB ended writing: WiredTiger rolled the writer back until it gave up.
#[test]
fn a_held_snapshot_does_not_end_writing() {
    let scratch = tempfile::tempdir().unwrap();
    let options = WiredTigerOptions { cache_bytes: 32 << 20, ..WiredTigerOptions::default() };
    let engine = WiredTigerEngine::open(scratch.path(), options).unwrap();
    let cache_bytes = || {
        let stats = engine.stats().unwrap();
        stats.counters.iter().find(|(name, _)| *name == "cache: maximum bytes configured").unwrap().1
    };
    apply(&engine, vec![create(1), put(100)]);
    let snapshot = engine.snapshot().unwrap();
    for n in 0..16u64 {
        apply(
            &engine,
            vec![Op::Put { tree: TREE, key: n.to_be_bytes().to_vec(), value: Random::new(n).bytes(11_000_000) }],
        );
    }
    // The cache may have grown meanwhile; its configured size has not.
    assert_eq!(engine.parameter("cacheBytes").unwrap(), (32 << 20).to_string());
    assert!(snapshot.get(TREE, &0u64.to_be_bytes()).unwrap().is_none());
    assert!(snapshot.get(TREE, &100u64.to_be_bytes()).unwrap().is_some());
    drop(snapshot);
    engine.checkpoint().unwrap();
    let begun = Instant::now();
    while cache_bytes() > 32 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(300), "{} bytes", cache_bytes());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!((0..16u64).all(|n| engine.snapshot().unwrap().get(TREE, &n.to_be_bytes()).unwrap().is_some()));
}

/// Checkpoints of WiredTiger's own, here those of a compaction and of closing, do not pass the barrier.
#[test]
fn nothing_passes_the_barrier() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let engine = open(dir).unwrap();
    apply(&engine, [create(1)].into_iter().chain((0..2000).map(put)).collect());
    engine.checkpoint().unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    engine.set_barrier(Arc::new(move |position| {
        counted.fetch_max(position.0, Ordering::Relaxed);
        Err(Error::Other("the log is behind".to_owned()))
    }));
    let range = Op::DeleteRange { tree: TREE, from: 10u64.to_be_bytes().to_vec(), to: None };
    apply(&engine, vec![range, put(5000)]);
    engine.compact(TREE, &|| false).unwrap();
    assert!(engine.checkpoint().is_err() && engine.durable() == Position(1));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    drop(engine);
    let engine = open(dir).unwrap();
    assert_eq!((engine.applied(), engine.tree_stats(TREE).unwrap().keys), (Position(1), 2000));
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(TREE).unwrap();
    let mut rows = u64::from(cursor.first().unwrap());
    while cursor.next().unwrap() {
        rows += 1;
    }
    assert_eq!(rows, 2000);
}

/// The options of a tree reach its table when it is made.
#[test]
fn trees_have_options_of_their_own() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).unwrap();
    let compressed = |tree: u64, compressor: &str| {
        let settings = vec![("compression".to_owned(), compressor.to_owned())];
        let rows = (0..2000u64).map(|n| Op::Put {
            tree: TreeId(tree),
            key: n.to_be_bytes().to_vec(),
            value: b"the same words again and again ".repeat(20),
        });
        let create = Op::CreateTree { tree: TreeId(tree), options: TreeOptions { settings } };
        apply(&engine, [create].into_iter().chain(rows).collect());
        engine.checkpoint().unwrap();
        engine.tree_stats(TreeId(tree)).unwrap().disk_bytes
    };
    let (none, zlib) = (compressed(1, "none"), compressed(2, "zlib"));
    assert!(none > 1_200_000 && zlib < 200_000, "{none} {zlib}");
    // Right one by one, wrong together: refused before anything is logged, and nothing is left of the attempt.
    let together = |list: &[(&str, &str)]| TreeOptions {
        settings: list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    engine.check_options(&together(&[("leafPageMax", "16KB"), ("allocationSize", "4KB")])).unwrap();
    let wrong = together(&[("leafPageMax", "512B"), ("allocationSize", "16KB")]);
    assert!(matches!(engine.check_options(&wrong), Err(Error::InvalidOption { .. })));
    let position = engine.applied().next();
    let op = Op::CreateTree { tree: TreeId(9), options: wrong };
    assert!(engine.apply(&[Batch { position, ops: vec![op] }]).is_err());
    apply(&engine, vec![put(1)]);
    assert_eq!(tables(scratch.path()), ["t0.wt", "t1.wt", "t2.wt"]);
    let unknown = TreeOptions { settings: vec![("compression".to_owned(), "zstd".to_owned())] };
    let error = engine.check_options(&unknown).unwrap_err().to_string();
    assert!(error.contains("no block compressor 'zstd'; known are none, snappy, zlib"), "{error}");
}
