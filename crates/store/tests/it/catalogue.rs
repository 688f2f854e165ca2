//! Collections are created, listed, renamed and dropped, and a crash keeps what was answered.

use crate::support;
use crate::support::{Rig, array, doc, rig, spec};
use arbor_bson::{DocBuf, Value};
use arbor_store::{
    BuildSettings, Collection, Conversion, Created, Error, IndexChange, IndexChosen, IndexProblem, IndexSelection,
    Namespace, Store, StoreOptions,
};
use arbor_txn::{Durability, View};

fn ns(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

fn names(store: &Store, db: &str) -> Vec<String> {
    store.list_collections(db).iter().map(|own| own.namespace.collection().to_owned()).collect()
}

fn row(id: i32) -> DocBuf {
    doc(&[("_id", Value::Int32(id)), ("a", Value::Int32(id % 3))])
}

/// Makes everything logged so far durable, so that a crash keeps it.
fn sync(rig: &Rig) {
    let log = rig.own.transactions.log();
    log.wait_durable(log.appended()).unwrap();
}

#[test]
fn collections_are_created_listed_and_found_again() {
    let rig = rig();
    let options = DocBuf::new().with("comment", "x");
    assert_eq!(rig.store.create_collection(&ns("b.two"), &DocBuf::new()).unwrap(), Created::Now);
    assert_eq!(rig.store.create_collection(&ns("b.one"), &options).unwrap(), Created::Now);
    assert_eq!(rig.store.create_collection(&ns("a.x.y"), &DocBuf::new()).unwrap(), Created::Now);
    assert_eq!(rig.store.create_collection(&ns("b.one"), &options).unwrap(), Created::Before);
    let other = rig.store.create_collection(&ns("b.one"), &DocBuf::new());
    assert!(matches!(other, Err(Error::NamespaceExists(_))));
    let clash = rig.store.create_collection(&ns("B.x"), &DocBuf::new());
    assert!(matches!(clash, Err(Error::DatabaseDifferCase { .. })));
    assert!(matches!(rig.store.create_collection(&ns("a.system.x"), &options), Err(Error::InvalidNamespace { .. })));
    sync(&rig);
    for store in [&rig.store, &rig.crash(1).store] {
        assert_eq!(store.list_databases(), ["a", "b"]);
        assert_eq!(names(store, "a"), ["x.y"]);
        assert_eq!(names(store, "b"), ["one", "two"]);
        assert!(names(store, "c").is_empty());
        let found = store.collection(&ns("b.one")).unwrap();
        assert_eq!(found.uuid, rig.store.collection(&ns("b.one")).unwrap().uuid);
        assert_eq!(support::shown(found.options.as_doc()), "{ comment: \"x\" }");
        assert_eq!(found.index_specs().len(), 1);
    }
}

#[test]
fn dropping_removes_documents_indexes_and_counters() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1)], &[])).unwrap();
    (0..10).for_each(|id| rig.insert(&row(id)).unwrap());
    let old = rig.collection();
    let view = rig.store.transactions().read().unwrap();
    rig.store.drop_collection(&rig.ns).unwrap();
    assert!(matches!(rig.store.drop_collection(&rig.ns), Err(Error::NamespaceNotFound(_))));
    assert!(rig.store.list_databases().is_empty());
    assert_eq!(arbor_store::count(&view, &old).unwrap(), 10, "a snapshot from before still shows it");
    let now = rig.store.transactions().read().unwrap();
    assert!(matches!(now.cursor(old.tree).map(drop), Err(arbor_txn::Error::UnknownTree(_))));
    assert!(matches!(now.cursor(old.indexes[0].tree).map(drop), Err(arbor_txn::Error::UnknownTree(_))));
    assert_eq!(arbor_store::count(&now, &old).unwrap(), 0);
    rig.insert(&row(1)).unwrap();
    assert_ne!(rig.collection().uuid, old.uuid);
    rig.check_valid();
    assert_eq!(rig.docs().len(), 1);
    let after = rig.crash(1);
    after.check_valid();
    assert_eq!(after.docs().len(), 1);
}

#[test]
fn a_database_is_dropped_whole() {
    let rig = rig();
    for name in ["d.a", "d.b", "e.a"] {
        rig.write_to(&ns(name), |txn, own| arbor_store::insert(txn, own, row(1).as_doc())).unwrap();
    }
    assert!(rig.store.drop_database("d").unwrap());
    assert!(!rig.store.drop_database("d").unwrap());
    assert!(rig.store.drop_database("d d").is_err());
    sync(&rig);
    for store in [&rig.store, &rig.crash(1).store] {
        assert_eq!(store.list_databases(), ["e"]);
    }
}

#[test]
fn a_renamed_collection_keeps_everything_but_its_name() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1)], &[])).unwrap();
    (0..10).for_each(|id| rig.insert(&row(id)).unwrap());
    let before = rig.collection();
    let target = ns("other.d");
    rig.write_to(&target, |txn, own| arbor_store::insert(txn, own, row(1).as_doc())).unwrap();
    let rename = |from: &Namespace, to: &Namespace, drop: bool| rig.store.rename(from, to, drop);
    assert!(matches!(rename(&rig.ns, &target, false), Err(Error::NamespaceExists(_))));
    assert!(matches!(rename(&ns("no.such"), &target, true), Err(Error::NamespaceNotFound(_))));
    assert!(matches!(rename(&rig.ns, &rig.ns, true), Err(Error::IllegalOperation(_))));
    assert!(matches!(rename(&rig.ns, &ns("Other.c"), false), Err(Error::DatabaseDifferCase { .. })));
    rename(&rig.ns, &target, true).unwrap();
    sync(&rig);
    let crashed = rig.crash(1);
    for store in [&rig.store, &crashed.store] {
        assert_eq!(store.list_databases(), ["other"]);
        let renamed = store.collection(&target).unwrap();
        assert_eq!((renamed.uuid, renamed.tree), (before.uuid, before.tree));
        let report = store.validate(&target, true).unwrap();
        assert!(report.is_valid() && report.records == 10, "{report:?}");
    }
    rig.insert(&row(1)).unwrap();
    assert_eq!(rig.docs().len(), 1);
}

#[test]
fn indexes_are_noted_listed_and_dropped() {
    let rig = rig();
    let (a, b) = (spec(&[("a", 1)], &[]), spec(&[("b", -1)], &[]));
    let id = spec(&[("_id", 1)], &[]);
    let created = rig.store.create_indexes(&rig.ns, &[a.clone(), id, b, a.clone()]).unwrap();
    assert_eq!((created.before, created.after, created.created_collection), (1, 3, true));
    assert_eq!(created.created, ["a_1", "b_-1"]);
    let noted = rig.store.create_indexes(&rig.ns, &[a]).unwrap();
    assert_eq!((noted.before, noted.after, noted.created_collection), (3, 3, false));
    let listed: Vec<String> = rig.collection().index_specs().iter().map(|own| support::shown(own.as_doc())).collect();
    let expected = [
        r#"{ v: 2, key: { _id: 1 }, name: "_id_" }"#,
        r#"{ v: 2, key: { a: 1 }, name: "a_1" }"#,
        r#"{ v: 2, key: { b: -1 }, name: "b_-1" }"#,
    ];
    assert_eq!(listed, expected);

    let refused = |which: IndexSelection| match rig.store.drop_indexes(&rig.ns, &which) {
        Err(Error::Index { kind, reason }) => (kind, reason),
        other => panic!("{other:?}"),
    };
    let by_name = |name: &str| IndexSelection::Names(vec![name.to_owned()]);
    assert_eq!(refused(by_name("_id_")).0, IndexProblem::InvalidOptions);
    assert_eq!(refused(by_name("x")), (IndexProblem::NotFound, "index not found with name [x]".into()));
    let no_such = IndexSelection::Key(support::key(&[("x", 1)]));
    assert_eq!(refused(no_such), (IndexProblem::NotFound, "can't find index with key: { x: 1 }".into()));
    assert_eq!(refused(IndexSelection::Key(support::key(&[("_id", 1)]))).0, IndexProblem::InvalidOptions);
    let unique = spec(&[("b", -1)], &[("unique", Value::Bool(true)), ("name", Value::String("u".into()))]);
    rig.create_index(unique).unwrap();
    assert_eq!(refused(IndexSelection::Key(support::key(&[("b", -1)]))).0, IndexProblem::Ambiguous);

    let tree = rig.collection().index("a_1").unwrap().tree;
    assert_eq!(rig.store.drop_indexes(&rig.ns, &IndexSelection::Key(support::key(&[("a", 1)]))).unwrap(), 4);
    assert!(rig.store.transactions().read().unwrap().cursor(tree).is_err());
    assert_eq!(rig.store.drop_indexes(&rig.ns, &IndexSelection::All).unwrap(), 3);
    sync(&rig);
    assert!(rig.crash(1).collection().indexes.is_empty());
}

#[test]
fn settings_of_an_index_can_be_replaced() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1)], &[("expireAfterSeconds", Value::Int32(10))])).unwrap();
    rig.insert(&row(1)).unwrap();
    let change = IndexChange { expire_after_seconds: Some(99), hidden: Some(true), ..IndexChange::default() };
    let named = |name: &str| IndexChosen::Name(name.to_owned());
    let changed = rig.store.change_index(&rig.ns, &named("a_1"), &change, BuildSettings::default()).unwrap();
    assert_eq!((changed.expire_after_seconds, changed.hidden), (Some((Some(10), 99)), Some((false, true))));
    let again = rig
        .store
        .change_index(&rig.ns, &IndexChosen::Key(support::key(&[("a", 1)])), &change, BuildSettings::default())
        .unwrap();
    assert_eq!((again.expire_after_seconds, again.hidden), (Some((Some(99), 99)), None));
    assert!(rig.store.change_index(&rig.ns, &named("b_1"), &change, BuildSettings::default()).is_err());
    assert!(rig.store.change_index(&rig.ns, &named("_id_"), &change, BuildSettings::default()).is_err());
    sync(&rig);
    for rig in [&rig, &rig.crash(1)] {
        let index = rig.collection().indexes[0].clone();
        assert_eq!((index.expire_after_seconds, index.hidden), (Some(99), true));
        rig.check_valid();
    }
}

#[test]
fn an_index_becomes_unique_once_no_two_documents_share_a_key() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1)], &[("expireAfterSeconds", Value::Int32(10))])).unwrap();
    let of = |id: i32, a: i32| doc(&[("_id", Value::Int32(id)), ("a", Value::Int32(a))]);
    [of(1, 1), of(2, 1), of(3, 3)].iter().for_each(|doc| rig.insert(doc).unwrap());
    let change = |change: IndexChange| {
        rig.store.change_index(&rig.ns, &IndexChosen::Name("a_1".to_owned()), &change, BuildSettings::default())
    };
    let to_unique = |conversion| change(IndexChange { unique: Some(conversion), ..IndexChange::default() });
    let unprepared = to_unique(Conversion::Convert);
    assert!(matches!(unprepared, Err(Error::Index { kind: IndexProblem::InvalidOptions, .. })), "{unprepared:?}");
    change(IndexChange { prepare_unique: Some(true), ..IndexChange::default() }).unwrap();
    assert!(matches!(rig.insert(&of(4, 3)), Err(Error::DuplicateKey { .. })));
    rig.insert(&of(4, 4)).unwrap();
    let side_by_side = [of(5, 5), of(6, 5)].map(|doc| {
        let mut txn = rig.store.transactions().begin().unwrap();
        arbor_store::insert(&mut txn, &rig.collection(), doc.as_doc()).unwrap();
        txn
    });
    let committed = side_by_side.map(|txn| txn.commit(Durability::Applied).is_ok());
    assert_eq!(committed, [true, false]);
    assert!(matches!(rig.update(&of(4, 4), &of(4, 1)), Err(Error::DuplicateKey { .. })));
    for conversion in [Conversion::DryRun, Conversion::Convert] {
        match to_unique(conversion) {
            Err(Error::CannotConvertToUnique { violations }) => assert_eq!(violations.as_array().iter().count(), 1),
            other => panic!("{other:?}"),
        }
    }
    rig.delete(&of(2, 1)).unwrap();
    assert!(!to_unique(Conversion::DryRun).unwrap().made_unique);
    assert!(to_unique(Conversion::Convert).unwrap().made_unique);
    sync(&rig);
    for rig in [&rig, &rig.crash(1)] {
        let index = rig.collection().indexes[0].clone();
        assert_eq!((index.unique, index.prepare_unique, index.expire_after_seconds), (true, false, Some(10)));
        assert!(matches!(rig.insert(&of(9, 3)), Err(Error::DuplicateKey { .. })));
        rig.check_valid();
    }
}

#[test]
fn a_writer_that_holds_a_collection_keeps_it_from_being_dropped() {
    let rig = rig();
    rig.insert(&row(1)).unwrap();
    let dropped = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let held = rig.store.hold(&rig.ns).unwrap();
        scope.spawn(|| {
            rig.store.drop_collection(&rig.ns).unwrap();
            dropped.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut txn = rig.store.transactions().begin().unwrap();
        arbor_store::insert(&mut txn, &held, row(2).as_doc()).unwrap();
        txn.commit(Durability::Applied).unwrap();
        assert!(!dropped.load(std::sync::atomic::Ordering::Acquire));
        drop(held);
    });
    assert!(rig.store.collection(&rig.ns).is_none());
}

#[test]
fn a_corrupt_catalogue_entry_is_an_error_and_no_panic() {
    let rig = rig();
    rig.insert(&row(1)).unwrap();
    let mut txn = rig.store.transactions().begin().unwrap();
    txn.put(arbor_base::TreeId(2), "ctest.c", [5u8, 0, 0, 0, 0]);
    txn.commit(Durability::Applied).unwrap();
    let opened = Store::open(rig.own.transactions.clone(), StoreOptions::default());
    assert!(matches!(opened.map(drop), Err(Error::Corrupt { .. })));
    let _still: std::sync::Arc<Collection> = rig.collection();
}

/// An index forgets nothing about arrays when its settings change while a transaction with the first array is given up.
#[test]
fn settings_of_an_index_change_without_its_arrays_being_lost() {
    let rig = rig();
    rig.create_index(spec(&[("a", 1)], &[])).unwrap();
    let with_array = doc(&[("_id", Value::Int32(1)), ("a", array(&[Value::Int32(1), Value::Int32(2)]))]);
    let mut given_up = rig.store.transactions().begin().unwrap();
    arbor_store::insert(&mut given_up, &rig.collection(), with_array.as_doc()).unwrap();
    drop(given_up);
    let hidden = IndexChange { hidden: Some(true), ..IndexChange::default() };
    rig.store.change_index(&rig.ns, &IndexChosen::Name("a_1".to_owned()), &hidden, BuildSettings::default()).unwrap();
    rig.insert(&with_array).unwrap();
    let again = rig.crash(1);
    again.check_valid();
    assert!(again.collection().index("a_1").unwrap().is_multikey());
}
