//! Transactions that are split across several records of the log: whole or not there at all, whatever happens on the way.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Rig, rows};
use arbor_base::{Position, TreeId};
use arbor_disk::{Fault, FaultyDisk};
use arbor_engine::Op;
use arbor_engine::model::ModelEngine;
use arbor_log::{Log, LogOptions};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Error, Options, Transactions, View};

const ROWS: usize = 60;

fn options() -> Options {
    Options { record_bytes_max: 300, ..Options::default() }
}

/// Small segments, so that chains cross them; nothing is synced but what is asked for.
fn open(disk: &FaultyDisk, engine: &Arc<ModelEngine>) -> Arc<Transactions> {
    let log = LogOptions { segment_bytes: 1500, commit_interval: Duration::MAX, ..LogOptions::default() };
    let log = Log::open(Arc::new(disk.clone()), Path::new("/log"), log).unwrap();
    Transactions::open(log, engine.clone(), options()).unwrap()
}

/// A store with a tree of one row.
fn begin() -> (FaultyDisk, Arc<ModelEngine>, TreeId) {
    let (disk, engine) = (FaultyDisk::new(), Arc::new(ModelEngine::new()));
    let transactions = open(&disk, &engine);
    let mut txn = transactions.begin().unwrap();
    let tree = txn.create_tree(Default::default());
    txn.put(tree, "before", "x");
    txn.commit(Durability::Journaled).unwrap();
    transactions.close().unwrap();
    (disk, engine, tree)
}

fn commit_large(transactions: &Transactions, tree: TreeId, name: &str) -> Result<Position, Error> {
    let mut txn = transactions.begin().unwrap();
    for n in 0..ROWS {
        txn.put_noted(tree, format!("{name} {n:03}"), vec![b'v'; 40], format!("{name} {n}"));
    }
    txn.commit(Durability::Journaled)
}

fn commit_many(rig: &Rig, tree: TreeId, count: usize) {
    for n in 0..count {
        commit_large(&rig.transactions, tree, &n.to_string()).unwrap();
    }
}

/// Returns the transactions named by rows, each of which must be whole.
fn whole_ones(view: &impl View, tree: TreeId) -> BTreeSet<String> {
    let rows = rows(view, tree);
    let names: BTreeSet<String> = rows.iter().filter_map(|row| Some(row.split_once(' ')?.0.to_owned())).collect();
    for name in &names {
        let of_it = rows.iter().filter(|row| row.starts_with(&format!("{name} "))).count();
        assert_eq!(of_it, ROWS, "a part of {name}");
    }
    names
}

/// Like `whole_ones`, but read from the history.
fn in_history(transactions: &Transactions) -> BTreeSet<String> {
    let mut history = transactions.history(Position::ZERO);
    let mut names = BTreeSet::new();
    while let Some((_, record)) = history.read().unwrap() {
        let abouts = record.notes.iter().map(|note| String::from_utf8_lossy(&note.about).into_owned());
        let mut of_one: Vec<String> = abouts.collect();
        if let Some(name) = of_one.pop().and_then(|about| Some(about.split_once(' ')?.0.to_owned())) {
            assert_eq!(of_one.len() + 1, ROWS, "a part of {name} is shown");
            assert!(names.insert(name));
        }
    }
    names
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_large_transaction_is_one_commit() {
    let rig = Rig::over(InMemory::new(options()).unwrap());
    let tree = rig.tree();
    let before = rig.transactions.log().appended();
    let position = commit_large(&rig.transactions, tree, "large").unwrap();
    let links = position.0 - before.0;
    assert!(links > 10, "{links} records");
    assert_eq!((rig.transactions.log().appended(), rig.transactions.read().unwrap().position()), (position, position));
    rig.put(tree, "small", "x");
    assert_eq!(whole_ones(&rig.transactions.read().unwrap(), tree), names(&["large"]));
    rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
    assert_eq!(in_history(&rig.transactions), names(&["large"]));
    // from every position, and from every time
    for from in before.0 + 1..=position.0 {
        let mut history = rig.transactions.history(Position(from));
        assert_eq!(history.read().unwrap().map(|(read, record)| (read, record.notes.len())), Some((position, ROWS)));
        assert_eq!(history.read().unwrap().map(|(read, _)| read), Some(position.next()));
    }
    let (_, record) = rig.transactions.history(position).read().unwrap().unwrap();
    let times = Some((record.stamp, record.last_time()));
    assert_eq!(rig.transactions.times_until(position).unwrap(), times);
    let (_, first) = rig.transactions.history(before).read().unwrap().unwrap();
    let times = Some((first.stamp, first.last_time()));
    for until in before.0..position.0 {
        assert_eq!(rig.transactions.times_until(Position(until)).unwrap(), times, "inside of the chain, at {until}");
    }
    for time in record.stamp.time..=record.last_time() {
        let found = rig.transactions.history_at(time).unwrap().read().unwrap();
        assert_eq!(found.map(|(read, _)| read), Some(position));
    }
}

#[test]
fn a_reader_waits_for_a_whole_chain() {
    let rig = Rig::over(InMemory::new(options()).unwrap());
    let tree = rig.tree();
    let log = rig.transactions.log();
    log.wait_durable(log.appended()).unwrap();
    let mut history = rig.transactions.history(log.appended().next());
    std::thread::scope(|scope| {
        scope.spawn(|| commit_many(&rig, tree, 20));
        for _ in 0..20 {
            let record = loop {
                assert!(history.wait(Instant::now() + Duration::from_secs(60)));
                if let Some((_, record)) = history.read().unwrap() {
                    break record;
                }
            };
            assert_eq!(record.notes.len(), ROWS);
        }
    });
}

#[test]
fn readers_never_see_a_part() {
    let rig = Rig::over(InMemory::new(options()).unwrap());
    let tree = rig.tree();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            while !done.load(Ordering::Relaxed) {
                whole_ones(&rig.transactions.read().unwrap(), tree);
            }
        };
        scope.spawn(reader);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                rig.put(tree, "small", "x");
            }
        });
        commit_many(&rig, tree, 30);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(whole_ones(&rig.transactions.read().unwrap(), tree).len(), 30);
}

/// A follower gets the changes of the chain with the record that ends it, and never a position inside.
#[test]
fn a_follower_gets_whole_transactions() {
    let rig = Rig::over(InMemory::new(options()).unwrap());
    let tree = rig.tree();
    let (view, mut follower) = rig.transactions.follow().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| commit_many(&rig, tree, 20));
        let mut seen = 0;
        while seen < 20 {
            let end = follower.end();
            while let Some((position, ops)) = follower.next(end).unwrap() {
                let puts = ops.iter().filter(|op| matches!(op, Op::Put { tree: of, .. } if *of == tree)).count();
                assert_eq!((puts, position <= end), (ROWS, true));
                seen += 1;
            }
            assert_eq!(follower.position(), end.max(view.position()));
        }
        writer.join().unwrap();
    });
}

/// The power fails at each call of the disk while a chain is written, and after each a second one is written.
#[test]
fn every_cut_leaves_all_or_nothing() {
    let (mut lost, mut kept, mut calls) = (0, 0, 0);
    for stop_after in 0.. {
        let (disk, engine, tree) = begin();
        let transactions = open(&disk, &engine);
        disk.stop_after(stop_after);
        let acknowledged = commit_large(&transactions, tree, "first").is_ok();
        drop(transactions);
        let (crashed, engine) = (disk.crash(stop_after), Arc::new(engine.crash()));
        let transactions = open(&crashed, &engine);
        let survived = whole_ones(&transactions.read().unwrap(), tree);
        assert!(survived == names(&["first"]) || (survived.is_empty() && !acknowledged), "cut {stop_after}");
        assert_eq!(in_history(&transactions), survived, "cut {stop_after}");
        if survived.is_empty() {
            lost += 1
        } else {
            kept += 1
        }
        // The void links stay in the log; what comes after them counts, here and after another crash.
        commit_large(&transactions, tree, "second").unwrap();
        let all: BTreeSet<String> = survived.into_iter().chain(["second".to_owned()]).collect();
        let check = |transactions: &Transactions| {
            assert_eq!(whole_ones(&transactions.read().unwrap(), tree), all, "cut {stop_after}");
            assert_eq!(in_history(transactions), all, "cut {stop_after}");
        };
        check(&transactions);
        drop(transactions);
        check(&open(&crashed.crash(stop_after), &Arc::new(engine.crash())));
        calls = stop_after;
        if acknowledged {
            break;
        }
    }
    assert!(lost > 5 && kept > 0 && calls > 10, "{lost} {kept} {calls}");
}

/// The disk is full at each call while a chain is written: it is refused whole, and the store continues.
#[test]
fn a_full_disk_refuses_the_whole_chain() {
    for fault in [Fault::OutOfSpace, Fault::ShortWrite] {
        let mut refused = 0;
        for nth in 0.. {
            let (disk, engine, tree) = begin();
            let transactions = open(&disk, &engine);
            disk.fail_nth(nth, fault);
            match commit_large(&transactions, tree, "first") {
                Ok(_) => break,
                Err(Error::OutOfSpace { .. } | Error::Refused { .. }) => refused += 1,
                Err(Error::Poisoned { .. }) => continue, // a sync; the outcome is open
                Err(other) => panic!("{other}"),
            }
            let view = transactions.read().unwrap();
            assert_eq!(rows(&view, tree), ["before=x"]);
            let (_, mut follower) = transactions.follow().unwrap();
            commit_large(&transactions, tree, "second").unwrap();
            let followed = follower.next(follower.end()).unwrap().map(|(_, ops)| ops.len());
            assert_eq!(followed, Some(ROWS), "nth {nth}");
            assert_eq!(whole_ones(&transactions.read().unwrap(), tree), names(&["second"]));
            assert_eq!(in_history(&transactions), names(&["second"]));
            transactions.close().unwrap();
            drop((view, transactions, follower));
            let again = open(&disk.crash(nth), &Arc::new(engine.crash()));
            assert_eq!(whole_ones(&again.read().unwrap(), tree), names(&["second"]));
        }
        assert!(refused > 5, "{refused}");
    }
}

/// The engine has no space for the chain that the log has: it is committed, and visible later.
#[test]
fn a_chain_waits_for_a_full_engine() {
    let rig = Rig::over(InMemory::new(options()).unwrap());
    let tree = rig.tree();
    rig.own.engine.fail_next_apply(arbor_engine::Error::OutOfSpace { context: "test".into() });
    let position = commit_large(&rig.transactions, tree, "late").unwrap();
    assert_eq!(whole_ones(&rig.transactions.read().unwrap(), tree), names(&["late"]));
    assert_eq!(rig.transactions.read().unwrap().position(), position);
}

/// The log was trimmed up to a segment that begins inside a chain: the history begins after it, and a reader that continues inside
/// gets an error.
#[test]
fn a_history_may_begin_inside_a_chain() {
    let rig = Rig::over(InMemory::with_segments(options(), 1500).unwrap());
    let tree = rig.tree();
    let first = commit_large(&rig.transactions, tree, "first").unwrap();
    commit_large(&rig.transactions, tree, "second").unwrap();
    rig.transactions.checkpoint_now().unwrap();
    let log = rig.transactions.log();
    assert!(log.first() > first, "a checkpoint trims what no reader needs");
    let kept = log.first();
    assert_eq!(rig.transactions.history(kept).read().unwrap(), None, "only the end of the second is left");
    assert!(rig.transactions.history(kept.next()).read().is_err());
    let third = commit_large(&rig.transactions, tree, "third").unwrap();
    let (position, _) = rig.transactions.history(kept).read().unwrap().unwrap();
    assert_eq!(position, third);
}
