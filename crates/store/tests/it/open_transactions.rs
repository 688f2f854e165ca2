//! Transactions of several statements: what they see, what they win and lose against each other, and against changes of
//! the catalogue.

use crate::support;
use std::path::Path;
use std::sync::Arc;

use crate::support::{Rig, key, rig, shown};
use arbor_base::Position;
use arbor_bson::{Doc, DocBuf};
use arbor_disk::RealDisk;
use arbor_engine::Engine;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use arbor_engine_set::{EngineSet, Kind};
use arbor_ftree::{Forest, Options as ForestOptions};
use arbor_log::{Log, LogOptions};
use arbor_store::{
    EngineNames, Error, Namespace, OpenTransaction, RecordCursor, Result, Store, StoreOptions, TreeDefaults, Unwatched,
    UpdateKind, id_key,
};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Error as TxnError, Options, Transactions};

fn name(name: &str) -> Namespace {
    Namespace::new("test", name).unwrap()
}

fn begin(store: &Arc<Store>) -> OpenTransaction {
    OpenTransaction::begin(store).unwrap()
}

fn row(id: i32, n: i32) -> DocBuf {
    DocBuf::new().with("_id", id).with("n", n)
}

fn insert(open: &OpenTransaction, ns: &Namespace, doc: &DocBuf) -> Result<()> {
    let collection = open.collection_or_create(ns)?;
    open.with(|txn| arbor_store::insert(txn, &collection, doc.as_doc()))
}

fn set(open: &OpenTransaction, ns: &Namespace, id: i32, n: i32) -> Result<()> {
    let collection = open.collection_to_write(ns)?.expect("a collection");
    open.with(|txn| {
        let old = arbor_store::record(txn, &collection, &id_key(id.into()))?.expect("a document").into_owned();
        arbor_store::update(txn, &collection, Doc::trusted(&old), row(id, n).as_doc(), UpdateKind::Update)
    })
}

fn docs(open: &OpenTransaction, ns: &Namespace) -> Vec<String> {
    let Some(collection) = open.collection(ns).unwrap() else { return Vec::new() };
    let view = open.view();
    let mut cursor = RecordCursor::new(&view, &collection).unwrap();
    let (mut docs, mut valid) = (Vec::new(), cursor.first().unwrap());
    while valid {
        docs.push(shown(cursor.doc()));
        valid = cursor.next().unwrap();
    }
    assert_eq!(docs.len() as u64, arbor_store::count(&view, &collection).unwrap());
    docs
}

fn commit(open: OpenTransaction) -> Result<Position> {
    open.commit(Durability::Applied)
}

#[track_caller]
fn assert_conflict<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Txn(TxnError::Conflict))), "{result:?}");
}

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::SnapshotUnavailable(_))), "{result:?}");
}

fn check_valid(store: &Store, ns: &Namespace) {
    let report = store.validate(ns, true).unwrap();
    assert!(report.is_valid(), "{:#?}", report.problems);
}

fn by_n(unique: bool) -> DocBuf {
    DocBuf::new().with("key", &key(&[("n", 1)])).with("name", "n").with("unique", unique)
}

// ---- one scenario on several engines

/// Two collections, `a` and `b`, with an index on `n` each.
fn isolated(store: &Arc<Store>) {
    let (a, b) = (name("a"), name("b"));
    for ns in [&a, &b] {
        store.hold_or_create(ns).unwrap();
        store.create_indexes(ns, &[by_n(false)]).unwrap();
    }
    let (one, other) = (begin(store), begin(store));
    insert(&one, &a, &row(1, 10)).unwrap();
    insert(&one, &b, &row(1, 20)).unwrap();
    set(&one, &a, 1, 11).unwrap();
    insert(&other, &a, &row(2, 30)).unwrap();
    assert_eq!(docs(&one, &a), ["{ _id: 1, n: 11 }"]);
    assert_eq!(docs(&other, &a), ["{ _id: 2, n: 30 }"]);
    commit(one).unwrap();
    // it reads what was at its begin, and its own
    assert_eq!((docs(&other, &a), docs(&other, &b).len()), (vec!["{ _id: 2, n: 30 }".to_owned()], 0));
    commit(other).unwrap();
    let gone = begin(store);
    insert(&gone, &a, &row(9, 9)).unwrap();
    set(&gone, &b, 1, 9).unwrap();
    gone.abort();
    let last = begin(store);
    assert_eq!(docs(&last, &a), ["{ _id: 1, n: 11 }", "{ _id: 2, n: 30 }"]);
    assert_eq!(docs(&last, &b), ["{ _id: 1, n: 20 }"]);
    check_valid(store, &a);
    check_valid(store, &b);
}

fn ftree(directory: &Path) -> arbor_engine::Result<Arc<dyn Engine>> {
    let mut options = ForestOptions::new(Arc::new(RealDisk), 32 << 20);
    options.threads = 1;
    std::fs::create_dir_all(directory).unwrap();
    Ok(Arc::new(Forest::open(directory, options)?))
}

fn lmdb(directory: &Path) -> arbor_engine::Result<Arc<dyn Engine>> {
    let options = LmdbOptions { map_bytes: 1 << 30, ..LmdbOptions::default() };
    Ok(Arc::new(LmdbEngine::open(directory, options)?))
}

fn on_both(dir: &Path) -> Arc<Store> {
    let kinds = vec![Kind::new("ftree", ftree), Kind::new("lmdb", lmdb)];
    let set = EngineSet::open(dir, kinds, "ftree", "ftree").unwrap();
    let log = Log::open(Arc::new(RealDisk), &dir.join("log"), LogOptions::default()).unwrap();
    let transactions = Transactions::open(log, Arc::new(set), Options::default()).unwrap();
    let names = |name| EngineNames { name, ..EngineNames::default() };
    let trees = TreeDefaults { engines: vec![names("ftree"), names("lmdb")], default: "ftree", home: "ftree" };
    let options = StoreOptions { scratch: dir.join("scratch"), trees, ..StoreOptions::default() };
    Arc::new(Store::open(transactions, options).unwrap())
}

#[test]
fn transactions_are_isolated() {
    isolated(&rig().store);
}

#[test]
fn a_transaction_over_two_engines_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = on_both(dir.path());
    let lmdb = DocBuf::new().with("storageEngine", &DocBuf::new().with("lmdb", &DocBuf::new()));
    store.create_collection(&name("b"), &lmdb).unwrap();
    isolated(&store);
    // a collection that moves to another engine is another one at the commit
    let writer = begin(&store);
    insert(&writer, &name("a"), &row(50, 50)).unwrap();
    store.change_engine(&name("a"), &DocBuf::new().with("lmdb", &DocBuf::new()), &Unwatched).unwrap();
    assert_conflict(commit(writer));
    check_valid(&store, &name("a"));
    // what is dropped meanwhile is there for a transaction that has read it
    let reader = begin(&store);
    let found = || ["a", "b"].map(|ns| docs(&reader, &name(ns)).len());
    assert_eq!(found(), [2, 1]);
    store.drop_collection(&name("a")).unwrap();
    store.drop_collection(&name("b")).unwrap();
    assert_eq!(found(), [2, 1]);
    commit(reader).unwrap();
}

// ---- conflicts

#[test]
fn who_comes_second_learns_so_at_once() {
    let rig = rig();
    rig.insert(&row(1, 1)).unwrap();
    rig.insert(&row(2, 2)).unwrap();
    let (one, other) = (begin(&rig.store), begin(&rig.store));
    set(&one, &rig.ns, 1, 5).unwrap();
    assert_conflict(set(&other, &rig.ns, 1, 6));
    one.abort();
    let third = begin(&rig.store);
    set(&third, &rig.ns, 1, 7).unwrap();
    // a plain write does not wait, and the transaction finds out
    rig.update(&row(2, 2), &row(2, 3)).unwrap();
    assert_conflict(set(&third, &rig.ns, 2, 4));
    rig.update(&row(1, 1), &row(1, 8)).unwrap();
    assert_conflict(commit(third));
    assert_eq!(rig.docs(), ["{ _id: 1, n: 8 }", "{ _id: 2, n: 3 }"]);
}

#[test]
fn equal_unique_keys_conflict_and_keys_of_the_snapshot_are_duplicates() {
    let rig = rig();
    rig.insert(&row(1, 1)).unwrap();
    rig.create_index(by_n(true)).unwrap();
    let (one, other) = (begin(&rig.store), begin(&rig.store));
    insert(&one, &rig.ns, &row(2, 2)).unwrap();
    assert_conflict(insert(&other, &rig.ns, &row(3, 2)));
    assert_conflict(insert(&other, &rig.ns, &row(2, 4)));
    assert!(matches!(insert(&other, &rig.ns, &row(3, 1)), Err(Error::DuplicateKey { .. })));
    assert!(matches!(insert(&one, &rig.ns, &row(5, 2)), Err(Error::DuplicateKey { .. })));
    commit(one).unwrap();
    // committed after the snapshot
    assert_conflict(insert(&other, &rig.ns, &row(3, 2)));
    other.abort();
    rig.check_valid();
}

// ---- collections of its own

#[test]
fn a_created_collection_is_its_own_until_the_commit() {
    let rig = rig();
    let ns = name("new");
    let open = begin(&rig.store);
    assert!(open.collection(&ns).unwrap().is_none());
    let created = open.create_indexes(&ns, &[by_n(true)]).unwrap();
    assert!(created.created_collection && created.after == 2);
    insert(&open, &ns, &row(1, 1)).unwrap();
    assert!(matches!(insert(&open, &ns, &row(2, 1)), Err(Error::DuplicateKey { .. })));
    assert_eq!(docs(&open, &ns), ["{ _id: 1, n: 1 }"]);
    // it has documents now
    let second = DocBuf::new().with("key", &key(&[("m", 1)])).with("name", "m");
    assert!(matches!(open.create_indexes(&ns, std::slice::from_ref(&second)), Err(Error::NotInTransaction(_))));
    assert_eq!(open.create_indexes(&ns, &[by_n(true)]).unwrap().created.len(), 0);
    assert!(rig.store.collection(&ns).is_none());
    // a view of the transaction shows the collection
    let seen = rig.store.collection_in(&open.view(), &ns).unwrap().unwrap();
    assert_eq!(seen.indexes.len(), 1);
    let rival = begin(&rig.store);
    assert_conflict(rival.create_collection(&ns, &DocBuf::new()));
    open.commit(Durability::Journaled).unwrap();
    assert_eq!(rig.store.collection(&ns).unwrap().uuid, seen.uuid);
    check_valid(&rig.store, &ns);
    assert_unavailable(rival.collection(&ns));
    let crashed = rig.crash(7);
    check_valid(&crashed.store, &ns);
    assert_eq!(crashed.store.collection(&ns).unwrap().indexes.len(), 1);
    // and indexes of others' collections cannot be made inside
    let later = begin(&rig.store);
    assert!(matches!(later.create_indexes(&ns, &[second]), Err(Error::NotInTransaction(_))));
}

#[test]
fn of_two_who_create_a_name_the_later_commit_fails() {
    let rig = rig();
    let ns = name("new");
    let open = begin(&rig.store);
    insert(&open, &ns, &row(1, 1)).unwrap();
    rig.store.create_collection(&ns, &DocBuf::new()).unwrap();
    assert_conflict(commit(open));
    assert_eq!(docs(&begin(&rig.store), &ns).len(), 0);
    let open = begin(&rig.store);
    open.create_collection(&name("aborted"), &DocBuf::new()).unwrap();
    drop(open);
    assert!(rig.store.collection(&name("aborted")).is_none());
    // the name is free again
    begin(&rig.store).create_collection(&name("aborted"), &DocBuf::new()).unwrap();
}

#[test]
fn writes_to_capped_collections_are_refused() {
    let rig = rig();
    rig.store.create_collection(&rig.ns, &DocBuf::new().with("capped", true).with("size", 4096i64)).unwrap();
    let open = begin(&rig.store);
    assert!(matches!(insert(&open, &rig.ns, &row(1, 1)), Err(Error::NotInTransaction(_))));
    assert!(open.collection(&rig.ns).unwrap().is_some());
}

// ---- changes of the catalogue while it is open

#[test]
fn a_changed_collection_is_found_at_the_first_look_or_at_the_commit() {
    type Change = fn(&Rig);
    let changes: [Change; 4] = [
        |rig| rig.create_index(by_n(false)).unwrap(),
        |rig| drop(rig.store.drop_collection(&rig.ns).unwrap()),
        |rig| rig.store.rename(&rig.ns, &name("other"), false).unwrap(),
        |rig| rig.store.set_options(&rig.ns, &DocBuf::new().with("validationLevel", "off")).unwrap(),
    ];
    for change in changes {
        let rig = rig();
        rig.insert(&row(1, 1)).unwrap();
        let (early, reader, writer) = (begin(&rig.store), begin(&rig.store), begin(&rig.store));
        assert_eq!(docs(&reader, &rig.ns).len(), 1);
        insert(&writer, &rig.ns, &row(2, 2)).unwrap();
        change(&rig);
        assert_unavailable(early.collection(&rig.ns));
        assert_unavailable(insert(&early, &rig.ns, &row(3, 3)));
        // what a read-only transaction has read before stays as it was
        assert_eq!(docs(&reader, &rig.ns).len(), 1);
        commit(reader).unwrap();
        assert_conflict(commit(writer));
        let store = &rig.store;
        store.list_collections("test").iter().for_each(|own| check_valid(store, &own.namespace));
        let count = |ns: &Namespace| docs(&begin(store), ns).len();
        assert_eq!(count(&rig.ns) + count(&name("other")), usize::from(!store.list_collections("test").is_empty()));
    }
}

#[test]
fn a_view_of_the_past_shows_the_collections_of_then() {
    let rig = rig();
    rig.insert(&row(1, 1)).unwrap();
    rig.create_index(by_n(false)).unwrap();
    let view = rig.store.transactions().read().unwrap();
    let now = rig.collection();
    assert!(Arc::ptr_eq(&rig.store.collection_in(&view, &rig.ns).unwrap().unwrap(), &now));
    rig.create_index(DocBuf::new().with("key", &key(&[("m", 1)])).with("name", "m")).unwrap();
    let then = rig.store.collection_in(&view, &rig.ns).unwrap().unwrap();
    assert_eq!((then.uuid, then.indexes.len()), (now.uuid, 1));
    rig.store.drop_collection(&rig.ns).unwrap();
    rig.insert(&row(5, 5)).unwrap();
    let then = rig.store.collection_in(&view, &rig.ns).unwrap().unwrap();
    assert_eq!(then.uuid, now.uuid);
    assert_eq!(arbor_store::count(&view, &then).unwrap(), 1);
    let record = arbor_store::record(&view, &then, &id_key(1i32.into())).unwrap().unwrap();
    assert_eq!(shown(Doc::trusted(&record)), "{ _id: 1, n: 1 }");
    assert!(rig.store.collection_in(&view, &name("other")).unwrap().is_none());
}

/// Writers of a sum over two collections, while indexes come and go: nothing is lost and nothing is half done.
#[test]
fn transfers_during_catalogue_changes_keep_the_sum() {
    // indexes are built under the latch, or alongside writers
    for build_in_transaction_bytes in [1 << 20, 0] {
        let options = StoreOptions { build_in_transaction_bytes, ..StoreOptions::default() };
        transfers(&Rig::over(InMemory::new(Options::default()).unwrap(), options));
    }
}

fn transfers(rig: &Rig) {
    let (a, b) = (name("a"), name("b"));
    for ns in [&a, &b] {
        let open = begin(&rig.store);
        (0..4).for_each(|id| insert(&open, ns, &row(id, 100)).unwrap());
        commit(open).unwrap();
    }
    let read = |open: &OpenTransaction, ns: &Namespace, id: i32| -> Result<i32> {
        let collection = open.collection(ns)?.expect("a collection");
        let view = open.view();
        let record = arbor_store::record(&view, &collection, &id_key(id.into()))?.expect("a document");
        let Some(arbor_bson::ValueRef::Int32(n)) = Doc::trusted(&record).get("n") else { panic!("no n") };
        Ok(n)
    };
    let transfer = |from: (&Namespace, i32), to: (&Namespace, i32)| -> Result<Position> {
        let open = begin(&rig.store);
        let (left, right) = (read(&open, from.0, from.1)?, read(&open, to.0, to.1)?);
        set(&open, from.0, from.1, left - 1)?;
        set(&open, to.0, to.1, right + 1)?;
        commit(open)
    };
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (transfer, a, b) = (&transfer, &a, &b);
            threads.spawn(move || {
                let mut done = 0;
                while done < 40 {
                    let (from, to) = if (thread + done) % 2 == 0 { (a, b) } else { (b, a) };
                    match transfer((from, done % 4), (to, (done + thread) % 4)) {
                        Ok(_) => done += 1,
                        Err(Error::Txn(TxnError::Conflict) | Error::SnapshotUnavailable(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
        for _ in 0..10 {
            rig.store.create_indexes(&a, &[by_n(false)]).unwrap();
            rig.store.drop_indexes(&a, &arbor_store::IndexSelection::All).unwrap();
        }
        rig.store.create_indexes(&a, &[by_n(false)]).unwrap();
    });
    rig.store.create_indexes(&b, &[by_n(false)]).unwrap();
    check_valid(&rig.store, &a);
    check_valid(&rig.store, &b);
    assert_eq!(support::sum_of_n(&rig.store, &a) + support::sum_of_n(&rig.store, &b), 800);
}
