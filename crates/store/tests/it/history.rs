//! The contents of the log for changed documents.

use std::time::Duration;

use crate::support::Rig;
use arbor_base::Position;
use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_notation::show;
use arbor_oplog::entries;
use arbor_store::{
    BuildSettings, IndexChange, IndexChosen, IndexSelection, Namespace, OpenTransaction, StoreOptions, UpdateKind,
    ViewDefinition,
};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Options, Retention, Transaction};

fn rig(history: Option<Retention>) -> Rig {
    Rig::over(InMemory::new(Options { history, ..Options::default() }).unwrap(), StoreOptions::default())
}

/// `op o` of every entry.
fn shown_entries(rig: &Rig) -> Vec<String> {
    let mut history = rig.store.transactions().history(Position::ZERO);
    let mut shown = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        for entry in entries(&record, 1).unwrap() {
            let [ns, op, o] = ["ns", "op", "o"].map(|name| show(entry.get(name).unwrap()).replace('"', ""));
            if op == "c" {
                continue;
            }
            assert_eq!(ns, rig.ns.to_string());
            shown.push(format!("{op} {o}"));
        }
    }
    shown
}

fn change(rig: &Rig) {
    let long = "x".repeat(100);
    let doc = |n: i32| DocBuf::new().with("_id", 1i32).with("s", long.as_str()).with("n", n);
    let (one, two, small) = (doc(1), doc(2), DocBuf::new().with("_id", 1i32).with("n", 3i32));
    let write = |work: &dyn Fn(&mut Transaction, &arbor_store::Collection)| {
        rig.write(|txn, collection| {
            work(txn, collection);
            Ok(())
        })
        .unwrap();
    };
    let update = |txn: &mut Transaction, c: &arbor_store::Collection, old: Doc<'_>, new: Doc<'_>, kind| {
        arbor_store::update(txn, c, old, new, kind).unwrap();
    };
    write(&|txn, c| {
        arbor_store::insert(txn, c, one.as_doc()).unwrap();
        update(txn, c, one.as_doc(), two.as_doc(), UpdateKind::Update);
    });
    write(&|txn, c| update(txn, c, two.as_doc(), one.as_doc(), UpdateKind::Replacement));
    write(&|txn, c| update(txn, c, one.as_doc(), small.as_doc(), UpdateKind::Update));
    write(&|txn, c| arbor_store::delete(txn, c, small.as_doc()).unwrap());
}

#[test]
fn every_change_of_a_document_is_shown_once() {
    let rig = rig(Some(Retention { bytes: 1 << 20, time: Duration::ZERO }));
    change(&rig);
    let long = "x".repeat(100);
    assert_eq!(
        shown_entries(&rig),
        [
            format!("i {{ _id: 1, s: {long}, n: 1 }}"),
            "u { $v: 2, diff: { u: { n: 2 } } }".to_owned(),
            format!("u {{ _id: 1, s: {long}, n: 1 }}"),
            // the difference would be longer than the document
            "u { _id: 1, n: 3 }".to_owned(),
            "d { _id: 1 }".to_owned(),
        ]
    );
}

/// `ns op o`, and `o2` of a command, with UUIDs left out.
fn catalogue_entries(rig: &Rig) -> Vec<String> {
    // only durable records are shown
    rig.store.transactions().begin().unwrap().commit(Durability::Journaled).unwrap();
    let mut history = rig.store.transactions().history(Position::ZERO);
    let mut shown = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        for entry in entries(&record, 1).unwrap() {
            let fields = ["ns", "op", "o"]
                .into_iter()
                .chain(matches!(entry.get("op"), Some(ValueRef::String("c"))).then_some("o2"));
            let texts: Vec<_> =
                fields.filter_map(|name| entry.get(name)).map(|value| show(without_uuids(value).as_ref())).collect();
            shown.push(texts.join(" ").replace('"', ""));
        }
    }
    shown
}

fn without_uuids(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Binary { subtype: 4, .. } => Value::String("UUID".to_owned()),
        ValueRef::Document(doc) => {
            let fields: Vec<_> = doc.iter().map(|(name, value)| (name, without_uuids(value))).collect();
            Value::Document(fields.iter().map(|(name, value)| (*name, value)).collect())
        }
        other => other.to_value(),
    }
}

#[test]
fn changes_of_the_catalogue_are_shown_as_commands() {
    let rig = rig(Some(Retention { bytes: 1 << 20, time: Duration::ZERO }));
    let (store, ns) = (&rig.store, &rig.ns);
    let other = Namespace::new("test", "d").unwrap();
    let by_a = DocBuf::new().with("key", &DocBuf::new().with("a", 1i32)).with("name", "a_1");
    let images = DocBuf::new().with("enabled", true);
    store.create_collection(ns, &DocBuf::new().with("validationLevel", "off")).unwrap();
    store.create_indexes(ns, std::slice::from_ref(&by_a)).unwrap();
    rig.insert(&DocBuf::new().with("_id", 1i32)).unwrap();
    store.drop_indexes(ns, &IndexSelection::All).unwrap();
    store.create_indexes(ns, &[by_a.with("expireAfterSeconds", 5i32)]).unwrap();
    let change = IndexChange { expire_after_seconds: Some(9), hidden: Some(true), ..IndexChange::default() };
    store.change_index(ns, &IndexChosen::Name("a_1".to_owned()), &change, BuildSettings::default()).unwrap();
    store.set_options(ns, &DocBuf::new().with("changeStreamPreAndPostImages", &images)).unwrap();
    store.create_collection(&other, &DocBuf::new()).unwrap();
    store.rename(ns, &other, true).unwrap();
    store.drop_collection(&other).unwrap();
    let view = |pipeline: ArrayBuf| ViewDefinition {
        namespace: Namespace::new("test", "v").unwrap(),
        view_on: other.clone(),
        pipeline,
        collation: Default::default(),
    };
    store.create_view(view(ArrayBuf::new())).unwrap();
    let stage = DocBuf::new().with("$match", &DocBuf::new());
    store.change_view(view([&stage].into_iter().collect())).unwrap();
    store.drop_view(&view(ArrayBuf::new()).namespace).unwrap();
    store.create_collection(&other, &DocBuf::new()).unwrap();
    store.drop_database("test").unwrap();
    let id_index = "idIndex: { v: 2, key: { _id: 1 }, name: _id_ }";
    let shown = catalogue_entries(&rig);
    let expected = [
        format!("test.$cmd c {{ create: c, validationLevel: off, {id_index} }}"),
        "test.$cmd c { createIndexes: c, v: 2, key: { a: 1 }, name: a_1 }".to_owned(),
        "test.c i { _id: 1 }".to_owned(),
        "test.$cmd c { dropIndexes: c, index: a_1 } { v: 2, key: { a: 1 }, name: a_1 }".to_owned(),
        "test.$cmd c { startIndexBuild: c, indexBuildUUID: UUID, indexes: [{ v: 2, key: { a: 1 }, name: a_1, expireAfterSeconds: 5 }] }".to_owned(),
        "test.$cmd c { commitIndexBuild: c, indexBuildUUID: UUID, indexes: [{ v: 2, key: { a: 1 }, name: a_1, expireAfterSeconds: 5 }] }".to_owned(),
        "test.$cmd c { collMod: c, index: { name: a_1, expireAfterSeconds: 9, hidden: true } } { collectionOptions_old: { uuid: UUID, validationLevel: off }, indexOptions_old: { expireAfterSeconds: 5, hidden: false } }".to_owned(),
        "test.$cmd c { collMod: c, changeStreamPreAndPostImages: { enabled: true } } { collectionOptions_old: { uuid: UUID, validationLevel: off } }".to_owned(),
        format!("test.$cmd c {{ create: d, {id_index} }}"),
        "test.$cmd c { renameCollection: test.c, to: test.d, stayTemp: false, dropTarget: UUID } { numRecords: Long(0) }".to_owned(),
        "test.$cmd c { drop: d } { numRecords: Long(1) }".to_owned(),
        "test.system.views i { _id: test.v, viewOn: d, pipeline: [] }".to_owned(),
        "test.system.views u { _id: test.v, viewOn: d, pipeline: [{ $match: {  } }] }".to_owned(),
        "test.system.views d { _id: test.v }".to_owned(),
        format!("test.$cmd c {{ create: d, {id_index} }}"),
        "test.$cmd c { drop: d } { numRecords: Long(0) }".to_owned(),
        "test.$cmd c { dropDatabase: 1 }".to_owned(),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn pre_images_are_shown_where_they_are_requested() {
    let rig = rig(Some(Retention { bytes: 1 << 20, time: Duration::ZERO }));
    let images = DocBuf::new().with("enabled", true);
    rig.store.create_collection(&rig.ns, &DocBuf::new().with("changeStreamPreAndPostImages", &images)).unwrap();
    let row = |n: i32| DocBuf::new().with("_id", 1i32).with("n", n);
    rig.insert(&row(1)).unwrap();
    rig.update(&row(1), &row(2)).unwrap();
    rig.delete(&row(2)).unwrap();
    let mut history = rig.store.transactions().history(Position::ZERO);
    let mut shown = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        let events = arbor_oplog::events(&record).unwrap();
        shown.extend(events.iter().map(|event| event.change.before.map(|before| show(ValueRef::Document(before)))));
    }
    let before = |text: &str| Some(text.to_owned());
    assert_eq!(shown, [None, None, before("{ _id: 1, n: 1 }"), before("{ _id: 1, n: 2 }")]);
}

#[test]
fn a_transaction_records_its_collection_and_the_documents_in_it() {
    let rig = rig(Some(Retention { bytes: 1 << 20, time: Duration::ZERO }));
    let by_a = DocBuf::new().with("key", &DocBuf::new().with("a", 1i32)).with("name", "a_1");
    let open = OpenTransaction::begin(&rig.store).unwrap();
    open.create_indexes(&rig.ns, &[by_a]).unwrap();
    let collection = open.collection_or_create(&rig.ns).unwrap();
    open.with(|txn| {
        for id in 0..2i32 {
            txn.set_statement(Some(id + 5));
            arbor_store::insert(txn, &collection, DocBuf::new().with("_id", id).as_doc()).unwrap();
        }
    });
    let position = open.commit(Durability::Journaled).unwrap();
    let (_, record) = rig.store.transactions().history(position).read().unwrap().unwrap();
    let events = arbor_oplog::events(&record).unwrap();
    let shown: Vec<_> = events.iter().map(|event| (event.place.namespace, event.change.statement)).collect();
    assert_eq!(shown, [("test.$cmd", None), ("test.$cmd", None), ("test.c", Some(5)), ("test.c", Some(6))]);
    assert!(events.iter().all(|event| event.place.uuid == Some(collection.uuid)));
}

#[test]
fn deletions_by_a_capped_collection_are_not_shown() {
    let rig = rig(Some(Retention { bytes: 1 << 20, time: Duration::ZERO }));
    let capped = DocBuf::new().with("capped", true).with("size", 4096i64).with("max", 1i64);
    rig.store.create_collection(&rig.ns, &capped).unwrap();
    (1..=2).for_each(|id| rig.insert(&DocBuf::new().with("_id", id)).unwrap());
    assert_eq!(rig.docs(), ["{ _id: 2 }"]);
    assert_eq!(catalogue_entries(&rig)[1..], ["test.c i { _id: 1 }", "test.c i { _id: 2 }"]);
}

#[test]
fn nothing_is_noted_without_readers() {
    let rig = rig(None);
    change(&rig);
    assert!(shown_entries(&rig).is_empty());
}
