//! Collections and indexes on several engines in one directory: the fractal tree, LMDB, and what a start lacks.

use crate::support;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_disk::RealDisk;
use arbor_engine::Error as EngineError;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use arbor_engine_set::{EngineSet, Kind};
use arbor_ftree::{Forest, Options as ForestOptions};
use arbor_log::{Log, LogOptions};
use arbor_store::{
    EngineChange, EngineNames, Error, Namespace, Phase, Result, Store, StoreOptions, TreeDefaults, Watch,
};
use arbor_txn::{Durability, Error as TxnError, Options, Transaction, Transactions, View};

fn ftree(directory: &Path) -> arbor_engine::Result<Arc<dyn arbor_engine::Engine>> {
    let mut options = ForestOptions::new(Arc::new(RealDisk), 32 << 20);
    options.threads = 1;
    std::fs::create_dir_all(directory).unwrap();
    Ok(Arc::new(Forest::open(directory, options)?))
}

fn lmdb(directory: &Path) -> arbor_engine::Result<Arc<dyn arbor_engine::Engine>> {
    let options = LmdbOptions { map_bytes: 1 << 30, ..LmdbOptions::default() };
    Ok(Arc::new(LmdbEngine::open(directory, options)?))
}

/// A store whose home is the fractal tree.
fn open(dir: &Path) -> Store {
    let kinds = vec![Kind::new("ftree", ftree), Kind::new("lmdb", lmdb)];
    let set = EngineSet::open(dir, kinds, "ftree", "ftree").unwrap();
    let log = Log::open(Arc::new(RealDisk), &dir.join("log"), LogOptions::default()).unwrap();
    let transactions = Transactions::open(log, Arc::new(set), Options::default()).unwrap();
    let names = |name, aliases| EngineNames { name, aliases, ..EngineNames::default() };
    let engines = vec![names("ftree", &["tokuft"]), names("lmdb", &["mmapv1"])];
    let trees = TreeDefaults { engines, default: "ftree", home: "ftree" };
    Store::open(transactions, StoreOptions { scratch: dir.join("scratch"), trees, ..StoreOptions::default() }).unwrap()
}

struct Never;

impl Watch for Never {
    fn is_stopped(&self) -> bool {
        false
    }
    fn progress(&self, _: Phase, _: u64, _: u64) {}
}

fn on(engine: &str) -> DocBuf {
    DocBuf::new().with(engine, &DocBuf::new())
}

fn engine_option(engine: &str) -> DocBuf {
    DocBuf::new().with("storageEngine", &on(engine))
}

fn name(name: &str) -> Namespace {
    Namespace::new("test", name).unwrap()
}

fn index(path: &str) -> DocBuf {
    DocBuf::new().with("key", &DocBuf::new().with(path, 1i32))
}

/// Returns the engines of the collection's trees by the catalogue, which the engines confirm.
fn engines(store: &Store, of: &Namespace) -> Vec<String> {
    let own = store.collection(of).unwrap();
    let listed = own.indexes.iter().map(|index| (&index.engine, index.tree));
    let check = |(engine, tree): (&Arc<str>, _)| {
        assert_eq!(store.transactions().engine().engine_of(tree), &**engine);
        engine.to_string()
    };
    std::iter::once((&own.engine, own.tree)).chain(listed).map(check).collect()
}

fn row(id: i32, n: i32) -> DocBuf {
    DocBuf::new().with("_id", id).with("n", n).with("pad", "x".repeat(id as usize % 200).as_str())
}

fn increment(store: &Store, of: &Namespace, id: i32) {
    let held = store.hold_or_create(of).unwrap();
    let work = |txn: &mut Transaction| -> Result<()> {
        let old = arbor_store::record(txn, &held, &arbor_store::id_key(ValueRef::Int32(id)))?;
        match old.map(|old| old.into_owned()) {
            None => arbor_store::insert(txn, &held, row(id, 1).as_doc()),
            Some(old) => {
                let old = Doc::trusted(&old);
                let Some(ValueRef::Int32(n)) = old.get("n") else { panic!("{old:?}") };
                arbor_store::update(txn, &held, old, row(id, n + 1).as_doc(), arbor_store::UpdateKind::Update)
            }
        }
    };
    store.transactions().retry(Durability::Applied, work).unwrap();
}

/// The sum of `n`; indexes and documents agree.
fn sum(store: &Store, of: &Namespace) -> i32 {
    let report = store.validate(of, true).unwrap();
    assert!(report.is_valid(), "{:#?}", report.problems);
    support::sum_of_n(store, of)
}

#[test]
fn each_collection_and_index_is_in_the_chosen_engine() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (name("a"), name("b"));
    {
        let store = open(dir.path());
        store.create_collection(&a, &DocBuf::new()).unwrap();
        store.create_collection(&b, &engine_option("mmapv1")).unwrap();
        let own = index("m").with("storageEngine", &on("LMDB"));
        store.create_indexes(&a, &[index("n"), own.clone()]).unwrap();
        let back = index("m").with("storageEngine", &on("ftree"));
        store.create_indexes(&b, &[index("n"), back]).unwrap();
        (0..50).for_each(|id| increment(&store, &a, id));
        (0..30).for_each(|id| increment(&store, &b, id));
        let refused = store.create_collection(&name("c"), &engine_option("paper"));
        assert!(matches!(refused, Err(Error::UnknownEngine { .. })), "{refused:?}");
        let other = DocBuf::new().with("lmdb", &DocBuf::new().with("fanout", 8i32));
        let refused = store.create_collection(&name("c"), &DocBuf::new().with("storageEngine", &other)).unwrap_err();
        assert!(refused.to_string().contains("fanout") && refused.to_string().contains("lmdb"), "{refused}");
        let refused = store.create_indexes(&name("d"), &[index("n").with("storageEngine", &on("paper"))]);
        assert!(refused.is_err() && store.collection(&name("d")).is_none(), "nothing is created for a wrong index");
    }
    let store = open(dir.path());
    assert_eq!(engines(&store, &a), ["ftree", "ftree", "lmdb"]);
    assert_eq!(engines(&store, &b), ["lmdb", "lmdb", "ftree"]);
    assert_eq!((sum(&store, &a), sum(&store, &b)), (50, 30));
    // One transaction over both engines.
    assert!(store.drop_database("test").unwrap());
    assert_eq!(store.transactions().engine().trees().unwrap().len(), 2);
}

#[test]
fn a_collection_changes_its_engine_under_writers() {
    let dir = tempfile::tempdir().unwrap();
    let ns = name("c");
    let written = AtomicI32::new(0);
    {
        let store = open(dir.path());
        let own = index("m").with("storageEngine", &on("ftree"));
        store.create_indexes(&ns, &[index("n"), own]).unwrap();
        (0..300).for_each(|id| increment(&store, &ns, id));
        written.fetch_add(300, Ordering::Relaxed);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (store, ns, stop, written) = (&store, &ns, &stop, &written);
                scope.spawn(move || {
                    for step in (thread..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                        increment(store, ns, step * 7 % 400);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for (engine, expect) in [("lmdb", ["lmdb", "lmdb", "ftree"]), ("tokuFT", ["ftree"; 3])] {
                let change = store.change_engine(&ns, &on(engine), &Never).unwrap();
                assert!(matches!(change, EngineChange::Moved(done) if done.rows >= 600), "{change:?}");
                assert_eq!(engines(&store, &ns), expect);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(matches!(store.change_engine(&ns, &on("lmdb"), &Never).unwrap(), EngineChange::Moved(_)));
        assert_eq!(sum(&store, &ns), written.load(Ordering::Relaxed));
    }
    let store = open(dir.path());
    assert_eq!(engines(&store, &ns), ["lmdb", "lmdb", "ftree"]);
    assert_eq!(sum(&store, &ns), written.load(Ordering::Relaxed));
    assert_eq!(store.transactions().engine().trees().unwrap().len(), 5);
}

#[test]
fn other_options_of_the_same_engine_move_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let ns = name("c");
    let store = open(dir.path());
    (0..50).for_each(|id| increment(&store, &ns, id));
    let before = store.collection(&ns).unwrap();
    let packed = DocBuf::new().with("ftree", &DocBuf::new().with("compression", "zstd:3"));
    assert_eq!(store.change_engine(&ns, &packed, &Never).unwrap(), EngineChange::Options);
    let after = store.collection(&ns).unwrap();
    assert_eq!(before.tree, after.tree);
    assert!(matches!(after.options.get("storageEngine"), Some(ValueRef::Document(_))));
    let wrong = DocBuf::new().with("ftree", &DocBuf::new().with("colour", 1i32));
    assert!(store.change_engine(&ns, &wrong, &Never).is_err());
    increment(&store, &ns, 3);
    assert_eq!(sum(&store, &ns), 51);
}

/// The contents of LMDB cannot be read; the rest can, and what cannot be read can be dropped.
#[test]
fn a_damaged_engine_takes_its_collections_with_it_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (name("good"), name("bad"));
    {
        let store = open(dir.path());
        store.create_collection(&bad, &engine_option("lmdb")).unwrap();
        (0..20).for_each(|id| increment(&store, &bad, id));
        (0..20).for_each(|id| increment(&store, &good, id));
        store.transactions().close().unwrap();
    }
    for file in std::fs::read_dir(dir.path().join("lmdb")).unwrap() {
        std::fs::write(file.unwrap().path(), "not what it was").unwrap();
    }
    let store = open(dir.path());
    assert_eq!(store.list_collections("test").len(), 2);
    let own = store.collection(&bad).unwrap();
    assert_eq!(&*own.engine, "lmdb");
    let unavailable = |error: &TxnError| matches!(error, TxnError::Engine(EngineError::Unavailable { engine, .. }) if engine == "lmdb");
    let view = store.transactions().read().unwrap();
    assert!(view.cursor(own.tree).err().is_some_and(|error| unavailable(&error)));
    let held = store.hold(&bad).unwrap();
    let mut txn = store.transactions().begin().unwrap();
    txn.put(held.tree, "a", "b");
    assert!(txn.commit(Durability::Applied).err().is_some_and(|error| unavailable(&error)));
    drop((held, view));
    let moved = store.change_engine(&bad, &on("ftree"), &Never);
    assert!(matches!(&moved, Err(Error::Txn(error)) if unavailable(error)), "{moved:?}");
    increment(&store, &good, 1);
    store.drop_collection(&bad).unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!((store.list_collections("test").len(), sum(&store, &good)), (1, 21));
}
