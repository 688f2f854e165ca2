//! `validate` finds what it is there for.

use crate::support::{Rig, doc, rig, spec};
use arbor_bson::{DocBuf, Value, ValueRef};
use arbor_txn::{CounterId, Durability, Transaction};

fn filled() -> Rig {
    let rig = rig();
    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
    rig.create_index(spec(&[("u", 1)], &[("unique", Value::Bool(true))])).unwrap();
    for id in 0..5 {
        rig.insert(&row(id)).unwrap();
    }
    rig
}

fn row(id: i32) -> DocBuf {
    doc(&[("_id", Value::Int32(id)), ("n", Value::Int32(id % 2)), ("u", Value::Int32(id))])
}

/// Breaks something behind the store's back; the report must name it.
fn check(full: bool, problem: &str, damage: impl FnOnce(&Rig, &mut Transaction)) {
    let rig = filled();
    let clean = rig.store.validate(&rig.ns, full).unwrap();
    assert!(clean.is_valid() && clean.records == 5);
    let keys: Vec<_> = clean.indexes.iter().map(|own| (own.name.as_str(), own.keys, own.is_valid)).collect();
    assert_eq!(keys, [("_id_", 5, true), ("n_1", 5, true), ("u_1", 5, true)]);
    let mut txn = rig.store.transactions().begin().unwrap();
    damage(&rig, &mut txn);
    txn.commit(Durability::Applied).unwrap();
    let report = rig.store.validate(&rig.ns, full).unwrap();
    assert!(report.problems.iter().any(|found| found.contains(problem)), "{problem}: {:#?}", report.problems);
}

fn id_key(id: i32) -> Vec<u8> {
    arbor_store::id_key(ValueRef::Int32(id))
}

/// The entry key of `n: value` of a document.
fn n_entry(value: i32, id: i32) -> Vec<u8> {
    [arbor_store::id_key(ValueRef::Int32(value)), id_key(id)].concat()
}

#[test]
fn damage_is_named() {
    let n = |rig: &Rig| rig.collection().index("n_1").unwrap().tree;
    let u = |rig: &Rig| rig.collection().index("u_1").unwrap().tree;
    for full in [false, true] {
        check(full, "index n_1: no entry for", |rig, txn| txn.delete(n(rig), n_entry(1, 3)));
        check(full, "index n_1: 6 entries for 5 keys", |rig, txn| txn.put(n(rig), n_entry(9, 3), [1]));
        check(full, "index u_1: wrong entry", |rig, txn| txn.put(u(rig), id_key(3), [1, 7]));
        check(full, "index n_1: 5 entries for 4 keys", |rig, txn| txn.delete(rig.collection().tree, id_key(2)));
        check(full, "the counter of documents is 6, but there are 5", |rig, txn| {
            txn.add_counter(CounterId(rig.collection().tree.0 * 2), 1);
        });
        check(full, "no valid document", |rig, txn| txn.put(rig.collection().tree, id_key(2), [9, 9]));
        check(full, "is stored under another _id", |rig, txn| {
            txn.put(rig.collection().tree, id_key(2), row(3).as_bytes());
        });
    }
    check(true, "has no document", |rig, txn| txn.put(n(rig), n_entry(1, 77), [2]));
    check(true, "has not this key", |rig, txn| txn.put(n(rig), n_entry(9, 3), [2]));
    check(true, "does not decode", |rig, txn| txn.put(n(rig), n_entry(9, 3), [0xff]));
}
