//! Prepared transactions: their keys are locked, they survive crashes, and states of a time show all parts of a transaction or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Rig, rows};
use arbor_base::invariants::assert_reached;
use arbor_base::{Random, TreeId};
use arbor_txn::testing::InMemory;
use arbor_txn::{
    CounterId, Durability::Applied, Durability::Journaled, Error, Options, Retention, Transaction, TransactionId, View,
};

const COUNTER: CounterId = CounterId(9);

fn options() -> Options {
    let history = Some(Retention { bytes: 1 << 30, time: Duration::ZERO });
    // the clock does not move: times after a restart are as low as the log allows
    Options { history, clock: Some(Arc::new(|| 5_000)), retries_before_exclusive: 1, ..Options::default() }
}

fn rig() -> (Rig, TreeId) {
    let rig = Rig::over(InMemory::new(options()).unwrap());
    rig.transactions.make_prepared_tree().unwrap();
    let tree = rig.tree();
    (rig, tree)
}

fn crashed(rig: &Rig, options: Options, seed: u64) -> Rig {
    Rig::over(InMemory::open(rig.own.disk.crash(seed), rig.own.engine.crash(), options).unwrap())
}

fn id(n: u8) -> TransactionId {
    TransactionId([n; TransactionId::BYTES])
}

/// Prepares a transaction that puts one row; returns a time from which on it may be committed.
fn prepare(rig: &Rig, tree: TreeId, n: u8, key: &str, value: &str) -> u64 {
    let mut txn = rig.begin();
    txn.put_noted(tree, key, value, "note");
    txn.add_counter(COUNTER, 1);
    txn.prepare(id(n), b"about").unwrap()
}

fn put_conflicts(rig: &Rig, tree: TreeId, key: &str) -> bool {
    let mut txn = rig.transactions.begin_open().unwrap();
    matches!(txn.claim(tree, key.as_bytes()), Err(Error::Conflict))
}

#[test]
fn a_prepared_transaction_is_invisible_and_keeps_its_keys() {
    let (rig, tree) = rig();
    rig.put(tree, "a", "0");
    let mut older = rig.begin();
    older.put(tree, "a", "2");
    prepare(&rig, tree, 1, "a", "1");
    assert_eq!(rig.rows(tree), ["a=0"]);
    assert!(put_conflicts(&rig, tree, "a") && !put_conflicts(&rig, tree, "b"));
    let mut other = rig.begin();
    other.put(tree, "a", "3");
    assert!(matches!(other.prepare(id(2), b""), Err(Error::Conflict)), "after a wait");
    assert_eq!(rig.transactions.prepared().iter().map(|one| one.id).collect::<Vec<_>>(), [id(1)]);
    let time = rig.transactions.time() + 5;
    rig.transactions.commit_prepared(&id(1), time).unwrap();
    assert_eq!(rig.rows(tree), ["a=1"]);
    assert_eq!(rig.transactions.counter(COUNTER).unwrap(), 1);
    assert!(matches!(older.commit(Applied), Err(Error::Conflict)));
    assert!(!put_conflicts(&rig, tree, "a"));
    assert!(matches!(rig.transactions.commit_prepared(&id(1), time), Err(Error::NotPrepared)));
}

#[test]
fn a_writer_waits_for_the_decision() {
    let (rig, tree) = rig();
    prepare(&rig, tree, 1, "a", "1");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let put = |txn: &mut Transaction| {
                let before = txn.get(tree, b"a")?.is_some();
                txn.put(tree, "a", "2");
                Ok::<bool, Error>(before)
            };
            rig.transactions.retry(Applied, put).unwrap().0
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while rig.transactions.pending_locks().is_empty() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!writer.is_finished());
        let pending = rig.transactions.pending_locks();
        assert_eq!((pending.len(), pending[0].owner, &*pending[0].trees), (1, id(1), &[tree][..]));
        rig.transactions.commit_prepared(&id(1), rig.transactions.time()).unwrap();
        assert!(writer.join().unwrap(), "it has read what was committed");
        assert!(rig.transactions.pending_locks().is_empty());
    });
    assert_eq!(rig.rows(tree), ["a=2"]);
    assert_reached(&["txn: a commit waits for a prepared key"]);
}

#[test]
fn an_aborted_one_leaves_nothing() {
    let (rig, tree) = rig();
    prepare(&rig, tree, 1, "a", "1");
    rig.transactions.abort_prepared(&id(1)).unwrap();
    assert!(rig.rows(tree).is_empty() && rig.rows(TreeId(6)).is_empty());
    assert_eq!(rig.transactions.counter(COUNTER).unwrap(), 0);
    assert!(rig.transactions.prepared().is_empty() && !put_conflicts(&rig, tree, "a"));
    assert!(matches!(rig.transactions.abort_prepared(&id(1)), Err(Error::NotPrepared)));
    prepare(&rig, tree, 2, "a", "2");
}

#[test]
fn a_state_at_a_time_shows_what_has_a_commit_time_up_to_it() {
    for record_bytes_max in [1 << 20, 100] {
        let rig = Rig::over(InMemory::new(Options { record_bytes_max, ..options() }).unwrap());
        rig.transactions.make_prepared_tree().unwrap();
        let tree = rig.tree();
        rig.put(tree, "a", "0");
        let long = "x".repeat(300);
        let commit_time = prepare(&rig, tree, 1, "a", &long);
        // the clock advances before the participant learns of the decision
        let between = commit_time + 10;
        rig.transactions.advance_time(between + 10);
        rig.put(tree, "b", "0");
        let reader = rig.transactions.clone();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || rows(&reader.view_sealed_at(between).unwrap(), tree));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "a reader of a time after the prepare waits");
            rig.transactions.commit_prepared(&id(1), commit_time).unwrap();
            assert_eq!(waiting.join().unwrap(), [format!("a={long}")]);
        });
        let at = |time| rig.transactions.view_at(time).unwrap();
        assert_eq!(rows(&at(commit_time), tree), [format!("a={long}")]);
        assert_eq!(rows(&at(commit_time - 1), tree), ["a=0"]);
        let counter = |time| at(time).counter(COUNTER).unwrap();
        assert_eq!([commit_time - 1, commit_time, rig.transactions.time()].map(counter), [0, 1, 1]);
        assert_eq!(rows(&at(rig.transactions.time()), tree), [format!("a={long}"), "b=0".into()]);
        // a transaction at that time reads the same, and conflicts with what came after it alone
        let mut open = rig.transactions.begin_open_at(between).unwrap();
        assert_eq!(rows(&open, tree), [format!("a={long}")]);
        assert!(matches!(open.claim(tree, b"b"), Err(Error::Conflict)));
        let mut open = rig.transactions.begin_open_at(between).unwrap();
        open.claim(tree, b"c").unwrap();
        open.put(tree, "c", "1");
        open.commit(Applied).unwrap();
    }
    assert_reached(&["txn: a reader waits for a decision", "txn: a commit is laid over a state of before its record"]);
}

#[test]
fn a_crash_keeps_what_is_prepared_and_decided() {
    for seed in 0..20 {
        let (rig, tree) = rig();
        rig.put(tree, "a", "0");
        let random = Random::new(seed);
        prepare(&rig, tree, 1, "a", "1");
        prepare(&rig, tree, 2, "b", "1");
        let mut own = rig.begin();
        own.put(tree, "c", "1");
        let (_, decided) = own.commit_deciding(id(3), b"others").unwrap();
        rig.transactions.validate();
        let rig = crashed(&rig, options(), seed ^ random.clone().next_u64());
        rig.transactions.validate();
        assert_eq!(rig.rows(tree), ["a=0", "c=1"]);
        assert!(put_conflicts(&rig, tree, "a") && put_conflicts(&rig, tree, "b"));
        let decision = rig.transactions.decision(&id(3)).unwrap().unwrap();
        assert_eq!((decision.time, decision.about.as_slice()), (decided, &b"others"[..]));
        assert!(rig.transactions.prepared().iter().all(|one| one.about == b"about" && one.trees == [tree]));
        rig.transactions.commit_prepared(&id(1), decided).unwrap();
        rig.transactions.abort_prepared(&id(2)).unwrap();
        rig.transactions.forget_decisions(&[id(3)]).unwrap();
        rig.transactions.validate();
        let rig = crashed(&rig, options(), seed);
        assert_eq!(rig.rows(tree), ["a=1", "c=1"]);
        assert_eq!(rig.transactions.counter(COUNTER).unwrap(), 1);
        assert!(rig.transactions.prepared().is_empty() && !put_conflicts(&rig, tree, "a"));
    }
}

/// Another server has a later clock: what is read at its time stays as it was read, even if this one crashes.
#[test]
fn nothing_is_committed_before_a_time_that_was_shown() {
    let (rig, tree) = rig();
    let shown = rig.transactions.time() + 1000;
    assert!(rows(&rig.transactions.view_sealed_at(shown).unwrap(), tree).is_empty());
    let rig = crashed(&rig, options(), 3);
    let prepared = prepare(&rig, tree, 1, "a", "1");
    assert!(prepared > shown, "{prepared} after {shown} was shown");
    rig.transactions.commit_prepared(&id(1), prepared).unwrap();
    let mut own = rig.begin();
    own.put(tree, "b", "1");
    let later = rig.transactions.time() + 1000;
    rig.transactions.begin_open_at(later).unwrap();
    let (_, decided) = own.commit_deciding(id(2), b"").unwrap();
    assert!(decided > later);
}

#[test]
fn what_is_too_much_is_refused() {
    let (rig, tree) = rig();
    let mut txn = rig.begin();
    txn.create_tree(Default::default());
    assert!(matches!(txn.prepare(id(1), b""), Err(Error::CreatesTrees)));
    let mut txn = rig.begin();
    txn.put(tree, "a", vec![7; 9 << 20]);
    txn.put(tree, "b", vec![8; 9 << 20]);
    txn.prepare(id(1), b"").unwrap();
    let rig = crashed(&rig, options(), 1);
    rig.transactions.commit_prepared(&id(1), rig.transactions.time()).unwrap();
    let view = rig.transactions.read().unwrap();
    assert_eq!(view.get(tree, b"b").unwrap().unwrap().len(), 9 << 20);
    assert!(rig.rows(TreeId(6)).is_empty());
    let begun = Instant::now();
    let mut txn = rig.begin();
    txn.put(tree, "a", "1");
    txn.commit(Journaled).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}
