//! Transactions of several statements: views of their own writes that stay as they are, and conflicts that are found early.

use crate::support::{Rig, rig, rig_with, rows};
use arbor_txn::{CounterId, Durability::Applied, Error, Options, Transaction, TreeOptions, View};

fn open(rig: &Rig) -> Transaction {
    rig.transactions.begin_open().unwrap()
}

fn is_conflict<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    match result {
        Err(Error::Conflict) => true,
        Err(other) => panic!("{other}"),
        Ok(_) => false,
    }
}

#[test]
fn a_view_keeps_what_the_transaction_had_written() {
    let rig = rig();
    let (tree, other) = (rig.tree(), rig.tree());
    rig.put(tree, "a", "0");
    rig.put(tree, "z", "0");
    let counter = CounterId(7);
    let mut txn = open(&rig);
    let before = txn.view();
    txn.put(tree, "b", "1");
    txn.add_counter(counter, 2);
    let first = txn.view();
    let twin = first.clone();
    txn.put(tree, "b", "2");
    txn.delete(tree, "a");
    txn.delete_range(tree, "y", None);
    let created = txn.create_tree(TreeOptions::default());
    txn.put(created, "n", "1");
    txn.add_counter(counter, 3);
    txn.drop_tree(other);
    let second = txn.view();
    txn.put(tree, "c", "3");
    assert_eq!(rows(&before, tree), ["a=0", "z=0"]);
    assert_eq!(rows(&first, tree), ["a=0", "b=1", "z=0"]);
    assert_eq!(rows(&second, tree), ["b=2"]);
    assert_eq!(rows(&second, created), ["n=1"]);
    assert_eq!(rows(&txn, tree), ["b=2", "c=3"]);
    assert_eq!([&before, &first, &second].map(|view| view.counter(counter).unwrap()), [0, 2, 5]);
    assert!(matches!(first.get(created, b"n"), Err(Error::UnknownTree(_))));
    assert!(first.get(other, b"n").unwrap().is_none());
    assert!(matches!(second.get(other, b"n"), Err(Error::UnknownTree(_))));
    assert!(matches!(second.cursor(other).map(drop), Err(Error::UnknownTree(_))));
    txn.commit(Applied).unwrap();
    drop(first);
    assert_eq!(rows(&twin, tree), ["a=0", "b=1", "z=0"], "a clone outlives the transaction and the first view");
    assert_eq!(rig.rows(tree), ["b=2", "c=3"]);
}

/// A statement that reads at a view while it writes does not see its own writes, however they are ordered.
#[test]
fn a_statement_over_a_view_does_not_see_its_own_writes() {
    let rig = rig();
    let tree = rig.tree();
    let mut txn = open(&rig);
    (0..50).for_each(|n| txn.put(tree, format!("{n:03}"), "x"));
    let view = txn.view();
    let mut cursor = view.cursor(tree).unwrap();
    let (mut valid, mut moved) = (cursor.first().unwrap(), 0);
    while valid {
        let behind = format!("{}+", String::from_utf8_lossy(cursor.key()));
        txn.delete(tree, cursor.key());
        txn.put(tree, behind, cursor.value());
        moved += 1;
        valid = cursor.next().unwrap();
    }
    drop(cursor);
    assert_eq!((moved, rows(&txn, tree).len()), (50, 50));
}

#[test]
fn views_are_shared_by_threads() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    let mut txn = open(&rig);
    txn.put(tree, "b", "2");
    let view = txn.view();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..100).for_each(|_| assert_eq!(rows(&view, tree), ["a=1", "b=2"])));
        }
        (0..100).for_each(|n| txn.put(tree, "b", n.to_string()));
    });
}

#[test]
fn a_claim_finds_what_was_committed_after_the_snapshot() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "0");
    let mut txn = open(&rig);
    let mut plain = rig.begin();
    assert!(!is_conflict(txn.claim(tree, b"a")), "what the snapshot shows is no conflict");
    rig.put(tree, "a", "1");
    assert!(is_conflict(txn.claim(tree, b"a")));
    assert!(!is_conflict(txn.claim(tree, b"b")));
    assert!(!is_conflict(plain.claim(tree, b"a")), "others learn it at their commit");
    let mut deleting = rig.begin();
    deleting.delete_range(tree, "m", Some(b"p".to_vec()));
    deleting.commit(Applied).unwrap();
    assert!(is_conflict(txn.claim(tree, b"n")) && !is_conflict(txn.claim(tree, b"q")));
    drop(txn);
    assert!(!is_conflict(open(&rig).claim(tree, b"a")));
}

#[test]
fn one_of_two_open_transactions_claims_a_key() {
    let rig = rig();
    let tree = rig.tree();
    let (mut one, mut other) = (open(&rig), open(&rig));
    assert!(one.is_open() && !rig.begin().is_open());
    assert!(!is_conflict(one.claim(tree, b"a")) && !is_conflict(one.claim(tree, b"a")));
    assert!(is_conflict(other.claim(tree, b"a")));
    one.put(tree, "a", "1");
    one.commit(Applied).unwrap();
    assert!(is_conflict(other.claim(tree, b"a")), "it was committed after the snapshot");
    assert!(!is_conflict(other.claim(tree, b"b")));
    let mut third = open(&rig);
    assert!(is_conflict(third.claim(tree, b"b")));
    drop(other);
    assert!(!is_conflict(third.claim(tree, b"b")), "the abort released it");
}

#[test]
fn a_transaction_without_claims_conflicts_with_commits_only() {
    let rig = rig();
    let tree = rig.tree();
    let unclaimed = || rig.transactions.begin_unclaimed().unwrap();
    let (mut left, mut first, mut late) = (open(&rig), unclaimed(), unclaimed());
    assert!(first.is_open());
    for txn in [&mut left, &mut first, &mut late] {
        txn.claim(tree, b"a").unwrap();
        txn.put(tree, "a", "1");
    }
    first.commit(Applied).unwrap();
    assert!(is_conflict(late.commit(Applied)));
    assert!(is_conflict(left.commit(Applied)));
    assert_eq!(rig.rows(tree), ["a=1"]);
}

#[test]
fn the_first_committer_wins_against_a_claim() {
    let rig = rig();
    let tree = rig.tree();
    let mut txn = open(&rig);
    txn.claim(tree, b"a").unwrap();
    txn.put(tree, "a", "open");
    rig.put(tree, "a", "plain");
    assert!(is_conflict(txn.commit(Applied)));
    assert_eq!(rig.rows(tree), ["a=plain"]);
}

#[test]
fn the_number_of_the_statement_is_kept() {
    let rig = rig();
    let mut txn = rig.begin();
    assert_eq!(txn.statement(), None);
    txn.set_statement(Some(3));
    assert_eq!(txn.statement(), Some(3));
}

/// The table of what was committed since is bounded, whatever is open; for what it has forgotten the rows are compared.
#[test]
fn a_transaction_that_is_open_for_long_conflicts_with_changed_rows_only() {
    let rig = rig_with(Options { conflict_keys_max: 100, ..Options::default() });
    let (tree, other) = (rig.tree(), rig.tree());
    ["same", "changed", "deleted", "there and back"].iter().for_each(|key| rig.put(tree, key, "0"));
    let begin = || (open(&rig), rig.begin());
    let mut pairs: Vec<(Transaction, Transaction)> = (0..6).map(|_| begin()).collect();
    rig.put(tree, "changed", "1");
    rig.put(tree, "new", "1");
    let mut deleting = rig.begin();
    deleting.delete(tree, "deleted");
    deleting.commit(Applied).unwrap();
    rig.put(tree, "there and back", "1");
    rig.put(tree, "there and back", "0");
    (0..300).for_each(|n| rig.put(other, "many", &n.to_string()));
    let cases = [
        ("same", false),
        ("changed", true),
        ("deleted", true),
        ("new", true),
        ("there and back", false),
        ("none", false),
    ];
    for (key, expected) in cases {
        let (mut txn, mut plain) = pairs.pop().unwrap();
        assert_eq!(is_conflict(txn.claim(tree, key.as_bytes())), expected, "{key}");
        txn.put(tree, key, "0");
        plain.put(tree, key, "0");
        assert_eq!(is_conflict(txn.commit(Applied)), expected, "{key}");
        if key != "none" {
            assert_eq!(is_conflict(plain.commit(Applied)), expected, "{key}");
        }
    }
}

#[test]
fn a_long_transaction_still_loses_to_the_newest_commits() {
    let rig = rig_with(Options { conflict_keys_max: 100, ..Options::default() });
    let (tree, other) = (rig.tree(), rig.tree());
    let (mut txn, mut ranged) = (open(&rig), open(&rig));
    txn.put(tree, "a", "open");
    ranged.delete_range(tree, "a", None);
    (0..300).for_each(|n| rig.put(other, "many", &n.to_string()));
    rig.put(tree, "a", "plain");
    assert!(is_conflict(txn.commit(Applied)) && is_conflict(ranged.commit(Applied)));
    let mut fresh = open(&rig);
    let created = fresh.create_tree(TreeOptions::default());
    fresh.put(created, "a", "1");
    (0..300).for_each(|n| rig.put(other, "many", &n.to_string()));
    fresh.commit(Applied).unwrap();
    assert_eq!(rig.rows(created), ["a=1"]);
}

/// Sixteen writers of one row, some open and some plain: no increment is lost, and everybody gets through.
#[test]
fn increments_side_by_side_are_all_there() {
    const THREADS: u64 = 16;
    const EACH: u64 = 25;
    let rig = rig_with(Options { conflict_keys_max: 40, ..Options::default() });
    let tree = rig.tree();
    rig.put(tree, "n", "0");
    let number = |view: &Transaction| {
        let row = view.get(tree, b"n").unwrap().unwrap();
        String::from_utf8_lossy(&row).parse::<u64>().unwrap()
    };
    let once = &|thread: u64, n: u64| -> Result<(), Error> {
        let mut txn = if thread.is_multiple_of(4) { rig.begin() } else { open(&rig) };
        txn.claim(tree, b"n")?;
        let after = number(&txn) + 1;
        txn.put(tree, "n", after.to_string());
        txn.put(tree, format!("{thread} {n}"), after.to_string());
        txn.commit(Applied).map(drop)
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for n in 0..EACH {
                    while is_conflict(once(thread, n)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(number(&rig.begin()), THREADS * EACH);
    let mut seen: Vec<String> = rig.rows(tree).into_iter().filter(|row| row.contains(' ')).collect();
    seen.sort_by_key(|row| row.split_once('=').unwrap().1.parse::<u64>().unwrap());
    let each_once = seen.iter().enumerate().all(|(at, row)| row.ends_with(&format!("={}", at + 1)));
    assert!(each_once && seen.len() as u64 == THREADS * EACH);
}
