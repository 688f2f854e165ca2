//! Writers, index builds and drops at the same time: the indexes agree with the documents at every end.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::support::{Rig, doc, rig, spec};
use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use arbor_store::{Collection, Error, IndexSelection, Namespace};
use arbor_txn::{Durability, Transaction, View};

fn row(id: i32, n: i32) -> DocBuf {
    doc(&[("_id", Value::Int32(id)), ("n", Value::Int32(n)), ("m", Value::Int32(n % 7))])
}

/// Increments `n` of one document, or inserts it.
fn increment(txn: &mut Transaction, own: &Collection, id: i32) -> arbor_store::Result<()> {
    let id_key = arbor_store::id_key(ValueRef::Int32(id));
    let old = arbor_store::record(txn, own, &id_key)?.map(|bytes| bytes.into_owned());
    match old {
        None => arbor_store::insert(txn, own, row(id, 1).as_doc()),
        Some(old) => {
            let old = Doc::trusted(&old);
            let Some(ValueRef::Int32(n)) = old.get("n") else { panic!("{old:?}") };
            arbor_store::update(txn, own, old, row(id, n + 1).as_doc(), arbor_store::UpdateKind::Update)
        }
    }
}

fn run(rig: &Rig, id: i32) {
    let held = rig.store.hold_or_create(&rig.ns).unwrap();
    let work = |txn: &mut Transaction| increment(txn, &held, id);
    rig.store.transactions().retry::<_, Error>(Durability::Applied, work).unwrap();
}

#[test]
fn increments_by_eight_threads_are_all_there() {
    let rig = rig();
    rig.create_index(spec(&[("n", 1)], &[])).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let rig = &rig;
            scope.spawn(move || (0..40).for_each(|i| run(rig, (i + thread) % 3)));
        }
        let rig = &rig;
        scope.spawn(move || {
            for _ in 0..5 {
                rig.create_index(spec(&[("m", 1), ("n", -1)], &[])).unwrap();
                rig.check_valid();
                rig.store.drop_indexes(&rig.ns, &IndexSelection::Names(vec!["m_1_n_-1".into()])).unwrap();
            }
            rig.create_index(spec(&[("m", 1)], &[])).unwrap();
        });
    });
    rig.check_valid();
    let collection = rig.collection();
    assert_eq!(collection.indexes.len(), 2);
    let view = rig.store.transactions().read().unwrap();
    let sum: i32 = (0..3)
        .map(|id| {
            let bytes = view.get(collection.tree, &arbor_store::id_key(ValueRef::Int32(id))).unwrap().unwrap();
            match Doc::trusted(&bytes).get("n") {
                Some(ValueRef::Int32(n)) => n,
                other => panic!("{other:?}"),
            }
        })
        .sum();
    assert_eq!(sum, 8 * 40);
}

#[test]
fn one_of_many_inserts_of_a_unique_value_wins() {
    let rig = rig();
    rig.create_index(spec(&[("n", 1)], &[("unique", Value::Bool(true))])).unwrap();
    let won = AtomicI32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (rig, won) = (&rig, &won);
            scope.spawn(move || {
                for n in 0..20 {
                    match rig.insert(&row(thread * 1000 + n, n)) {
                        Ok(()) => won.fetch_add(1, Ordering::Relaxed),
                        Err(Error::DuplicateKey { .. }) => 0,
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 20);
    rig.check_valid();
    assert_eq!(rig.docs().len(), 20);
}

#[test]
fn a_collection_may_be_dropped_under_its_writers() {
    let rig = rig();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let rig = &rig;
            scope.spawn(move || (0..60).for_each(|_| run(rig, thread)));
        }
        let rig = &rig;
        scope.spawn(move || {
            for _ in 0..20 {
                let _may_not_be_there = rig.store.drop_collection(&rig.ns);
                std::thread::yield_now();
            }
        });
    });
    run(&rig, 1);
    rig.check_valid();
}

/// Renames hold two latches each, and a latch moves to another name while others wait for it.
#[test]
fn renames_in_circles_end() {
    let rig = std::sync::Arc::new(rig());
    let names: Vec<_> = ["a", "b", "c"].map(|name| Namespace::new("test", name).unwrap()).to_vec();
    let (done, ended) = std::sync::mpsc::channel();
    for thread in 0..4 {
        let (rig, names, done) = (rig.clone(), names.clone(), done.clone());
        std::thread::spawn(move || {
            for step in 0..3000 {
                let (from, to) = ((step * 7 + thread) % 3, (step * 5 + thread * 2 + 1) % 3);
                let _may_not_be_there = rig.store.rename(&names[from], &names[to], step % 2 == 0);
                let _may_be_there = rig.store.create_collection(&names[thread % 3], &DocBuf::new());
                rig.store.validate_catalogue();
                if step % 7 == thread {
                    let _may_be_empty = rig.store.drop_database("test");
                }
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..4 {
        ended.recv_timeout(std::time::Duration::from_secs(30)).expect("renames wait for each other");
    }
}
