//! Compressed records: the log that has them gives the same state and the same history as one without.

use arbor_base::{Position, TreeId};
use arbor_txn::record::Record;
use arbor_txn::testing::InMemory;
use arbor_txn::{CounterId, Durability, Options, Retention, View};

use crate::support::Rig;

const COUNTER: CounterId = CounterId(300);

fn options(compress_records: bool) -> Options {
    let history = Some(Retention { bytes: 1 << 30, time: std::time::Duration::ZERO });
    // the clock does not move, so the stamps of two logs are equal
    Options { compress_records, history, clock: Some(std::sync::Arc::new(|| 5_000)), ..Options::default() }
}

/// Commits a batch of rows that repeat each other, with a counter, then a small one.
fn fill(rig: &Rig) -> TreeId {
    let tree = rig.tree();
    let mut txn = rig.begin();
    (0..300)
        .for_each(|n| txn.put_noted(tree, format!("{n:04}"), format!("{{ name: 'n', city: 'c', n: {n} }}"), "insert"));
    txn.add_counter(COUNTER, 300);
    txn.commit(Durability::Journaled).unwrap();
    rig.put(tree, "small", "row");
    tree
}

fn history(rig: &Rig) -> Vec<(Position, Record)> {
    let mut history = rig.transactions.history(Position::ZERO);
    std::iter::from_fn(|| history.read().unwrap()).collect()
}

#[test]
fn a_log_with_compressed_records_is_shorter_and_says_the_same() {
    let of = |compress| {
        let rig = Rig::over(InMemory::new(options(compress)).unwrap());
        let tree = fill(&rig);
        rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
        let counter = rig.transactions.read().unwrap().counter(COUNTER).unwrap();
        (rig.transactions.log().stats().bytes, rig.rows(tree), counter, history(&rig))
    };
    let ((compressed, rows, counter, history), (plain, plain_rows, plain_counter, plain_history)) =
        (of(true), of(false));
    assert!(compressed * 2 < plain, "{compressed} of {plain} bytes");
    assert_eq!((rows, counter), (plain_rows, plain_counter));
    assert_eq!(history, plain_history);
}

#[test]
fn a_crash_is_recovered_from_compressed_records_whatever_the_option_says_then() {
    for (before, after) in [(true, true), (true, false), (false, true)] {
        let rig = Rig::over(InMemory::new(options(before)).unwrap());
        let tree = fill(&rig);
        let (rows, own) = (rig.rows(tree), &rig.own);
        rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
        let again = InMemory::open(own.disk.crash(1), own.engine.crash(), options(after)).unwrap();
        let again = Rig::over(again);
        assert_eq!(again.rows(tree), rows, "{before} {after}");
        assert_eq!(again.transactions.read().unwrap().counter(COUNTER).unwrap(), 300);
        fill(&again);
    }
}
