//! A second store that follows the log of a first one: after each step the two have the same trees, catalogue, flags and counters.

use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_disk::FaultyDisk;
use arbor_engine::model::ModelEngine;
use arbor_lang::Collation;
use arbor_log::{Log, LogOptions};
use arbor_store::{Collection, IndexSelection, Namespace, PartitionsDropped, Store, StoreOptions, ViewDefinition};
use arbor_txn::{Opening, Options, Transactions, View, trees_of};

use crate::support::{Rig, rig, spec};

struct Follower {
    store: Arc<Store>,
    transactions: Arc<Transactions>,
}

impl Follower {
    fn new() -> Follower {
        let log = Log::open(Arc::new(FaultyDisk::new()), "log".as_ref(), LogOptions::default()).unwrap();
        let options = Options { checkpoint_thread: false, ..Options::default() };
        let transactions =
            Transactions::open_as(Opening::Follower, log, Arc::new(ModelEngine::new()), options).unwrap();
        let store = Arc::new(Store::open(transactions.clone(), StoreOptions::default()).unwrap());
        store.keep_in_step();
        assert_eq!(transactions.log().appended().0, 0, "opening has written nothing");
        Follower { store, transactions }
    }

    /// Fetches and applies all that the leader has logged.
    fn follow(&self, leader: &Transactions) {
        let mut after = self.transactions.log().appended();
        let mut reader = leader.log().read(after.next());
        while let Some(read) = reader.next() {
            after = self.transactions.receive(reader.epoch(), after, &[&read.unwrap().1]).unwrap();
        }
        self.transactions.make_durable(None).unwrap();
        self.transactions.set_commit_point(after).unwrap();
        let (own, all) = (self.transactions.read().unwrap(), leader.read().unwrap());
        assert_eq!(own.position(), all.position());
    }
}

fn rows(transactions: &Transactions) -> Vec<String> {
    let view = transactions.read().unwrap();
    let mut trees = trees_of(&**transactions.engine()).unwrap();
    trees.sort_unstable();
    let mut all = Vec::new();
    for tree in trees {
        let mut cursor = view.cursor(tree).unwrap();
        let mut valid = cursor.first().unwrap();
        while valid {
            all.push(format!("{tree} {:?} {:?}", cursor.key(), cursor.value()));
            valid = cursor.next().unwrap();
        }
    }
    all
}

/// A collection as its catalogue shows it, with the flags of its indexes.
fn described(collection: &Collection) -> String {
    let index = |index: &Arc<arbor_store::Index>| {
        let fields = 0..index.key_pattern.len();
        let flags: Vec<u64> = fields.map(|field| index.multikey_components(field)).collect();
        format!("{:?} {:?} {:?} {flags:?}", index.trees().collect::<Vec<_>>(), index.engine, index.spec.doc)
    };
    let indexes: Vec<String> = collection.indexes.iter().map(index).collect();
    let Collection { uuid, namespace, tree, order, options, engine, partitions, .. } = collection;
    format!("{} {uuid} {engine} {tree} {order:?} {options:?} {indexes:?} {partitions:?}", namespace.as_str())
}

fn catalogue(store: &Store) -> Vec<String> {
    let collections = store.list_databases().into_iter().flat_map(|db| store.list_collections(&db));
    let mut all: Vec<String> = collections.map(|collection| described(&collection)).collect();
    for db in store.list_databases() {
        all.extend(
            store
                .list_views(&db)
                .iter()
                .map(|view| format!("{} on {}", view.namespace.as_str(), view.view_on.as_str())),
        );
    }
    all
}

fn check(rig: &Rig, follower: &Follower) {
    follower.follow(rig.store.transactions());
    assert_eq!(catalogue(&follower.store), catalogue(&rig.store));
    assert_eq!(rows(&follower.transactions), rows(rig.store.transactions()));
}

fn doc(id: i32) -> DocBuf {
    DocBuf::new().with("_id", id).with("a", id * 2)
}

#[test]
fn a_follower_has_the_catalogue_of_its_leader_after_each_step() {
    let (rig, follower) = (rig(), Follower::new());
    check(&rig, &follower);
    for id in 0..20 {
        rig.insert(&doc(id)).unwrap();
    }
    check(&rig, &follower);
    let key = |field: &str| DocBuf::new().with(field, 1i32);
    rig.create_index(DocBuf::new().with("key", &key("a")).with("name", "a_1")).unwrap();
    rig.create_index(DocBuf::new().with("key", &key("b")).with("name", "b_1")).unwrap();
    check(&rig, &follower);
    let index = follower.store.collection(&rig.ns).unwrap().index("b_1").unwrap().clone();
    assert!(!index.is_multikey());
    let arrays = arbor_bson::ArrayBuf::from_iter([1i32, 2, 3]);
    rig.insert(&DocBuf::new().with("_id", 100i32).with("b", &arrays)).unwrap();
    check(&rig, &follower);
    assert!(index.is_multikey(), "readers that hold the index see the flag");
    rig.store.drop_indexes(&rig.ns, &IndexSelection::Names(vec!["a_1".into()])).unwrap();
    check(&rig, &follower);
    let now = follower.store.collection(&rig.ns).unwrap();
    assert!(Arc::ptr_eq(now.index("b_1").unwrap(), &index), "an index that has not changed is the same object");
    let renamed = Namespace::new("test", "renamed").unwrap();
    rig.store.rename(&rig.ns, &renamed, false).unwrap();
    check(&rig, &follower);
    assert!(Arc::ptr_eq(follower.store.collection(&renamed).unwrap().index("b_1").unwrap(), &index));
    rig.store.drop_collection(&renamed).unwrap();
    check(&rig, &follower);
    assert!(follower.store.collection(&renamed).is_none());
}

#[test]
fn partitions_follow() {
    let (rig, follower) = (rig(), Follower::new());
    rig.store.create_collection(&rig.ns, &DocBuf::new().with("partitioned", true)).unwrap();
    rig.create_index(spec(&[("a", 1)], &[])).unwrap();
    for part in 0..3 {
        rig.insert(&doc(part)).unwrap();
        rig.store.add_partition(&rig.ns, None, Some(doc(part).as_doc())).unwrap();
        check(&rig, &follower);
    }
    rig.store.drop_partitions(&rig.ns, PartitionsDropped::Id(1)).unwrap();
    check(&rig, &follower);
    let now = follower.store.collection(&rig.ns).unwrap();
    let view = follower.transactions.read().unwrap();
    assert_eq!((now.partitions.len(), arbor_store::count(&view, &now).unwrap()), (3, 2));
    assert!(follower.store.validate(&rig.ns, true).unwrap().is_valid());
}

#[test]
fn views_and_capped_collections_follow_as_well() {
    let (rig, follower) = (rig(), Follower::new());
    rig.insert(&doc(1)).unwrap();
    let name = |name: &str| Namespace::new("test", name).unwrap();
    let view = |on: &str| ViewDefinition {
        namespace: name("view"),
        view_on: name(on),
        pipeline: arbor_bson::ArrayBuf::new(),
        collation: Collation::simple(),
    };
    rig.store.create_view(view("c")).unwrap();
    let options = DocBuf::new().with("capped", true).with("size", 100_000i32);
    rig.store.create_collection(&name("capped"), &options).unwrap();
    check(&rig, &follower);
    let capped = follower.store.collection(&name("capped")).unwrap();
    let seen = capped.arrivals().writes();
    rig.write_to(&name("capped"), |txn, collection| arbor_store::insert(txn, collection, doc(1).as_doc())).unwrap();
    check(&rig, &follower);
    assert_ne!(capped.arrivals().writes(), seen, "waiters at its end are woken");
    rig.store.change_view(view("capped")).unwrap();
    check(&rig, &follower);
    rig.store.drop_view(&name("view")).unwrap();
    rig.store.drop_database("test").unwrap();
    check(&rig, &follower);
    assert!(follower.store.list_databases().is_empty());
}

#[test]
fn changes_of_watched_collections_are_reported() {
    let (rig, follower) = (rig(), Follower::new());
    let name = |name: &str| Namespace::new("test", name).unwrap();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let reported = seen.clone();
    let note = move |name: &Namespace| reported.lock().unwrap().push(name.as_str().to_owned());
    follower.store.watch(vec![name("c"), name("d")], Box::new(note));
    let take = || std::mem::take(&mut *seen.lock().unwrap());
    rig.insert(&doc(1)).unwrap();
    check(&rig, &follower);
    assert_eq!(take(), ["test.c"]);
    rig.write_to(&name("other"), |txn, collection| arbor_store::insert(txn, collection, doc(1).as_doc())).unwrap();
    check(&rig, &follower);
    assert_eq!(take(), Vec::<String>::new());
    rig.store.rename(&rig.ns, &name("d"), false).unwrap();
    check(&rig, &follower);
    assert_eq!(take(), ["test.c", "test.d"]);
    rig.store.drop_collection(&name("d")).unwrap();
    check(&rig, &follower);
    assert_eq!(take(), ["test.d"]);
}

#[test]
fn a_follower_refuses_changes_and_makes_them_when_it_leads() {
    let (rig, follower) = (rig(), Follower::new());
    rig.insert(&doc(1)).unwrap();
    check(&rig, &follower);
    let other = Namespace::new("test", "other").unwrap();
    let refused = follower.store.create_collection(&other, &DocBuf::new());
    assert!(matches!(refused, Err(arbor_store::Error::Txn(arbor_txn::Error::NotLeading))));

    let own = &follower.transactions;
    let lead = own.lead(2).unwrap();
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(std::sync::atomic::Ordering::SeqCst) {
                own.make_durable(None).unwrap();
                own.set_commit_point(own.log().durable()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        lead.wait(None).unwrap();
        follower.store.lead().unwrap();
        follower.store.create_collection(&other, &DocBuf::new()).unwrap();
        let held = follower.store.hold(&rig.ns).unwrap();
        let insert = |txn: &mut arbor_txn::Transaction| arbor_store::insert(txn, &held, doc(2).as_doc());
        own.retry(arbor_txn::Durability::Applied, insert).unwrap();
        ends.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(follower.store.collection(&other).is_some());
    let report = follower.store.validate(&rig.ns, true).unwrap();
    assert!(report.is_valid(), "{:#?}", report.problems);
}
