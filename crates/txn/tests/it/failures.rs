//! Acknowledged writes are kept and refused ones are not there, whatever fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Rig, rig, rig_with, rows};
use arbor_base::invariants::assert_reached;
use arbor_base::{Position, TreeId};
use arbor_disk::{Disk, Fault, FaultyDisk};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Barrier, Batch, Capabilities, Engine, EngineStats, Error as EngineError, Snapshot, TreeStats};
use arbor_log::{Log, LogOptions};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Error, Options, Space, Transactions, TreeOptions, View};

fn full() -> EngineError {
    EngineError::OutOfSpace { context: "test".into() }
}

fn try_put(rig: &Rig, tree: arbor_base::TreeId, key: &str, durability: Durability) -> arbor_txn::Result<()> {
    let mut txn = rig.transactions.begin()?;
    txn.put(tree, key, "1");
    txn.commit(durability).map(drop)
}

#[test]
fn after_a_crash_everything_journaled_is_there() {
    let rig = rig();
    let tree = rig.tree();
    for key in ["a", "b", "c"] {
        try_put(&rig, tree, key, Durability::Journaled).unwrap();
        if key == "a" {
            rig.transactions.checkpoint_now().unwrap();
        }
    }
    for seed in 0..20 {
        let (disk, engine) = (rig.own.disk.crash(seed), rig.own.engine.crash());
        let after = Rig::over(InMemory::open(disk, engine, Options::default()).unwrap());
        assert_eq!(after.rows(tree), ["a=1", "b=1", "c=1"]);
        try_put(&after, tree, "d", Durability::Applied).unwrap();
        assert!(after.tree() > tree);
        assert_eq!(after.rows(tree).len(), 4);
    }
}

#[test]
fn a_clean_close_needs_no_replay_and_refuses_later_commits() {
    let rig = rig();
    let tree = rig.tree();
    let mut late = rig.begin();
    late.put(tree, "late", "1");
    rig.put(tree, "a", "1");
    rig.transactions.close().unwrap();
    rig.transactions.close().unwrap();
    assert!(matches!(late.commit(Durability::Applied), Err(Error::Closed)));
    assert_eq!(rig.rows(tree), ["a=1"]);
    let (disk, engine) = (rig.own.disk.crash(1), rig.own.engine.crash());
    assert_eq!(engine.applied(), rig.own.engine.applied());
    let after = Rig::over(InMemory::open(disk, engine, Options::default()).unwrap());
    assert_eq!(after.rows(tree), ["a=1"]);
}

#[test]
fn an_engine_that_is_ahead_of_its_log_is_refused_with_what_is_missing() {
    let rig = rig();
    let tree = rig.tree();
    try_put(&rig, tree, "a", Durability::Journaled).unwrap();
    let (disk, last) = (rig.own.disk.crash(1), rig.transactions.log().appended());
    rig.put(tree, "b", "1");
    rig.put(tree, "c", "1");
    rig.own.engine.checkpoint().unwrap();
    let opened = InMemory::open(disk, rig.own.engine.crash(), Options::default()).map(drop).unwrap_err();
    let Error::LogGap { missing, first: Position(1), last: end } = &opened else { panic!("{opened}") };
    assert_eq!((*missing, *end), ((last.next(), Position(last.0 + 2)), last));
    let text = opened.to_string();
    assert!(text.contains("records 5 to 6 are missing") && text.contains("'arbor salvage'"), "{text}");
}

#[test]
fn a_log_that_begins_behind_the_state_is_refused_with_what_is_missing() {
    let options = Options { compress_records: false, ..Options::default() };
    let rig = Rig::over(InMemory::with_segments(options, 1 << 10).unwrap());
    let tree = rig.tree();
    (0..8).for_each(|_| rig.put(tree, "a", &"x".repeat(600)));
    let early = rig.own.engine.crash();
    rig.transactions.checkpoint_now().unwrap();
    assert!(rig.transactions.log().first() > Position(2), "the log was trimmed");
    let opened = InMemory::open(rig.own.disk.crash(1), early, Options::default()).map(drop).unwrap_err();
    let first = rig.transactions.log().first().0;
    assert!(opened.to_string().contains(&format!("records 1 to {} are missing", first - 1)), "{opened}");
}

/// A barrier that let everything pass would make what the log never had durable.
#[test]
fn an_engine_makes_nothing_durable_once_the_log_is_gone() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    let engine = rig.own.engine.clone();
    let durable = engine.durable();
    drop(rig);
    assert!(engine.applied() > durable && engine.checkpoint().is_err());
    assert_eq!(engine.durable(), durable);
}

#[test]
fn an_engine_without_its_log_is_refused() {
    let rig = rig();
    rig.tree();
    let opened = InMemory::open(FaultyDisk::new(), rig.own.engine.reopen(), Options::default());
    assert!(matches!(opened.map(drop), Err(Error::LogGap { .. })));
}

#[test]
fn a_full_disk_refuses_the_commit_and_keeps_reading() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    rig.own.disk.set_capacity(Some(0));
    assert!(matches!(try_put(&rig, tree, "b", Durability::Applied), Err(Error::OutOfSpace { .. })));
    assert_eq!(rig.rows(tree), ["a=1"]);
    rig.own.disk.set_capacity(None);
    try_put(&rig, tree, "b", Durability::Journaled).unwrap();
    assert_eq!(rig.rows(tree), ["a=1", "b=1"]);
}

#[test]
fn an_engine_without_space_applies_later_what_the_log_has() {
    let rig = rig();
    let tree = rig.tree();
    rig.own.engine.fail_next_apply(full());
    try_put(&rig, tree, "a", Durability::Applied).unwrap();
    assert_eq!(rig.rows(tree), ["a=1"]);
    assert_reached(&["txn: a group waits for space"]);
}

#[test]
fn an_engine_that_stays_full_never_answers_failure_for_what_will_appear() {
    let rig = rig_with(Options { apply_wait: Duration::ZERO, ..Options::default() });
    let tree = rig.tree();
    rig.own.engine.fail_next_apply(full());
    let answer = try_put(&rig, tree, "a", Durability::Applied);
    assert!(matches!(answer, Err(Error::CommittedNotApplied { .. })));
    assert_eq!(rig.rows(tree).len(), 0);
    rig.own.engine.fail_next_apply(full());
    assert!(matches!(try_put(&rig, tree, "b", Durability::Applied), Err(Error::OutOfSpace { .. })));
    let (disk, engine) = (rig.own.disk.kill_process(), rig.own.engine.reopen());
    let after = Rig::over(InMemory::open(disk, engine, Options::default()).unwrap());
    assert_eq!(after.rows(tree), ["a=1"]);
    try_put(&rig, tree, "c", Durability::Applied).unwrap();
    assert_eq!(rig.rows(tree), ["a=1", "c=1"]);
}

const RESERVE: u64 = 64 << 10;

/// A rig whose log and reserve are on one small disk.
fn small_disk() -> Rig {
    let disk = FaultyDisk::new();
    let dir = Path::new("data");
    disk.create_dir_all(dir).unwrap();
    let space = Space::open(Arc::new(disk.clone()), dir, RESERVE);
    let options = Options { space: Some(Arc::new(space)), ..Options::default() };
    let rig = Rig::over(InMemory::open(disk, ModelEngine::new(), options).unwrap());
    rig.transactions.check_free_space();
    rig
}

fn delete(rig: &Rig, tree: TreeId, key: &str) -> arbor_txn::Result<()> {
    let mut txn = rig.begin();
    txn.delete(tree, key);
    txn.commit(Durability::Journaled).map(drop)
}

/// No free space is checked between the writes: the last byte is taken.
#[test]
fn a_fast_writer_leaves_room_for_deletions_and_checkpoints() {
    let rig = small_disk();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    let used = rig.own.disk.contents(Path::new("log/000000000001.log")).unwrap().len() as u64;
    rig.own.disk.set_capacity(Some(used + RESERVE + 300));
    let refused = (0..100_000).find(|n| try_put(&rig, tree, &format!("k{n}"), Durability::Applied).is_err());
    assert!(refused.is_some_and(|n| n < 20), "{refused:?}");
    assert!(rig.transactions.is_low_on_space());
    for _ in 0..20 {
        delete(&rig, tree, "a").unwrap();
        rig.transactions.checkpoint_now().unwrap();
        assert!(matches!(try_put(&rig, tree, "b", Durability::Applied), Err(Error::OutOfSpace { .. })));
    }
    rig.own.disk.set_capacity(Some(used + 4 * RESERVE));
    rig.transactions.check_free_space();
    try_put(&rig, tree, "b", Durability::Journaled).unwrap();
    assert!(rig.rows(tree).contains(&"b=1".to_owned()));
}

#[test]
fn on_little_space_only_deletions_are_let_in() {
    let rig = small_disk();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    rig.own.disk.set_capacity(Some(0));
    rig.transactions.check_free_space();
    assert!(matches!(try_put(&rig, tree, "b", Durability::Applied), Err(Error::OutOfSpace { .. })));
    rig.own.disk.set_capacity(None);
    delete(&rig, tree, "a").unwrap();
    assert!(rig.rows(tree).is_empty());
}

#[test]
fn an_engine_without_space_takes_the_reserve_for_what_the_log_has() {
    let rig = small_disk();
    let tree = rig.tree();
    rig.own.engine.fail_next_apply(full());
    try_put(&rig, tree, "a", Durability::Applied).unwrap();
    assert_eq!(rig.rows(tree), ["a=1"]);
    assert!(rig.transactions.is_low_on_space());
    assert_reached(&["txn: applied with the reserve"]);
}

/// After a checkpoint on a full disk, the log is one segment that is nearly empty.
#[test]
fn a_checkpoint_on_little_space_gives_the_whole_log_back() {
    let rig = small_disk();
    let tree = rig.tree();
    (0..500).for_each(|n| rig.put(tree, &format!("k{n}"), &"v".repeat(100)));
    rig.own.disk.set_capacity(Some(0));
    rig.transactions.check_free_space();
    rig.own.disk.set_capacity(None);
    rig.transactions.checkpoint_now().unwrap();
    delete(&rig, tree, "k1").unwrap();
    rig.transactions.checkpoint_now().unwrap();
    let bytes: u64 = rig.transactions.log().segments().iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes < 20_000, "{bytes}");
    let after =
        Rig::over(InMemory::open(rig.own.disk.kill_process(), rig.own.engine.reopen(), Options::default()).unwrap());
    assert_eq!(after.rows(tree).len(), 499);
}

#[test]
fn a_failed_apply_poisons_writes_and_keeps_reads() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    rig.own.engine.fail_next_apply(EngineError::Other("broken".into()));
    assert!(matches!(try_put(&rig, tree, "b", Durability::Applied), Err(Error::Poisoned { .. })));
    assert!(matches!(try_put(&rig, tree, "c", Durability::Applied), Err(Error::Poisoned { .. })));
    assert!(rig.transactions.poisoned().is_some());
    assert_eq!(rig.rows(tree), ["a=1"]);
    let (disk, engine) = (rig.own.disk.kill_process(), rig.own.engine.reopen());
    let after = Rig::over(InMemory::open(disk, engine, Options::default()).unwrap());
    assert_eq!(after.rows(tree), ["a=1", "b=1"]);
}

/// The n-th disk call fails, for every n: acknowledged journaled writes are there after a crash, and nothing that was
/// refused as not written is.
#[test]
fn every_disk_call_may_fail() {
    for fault in [Fault::Io, Fault::OutOfSpace] {
        for n in 0..200 {
            let rig = rig();
            let tree = rig.tree();
            rig.own.disk.fail_nth(n, fault);
            let mut acknowledged = Vec::new();
            let mut refused = Vec::new();
            for i in 0..6 {
                let key = format!("k{i}");
                match try_put(&rig, tree, &key, Durability::Journaled) {
                    Ok(()) => acknowledged.push(format!("{key}=1")),
                    Err(Error::OutOfSpace { .. } | Error::Refused { .. }) => refused.push(format!("{key}=1")),
                    Err(Error::Poisoned { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
                if i == 3 {
                    let _may_fail = rig.transactions.checkpoint_now();
                }
            }
            let shown = rig.rows(tree);
            assert!(acknowledged.iter().all(|row| shown.contains(row)));
            let (disk, engine) = (rig.own.disk.crash(n), rig.own.engine.crash());
            let after = Rig::over(InMemory::open(disk, engine, Options::default()).unwrap());
            let kept = rows(&after.transactions.read().unwrap(), tree);
            assert!(acknowledged.iter().all(|row| kept.contains(row)), "{fault:?} at {n}: {acknowledged:?} {kept:?}");
            assert!(!refused.iter().any(|row| kept.contains(row)), "{fault:?} at {n}: {refused:?} {kept:?}");
            if !rig.own.disk.fault_triggered() {
                break;
            }
        }
    }
}

#[test]
fn a_checkpoint_makes_the_log_durable_first_and_trims_it_unless_it_is_retained() {
    let rig = Rig::over(InMemory::new(Options { compress_records: false, ..Options::default() }).unwrap());
    let tree = rig.tree();
    let log = rig.transactions.log();
    rig.put(tree, "a", "1");
    let position = rig.transactions.checkpoint_now().unwrap();
    assert_eq!(position, rig.transactions.read().unwrap().position());
    assert!(log.durable() >= position);
    assert_eq!(rig.transactions.checkpoint_stats().count, 1);

    let (view, mut follower) = rig.transactions.follow().unwrap();
    let big = vec![7; 1 << 20];
    let fill = |from: u32| {
        for i in from..from + 70 {
            let mut txn = rig.begin();
            txn.put(tree, format!("big{}", i % 2), big.clone());
            txn.commit(Durability::Applied).unwrap();
        }
        rig.transactions.checkpoint_now().unwrap();
    };
    fill(0);
    assert_eq!(log.first(), arbor_base::Position(1));
    let behind = std::iter::from_fn(|| follower.next(follower.end()).unwrap());
    let positions: Vec<u64> = behind.map(|(position, _)| position.0).collect();
    let first = view.position().0 + 1;
    assert_eq!(positions, (first..first + 70).collect::<Vec<_>>());
    drop(follower);
    fill(70);
    assert!(log.first() > arbor_base::Position(1));
    let after = Rig::over(InMemory::open(rig.own.disk.crash(1), rig.own.engine.crash(), Options::default()).unwrap());
    assert_eq!(after.rows(tree).len(), 3);
}

/// A model engine whose next apply, or wait for room, may panic.
#[derive(Default)]
struct Panicking {
    inner: ModelEngine,
    armed: AtomicBool,
    without_room: AtomicBool,
}

impl Engine for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }
    fn applied(&self) -> Position {
        self.inner.applied()
    }
    fn apply(&self, batches: &[Batch]) -> arbor_engine::Result<()> {
        assert!(!self.armed.load(Ordering::Relaxed), "an injected panic");
        self.inner.apply(batches)
    }
    fn wait_for_room(&self) {
        assert!(!self.without_room.load(Ordering::Relaxed), "an injected panic");
    }
    fn snapshot(&self) -> arbor_engine::Result<Arc<dyn Snapshot>> {
        self.inner.snapshot()
    }
    fn checkpoint(&self) -> arbor_engine::Result<Position> {
        self.inner.checkpoint()
    }
    fn set_barrier(&self, barrier: Barrier) {
        self.inner.set_barrier(barrier)
    }
    fn durable(&self) -> Position {
        self.inner.durable()
    }
    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> arbor_engine::Result<()> {
        self.inner.bulk_load(tree, rows)
    }
    fn trees(&self) -> arbor_engine::Result<Vec<TreeId>> {
        self.inner.trees()
    }
    fn stats(&self) -> arbor_engine::Result<EngineStats> {
        self.inner.stats()
    }
    fn tree_stats(&self, tree: TreeId) -> arbor_engine::Result<TreeStats> {
        self.inner.tree_stats(tree)
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

#[test]
fn a_panic_inside_apply_poisons_writes_and_keeps_reads() {
    let engine = Arc::new(Panicking::default());
    let log = Log::open(Arc::new(FaultyDisk::new()), Path::new("log"), LogOptions::default()).unwrap();
    let transactions = Transactions::open(log, engine.clone(), Options::default()).unwrap();
    let put = |tree: TreeId| {
        let mut txn = transactions.begin().unwrap();
        txn.put(tree, "a", "1");
        txn.commit(Durability::Applied)
    };
    let mut txn = transactions.begin().unwrap();
    let tree = txn.create_tree(Default::default());
    txn.commit(Durability::Applied).unwrap();
    engine.armed.store(true, Ordering::Relaxed);
    assert!(matches!(put(tree), Err(Error::Poisoned { .. })));
    engine.armed.store(false, Ordering::Relaxed);
    assert!(matches!(put(tree), Err(Error::Poisoned { .. })));
    assert!(rows(&transactions.read().unwrap(), tree).is_empty());
    assert!(transactions.checkpoint_now().is_ok());
    transactions.close().unwrap();
}

/// Committers that wait behind the one that panics get an outcome too.
#[test]
fn a_panic_before_the_commit_lock_leaves_no_committer_waiting() {
    let engine = Arc::new(Panicking::default());
    let log = Log::open(Arc::new(FaultyDisk::new()), Path::new("log"), LogOptions::default()).unwrap();
    let transactions = Transactions::open(log, engine.clone(), Options::default()).unwrap();
    let mut txn = transactions.begin().unwrap();
    let tree = txn.create_tree(Default::default());
    txn.commit(Durability::Applied).unwrap();
    engine.without_room.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let transactions = &transactions;
            scope.spawn(move || {
                let mut txn = transactions.begin().unwrap();
                txn.put(tree, [n], "1");
                assert!(matches!(txn.commit(Durability::Applied), Err(Error::Poisoned { .. })));
            });
        }
    });
    assert!(rows(&transactions.read().unwrap(), tree).is_empty());
    transactions.close().unwrap();
}

#[test]
fn a_tree_option_that_the_engine_refuses_does_not_reach_the_log() {
    let rig = rig();
    let appended = rig.transactions.log().appended();
    let settings = vec![("no such option".to_owned(), "1".to_owned())];
    let mut txn = rig.begin();
    txn.create_tree(TreeOptions { settings });
    let refused = txn.commit(Durability::Applied);
    let Err(Error::Engine(arbor_engine::Error::InvalidOption { name, .. })) = refused else { panic!("{refused:?}") };
    assert_eq!((name.as_str(), rig.transactions.log().appended()), ("no such option", appended));
    let tree = rig.tree();
    assert!(rig.rows(tree).is_empty());
}
