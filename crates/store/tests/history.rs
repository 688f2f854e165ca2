//! What the log tells of changed documents.

mod support;

use std::time::Duration;

use arbor_base::Position;
use arbor_bson::{Doc, DocBuf};
use arbor_notation::show;
use arbor_oplog::entries;
use arbor_store::{StoreOptions, ToldAs};
use arbor_txn::testing::InMemory;
use arbor_txn::{Options, Retention, Transaction};
use support::Rig;

fn rig(history: Option<Retention>) -> Rig {
    Rig::over(InMemory::new(Options { history, ..Options::default() }).unwrap(), StoreOptions::default())
}

/// `op o` of every entry.
fn told(rig: &Rig) -> Vec<String> {
    let mut history = rig.store.transactions().history(Position::ZERO);
    let mut told = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        for entry in entries(&record, 1).unwrap() {
            let [ns, op, o] = ["ns", "op", "o"].map(|name| show(entry.get(name).unwrap()).replace('"', ""));
            assert_eq!(ns, rig.ns.to_string());
            told.push(format!("{op} {o}"));
        }
    }
    told
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
    let update = |txn: &mut Transaction, c: &arbor_store::Collection, old: Doc<'_>, new: Doc<'_>, told_as| {
        arbor_store::update(txn, c, old, new, told_as).unwrap();
    };
    write(&|txn, c| {
        arbor_store::insert(txn, c, one.as_doc()).unwrap();
        update(txn, c, one.as_doc(), two.as_doc(), ToldAs::Update);
    });
    write(&|txn, c| update(txn, c, two.as_doc(), one.as_doc(), ToldAs::Replacement));
    write(&|txn, c| update(txn, c, one.as_doc(), small.as_doc(), ToldAs::Update));
    write(&|txn, c| arbor_store::delete(txn, c, small.as_doc()).unwrap());
}

#[test]
fn every_change_of_a_document_is_told_once() {
    let rig = rig(Some(Retention { bytes: 1 << 20, time: Duration::ZERO }));
    change(&rig);
    let long = "x".repeat(100);
    assert_eq!(
        told(&rig),
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

#[test]
fn nothing_is_told_where_nobody_listens() {
    let rig = rig(None);
    change(&rig);
    assert!(told(&rig).is_empty());
}
