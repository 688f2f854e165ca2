//! Capped collections keep the order of insertion and their bounds, over crashes, deletes and concurrent writers.

use crate::support::{Rig, rig};
use arbor_bson::{DocBuf, ValueRef};
use arbor_store::{Error, OrderCursor};
use arbor_txn::Transaction;

fn capped(size: i64, max: i64) -> Rig {
    let rig = rig();
    let options = DocBuf::new().with("capped", true).with("size", size).with("max", max);
    rig.store.create_collection(&rig.ns, &options).unwrap();
    rig
}

fn row(id: i32) -> DocBuf {
    DocBuf::new().with("_id", id).with("a", id % 3)
}

fn order(rig: &Rig) -> Vec<i32> {
    let report = rig.store.validate(&rig.ns, true).unwrap();
    assert!(report.is_valid(), "{:?}", report.problems);
    let (collection, view) = rig.store.snapshot(&rig.ns).unwrap().unwrap();
    let mut cursor = OrderCursor::new(&view, &collection).unwrap();
    let mut found = Vec::new();
    let mut valid = cursor.seek(&[]).unwrap();
    while valid {
        found.extend(cursor.doc().get("_id").and_then(|id| match id {
            ValueRef::Int32(id) => Some(id),
            _ => None,
        }));
        valid = cursor.next().unwrap();
    }
    let mut backward = Vec::new();
    let mut valid = cursor.last().unwrap();
    while valid {
        backward.extend(cursor.doc().get("_id").map(|id| id.to_string().parse::<i32>().unwrap()));
        valid = cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(found, backward);
    found
}

#[test]
fn the_oldest_make_room() {
    let rig = capped(1 << 20, 3);
    for id in [9, 2, 7, 4, 1] {
        rig.insert(&row(id)).unwrap();
    }
    assert_eq!(order(&rig), [7, 4, 1]);
    let view = rig.store.transactions().read().unwrap();
    assert_eq!(arbor_store::count(&view, &rig.collection()).unwrap(), 3);
    rig.insert(&row(9)).unwrap();
    assert_eq!(order(&rig), [4, 1, 9]);
    let again = rig.insert(&row(1)).unwrap_err();
    assert!(matches!(again, Error::DuplicateKey { .. }));
    assert_eq!(order(&rig), [4, 1, 9]);
}

#[test]
fn many_in_one_transaction() {
    let rig = capped(1 << 20, 4);
    rig.write(|txn, collection| {
        (0..10).rev().try_for_each(|id| arbor_store::insert(txn, collection, row(id).as_doc()))
    })
    .unwrap();
    assert_eq!(order(&rig), [3, 2, 1, 0]);
    let size = row(0).as_bytes().len() as i64;
    let by_bytes = capped(2 * size, 0);
    (0..5).for_each(|id| by_bytes.insert(&row(id)).unwrap());
    assert_eq!(order(&by_bytes), [3, 4]);
    let large = DocBuf::new().with("_id", 9i32).with("t", &*"x".repeat(100));
    assert!(matches!(by_bytes.insert(&large), Err(Error::LargerThanCapped)));
    assert_eq!(order(&by_bytes), [3, 4]);
}

#[test]
fn a_crash_keeps_order_and_positions() {
    let rig = capped(1 << 20, 0);
    for id in [5, 3, 8] {
        rig.insert(&row(id)).unwrap();
    }
    rig.delete(&row(8)).unwrap();
    let rig = rig.crash(7);
    assert_eq!(order(&rig), [5, 3]);
    rig.insert(&row(1)).unwrap();
    assert_eq!(order(&rig), [5, 3, 1]);
    [5, 3, 1].iter().for_each(|id| rig.delete(&row(*id)).unwrap());
    rig.insert(&row(2)).unwrap();
    // positions are never given twice, so that a reader at one knows that it is gone
    let (collection, view) = rig.store.snapshot(&rig.ns).unwrap().unwrap();
    let mut cursor = OrderCursor::new(&view, &collection).unwrap();
    assert!(cursor.seek(&[]).unwrap());
    assert_eq!(cursor.position(), [0, 0, 0, 0, 0, 0, 0, 0, 5]);
    rig.store.drop_collection(&rig.ns).unwrap();
}

#[test]
fn validation_finds_a_broken_order() {
    let broken = |harm: &dyn Fn(&mut Transaction, arbor_base::TreeId)| {
        let rig = capped(1 << 20, 0);
        (0..3).for_each(|id| rig.insert(&row(id)).unwrap());
        let order = rig.collection().order.unwrap();
        rig.write(|txn, _| {
            harm(txn, order);
            Ok(())
        })
        .unwrap();
        rig.store.validate(&rig.ns, false).unwrap().problems.join("; ")
    };
    let position = |n: u8| vec![0, 0, 0, 0, 0, 0, 0, 0, n];
    assert_eq!(
        broken(&|txn, order| txn.delete(order, position(2))),
        "order: 2 positions, 3 ids, 0 astray for 3 documents"
    );
    let astray = broken(&|txn, order| txn.put(order, position(9), arbor_store::id_key(ValueRef::Int32(1))));
    assert_eq!(astray, "order: 4 positions, 3 ids, 1 astray for 3 documents");
    assert_eq!(broken(&|_, _| {}), "");
}

#[test]
fn of_two_that_insert_one_runs_again() {
    let rig = capped(1 << 20, 0);
    let collection = rig.collection();
    let begin = |id: i32| -> Transaction {
        let mut txn = rig.store.transactions().begin().unwrap();
        arbor_store::insert(&mut txn, &collection, row(id).as_doc()).unwrap();
        txn
    };
    let (first, second) = (begin(1), begin(2));
    first.commit(arbor_txn::Durability::Applied).unwrap();
    assert!(matches!(second.commit(arbor_txn::Durability::Applied), Err(arbor_txn::Error::Conflict)));
    let before = collection.arrivals().writes();
    rig.insert(&row(3)).unwrap();
    assert_eq!((order(&rig), collection.arrivals().writes()), (vec![1, 3], before + 1));
}

#[test]
fn a_collection_is_converted() {
    let rig = rig();
    (0..6).rev().for_each(|id| rig.insert(&row(id)).unwrap());
    let size = row(0).as_bytes().len() as i64;
    rig.store.convert_to_capped(&rig.ns, 4 * size).unwrap();
    assert_eq!(order(&rig), [2, 3, 4, 5]);
    rig.insert(&row(0)).unwrap();
    assert_eq!(order(&rig), [3, 4, 5, 0]);
    rig.store.convert_to_capped(&rig.ns, 2 * size).unwrap();
    assert_eq!(order(&rig), [5, 0]);
    let missing = rig.store.convert_to_capped(&arbor_store::Namespace::new("test", "x").unwrap(), 1);
    assert!(matches!(missing, Err(Error::NamespaceNotFound(_))));
}
