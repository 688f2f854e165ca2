//! Many writers: nothing is lost, conflicts surface, retry ends.

use crate::support;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::rig;
use arbor_base::TreeId;
use arbor_txn::{CounterId, Durability::Applied, Error, Transaction, View};

fn number(txn: &Transaction, tree: TreeId) -> u32 {
    let value = txn.get(tree, b"n").unwrap();
    value.map_or(0, |v| String::from_utf8_lossy(&v).parse().unwrap())
}

#[test]
fn eight_threads_increment_one_key_exactly() {
    const EACH: u32 = 100;
    let rig = rig();
    let tree = rig.tree();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let increment = |txn: &mut Transaction| -> Result<(), Error> {
                        let next = number(txn, tree) + 1;
                        txn.put(tree, "n", next.to_string());
                        txn.add_counter(CounterId(1), 1);
                        Ok(())
                    };
                    rig.transactions.retry(Applied, increment).unwrap();
                }
            });
        }
    });
    assert_eq!(number(&rig.begin(), tree), 8 * EACH);
    assert_eq!(rig.transactions.counter(CounterId(1)).unwrap(), i64::from(8 * EACH));
}

#[test]
fn without_retry_every_commit_wins_or_conflicts() {
    let rig = rig();
    let tree = rig.tree();
    let won = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut txn = rig.begin();
                    let next = number(&txn, tree) + 1;
                    txn.put(tree, "n", next.to_string());
                    std::thread::yield_now();
                    match txn.commit(Applied) {
                        Ok(_) => won.fetch_add(1, Ordering::Relaxed),
                        Err(Error::Conflict) => 0,
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    assert_eq!(number(&rig.begin(), tree), won.into_inner());
}

#[test]
fn a_retry_that_loses_every_race_ends_by_keeping_the_others_out() {
    let rig = rig();
    let tree = rig.tree();
    let mut attempts = 0;
    let lose = |txn: &mut Transaction| -> Result<(), Error> {
        attempts += 1;
        txn.put(tree, "n", "1");
        if attempts <= arbor_txn::Options::default().retries_before_exclusive {
            rig.put(tree, "n", "2");
        }
        Ok(())
    };
    rig.transactions.retry(Applied, lose).unwrap();
    assert_eq!(attempts, arbor_txn::Options::default().retries_before_exclusive + 1);
    assert_eq!(rig.rows(tree), ["n=1"]);
}

#[test]
fn disjoint_writers_all_commit_and_old_snapshots_stay() {
    let rig = rig();
    let tree = rig.tree();
    let before = rig.transactions.read().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let rig = &rig;
            scope.spawn(move || (0..50).for_each(|i| rig.put(tree, &format!("{thread}-{i:03}"), "x")));
        }
    });
    assert_eq!(rig.rows(tree).len(), 400);
    assert_eq!(support::rows(&before, tree).len(), 0);
}
