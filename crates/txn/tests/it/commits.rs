//! Transactions see their snapshot and their own writes; the first committer wins.

use crate::support;
use crate::support::{rig, rows};
use arbor_txn::{CounterId, Durability::Applied, Error, TreeOptions, View};

#[test]
fn a_transaction_sees_its_snapshot_and_its_own_writes() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    let mut txn = rig.begin();
    rig.put(tree, "b", "2");
    txn.put(tree, "c", "3");
    txn.delete(tree, "a");
    assert_eq!(rows(&txn, tree), ["c=3"]);
    assert_eq!(txn.get(tree, b"a").unwrap(), None);
    assert_eq!(rig.rows(tree), ["a=1", "b=2"]);
    txn.commit(Applied).unwrap();
    assert_eq!(rig.rows(tree), ["b=2", "c=3"]);
}

#[test]
fn the_first_committer_wins() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "0");
    let (mut first, mut second, mut other) = (rig.begin(), rig.begin(), rig.begin());
    first.put(tree, "a", "1");
    second.delete(tree, "a");
    other.put(tree, "b", "1");
    first.commit(Applied).unwrap();
    assert!(matches!(second.commit(Applied), Err(Error::Conflict)));
    other.commit(Applied).unwrap();
    assert_eq!(rig.rows(tree), ["a=1", "b=1"]);
}

#[test]
fn a_deleted_range_conflicts_with_keys_inside_it_only() {
    let rig = rig();
    let tree = rig.tree();
    let delete = || {
        let mut txn = rig.begin();
        txn.delete_range(tree, "b", Some(b"d".to_vec()));
        txn
    };
    let write = |key: &str| {
        let mut txn = rig.begin();
        txn.put(tree, key, "x");
        txn
    };
    let check = |key: &str, conflict: bool| {
        let (range, one) = (delete(), write(key));
        one.commit(Applied).unwrap();
        assert_eq!(matches!(range.commit(Applied), Err(Error::Conflict)), conflict, "range after {key}");
        let (range, one) = (delete(), write(key));
        range.commit(Applied).unwrap();
        assert_eq!(matches!(one.commit(Applied), Err(Error::Conflict)), conflict, "{key} after range");
    };
    check("a", false);
    check("b", true);
    check("c", true);
    check("d", false);
}

#[test]
fn counters_add_up_without_conflicts() {
    let rig = rig();
    let id = CounterId(7);
    let (mut first, mut second) = (rig.begin(), rig.begin());
    first.add_counter(id, 5);
    second.add_counter(id, -2);
    assert_eq!(second.counter(id).unwrap(), -2);
    first.commit(Applied).unwrap();
    second.commit(Applied).unwrap();
    assert_eq!(rig.transactions.counter(id).unwrap(), 3);
    let mut txn = rig.begin();
    txn.drop_counter(id);
    txn.commit(Applied).unwrap();
    assert_eq!(rig.transactions.counter(id).unwrap(), 0);
}

#[test]
fn a_savepoint_takes_everything_after_it_back() {
    let rig = rig();
    let tree = rig.tree();
    for key in ["a", "b", "c"] {
        rig.put(tree, key, "0");
    }
    let mut txn = rig.begin();
    txn.put(tree, "a", "1");
    txn.put(tree, "d", "1");
    txn.add_counter(CounterId(1), 1);
    let before = rows(&txn, tree);
    let size = txn.size_bytes();
    let savepoint = txn.savepoint();
    txn.put(tree, "a", "2");
    txn.put(tree, "a", "3");
    txn.delete(tree, "b");
    txn.put(tree, "e", "1");
    txn.delete_range(tree, "a", Some(b"d".to_vec()));
    txn.put(tree, "b", "9");
    txn.add_counter(CounterId(1), 10);
    txn.add_counter(CounterId(2), 10);
    txn.set_logical(b"x".to_vec());
    let inner = txn.savepoint();
    let created = txn.create_tree(TreeOptions::default());
    txn.put(created, "k", "v");
    txn.drop_tree(tree);
    assert!(matches!(txn.get(tree, b"a"), Err(Error::UnknownTree(_))));
    txn.rollback_to(inner);
    assert_eq!(rows(&txn, tree), ["b=9", "d=1", "e=1"]);
    assert!(matches!(txn.cursor(created).map(drop), Err(Error::UnknownTree(_))));
    txn.rollback_to(savepoint);
    assert_eq!(rows(&txn, tree), before);
    assert_eq!(txn.size_bytes(), size);
    assert_eq!(txn.counter(CounterId(1)).unwrap(), 1);
    assert_eq!(txn.counter(CounterId(2)).unwrap(), 0);
    txn.commit(Applied).unwrap();
    assert_eq!(rig.rows(tree), before);
}

#[test]
fn a_write_into_a_dropped_tree_is_refused_before_the_log() {
    let rig = rig();
    let tree = rig.tree();
    let mut late = rig.begin();
    late.put(tree, "a", "1");
    let mut drop = rig.begin();
    drop.drop_tree(tree);
    drop.commit(Applied).unwrap();
    assert!(matches!(late.commit(Applied), Err(Error::UnknownTree(t)) if t == tree));
    let next = rig.tree();
    assert!(next > tree);
    rig.put(next, "a", "1");
}

#[test]
fn oversized_rows_and_transactions_are_refused() {
    let rig = support::rig_with(arbor_txn::Options { transaction_bytes_max: 1000, ..Default::default() });
    let tree = rig.tree();
    let mut txn = rig.begin();
    txn.put(tree, "a", vec![0; 2000]);
    assert!(matches!(txn.commit(Applied), Err(Error::TooLarge { .. })));
    rig.put(tree, "a", "1");
}

#[test]
fn the_options_of_a_tree_are_in_the_ledger_while_it_exists() {
    let rig = rig();
    let tree = rig.tree();
    let read = || arbor_txn::tree_options(&rig.transactions.read().unwrap(), tree).unwrap();
    assert_eq!(read(), Some(TreeOptions::default()));
    let mut txn = rig.begin();
    txn.drop_tree(tree);
    txn.commit(Applied).unwrap();
    assert_eq!(read(), None);
}
