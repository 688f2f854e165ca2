//! The whole way down on real files: store, log and LMDB, left without a close and opened again.

use std::path::Path;
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_disk::RealDisk;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use arbor_log::{Log, LogOptions};
use arbor_store::{Collection, Error, Namespace, Store, StoreOptions};
use arbor_txn::{Durability, Options, Transaction, Transactions, View};

const THREADS: i32 = 4;
const EACH: i32 = 150;

fn open(dir: &Path) -> Store {
    let engine = LmdbEngine::open(&dir.join("lmdb"), LmdbOptions { map_bytes: 1 << 30, ..Default::default() }).unwrap();
    let disk = Arc::new(RealDisk);
    let log = Log::open(disk, &dir.join("log"), LogOptions::default()).unwrap();
    let transactions = Transactions::open(log, Arc::new(engine), Options::default()).unwrap();
    let options = StoreOptions {
        scratch: dir.join("scratch"),
        build_memory_bytes: 10_000,
        build_in_transaction_bytes: 1000,
        ..StoreOptions::default()
    };
    Store::open(transactions, options).unwrap()
}

fn row(id: i32, n: i32) -> DocBuf {
    let list: ArrayBuf = (0..id % 3).map(|i| i * 10 + n).collect();
    DocBuf::new().with("_id", id).with("n", n).with("list", &list).with("pad", "x".repeat(id as usize % 200).as_str())
}

fn write(store: &Store, ns: &Namespace, id: i32) {
    let held = store.hold_or_create(ns).unwrap();
    let work = |txn: &mut Transaction| -> Result<(), Error> {
        let id_key = arbor_store::id_key(ValueRef::Int32(id));
        let old = arbor_store::record(txn, &held, &id_key)?.map(|old| old.into_owned());
        match old {
            None => arbor_store::insert(txn, &held, row(id, 1).as_doc()),
            Some(old) => {
                let old = Doc::trusted(&old);
                let Some(ValueRef::Int32(n)) = old.get("n") else { panic!("{old:?}") };
                arbor_store::update(txn, &held, old, row(id, n + 1).as_doc(), arbor_store::UpdateKind::Update)
            }
        }
    };
    store.transactions().retry(Durability::Journaled, work).unwrap();
}

fn check(store: &Store, ns: &Namespace, sum: i32) -> Arc<Collection> {
    let report = store.validate(ns, true).unwrap();
    assert!(report.is_valid(), "{:#?}", report.problems);
    let collection = store.collection(ns).unwrap();
    let view = store.transactions().read().unwrap();
    let mut cursor = view.cursor(collection.tree).unwrap();
    let mut found = 0;
    let mut valid = cursor.first().unwrap();
    while valid {
        let Some(ValueRef::Int32(n)) = Doc::trusted(cursor.value()).get("n") else { panic!("no n") };
        found += n;
        valid = cursor.next().unwrap();
    }
    assert_eq!(found, sum);
    drop(cursor);
    collection
}

#[test]
fn what_was_acknowledged_is_there_after_every_opening() {
    let dir = tempfile::tempdir().unwrap();
    let ns = Namespace::new("test", "c").unwrap();
    let spec = |path: &str| DocBuf::new().with("key", &DocBuf::new().with(path, 1i32));
    let run = |store: &Store| {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, ns) = (store, &ns);
                scope.spawn(move || (0..EACH).for_each(|i| write(store, ns, (i * 7 + thread) % 100)));
            }
        });
    };
    {
        let store = open(dir.path());
        run(&store);
        store.create_indexes(&ns, &[spec("n"), spec("list")]).unwrap();
        check(&store, &ns, THREADS * EACH);
    }
    {
        let store = open(dir.path());
        assert_eq!(check(&store, &ns, THREADS * EACH).indexes.len(), 2);
        store.transactions().checkpoint_now().unwrap();
        run(&store);
        check(&store, &ns, 2 * THREADS * EACH);
    }
    let store = open(dir.path());
    let collection = check(&store, &ns, 2 * THREADS * EACH);
    assert!(collection.index("list_1").unwrap().is_multikey());
    let stats = store.transactions().engine().tree_stats(collection.tree).unwrap();
    assert_eq!(stats.keys, 100);
    store.transactions().close().unwrap();
    drop(store);
    check(&open(dir.path()), &ns, 2 * THREADS * EACH);
}
