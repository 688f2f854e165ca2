//! Past states: what a view at a time shows is what a snapshot showed then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Rig, rig, rows, with_updates};
use arbor_base::{Position, Random, TreeId};
use arbor_disk::FaultyDisk;
use arbor_engine::model::ModelEngine;
use arbor_txn::testing::InMemory;
use arbor_txn::{CounterId, Durability::Applied, Error, Options, Retention, TreeOptions, View};

const COUNTER: CounterId = CounterId(5);

fn with_history(record_bytes_max: usize) -> Rig {
    let history = Some(Retention { bytes: 1 << 30, time: Duration::ZERO });
    Rig::over(InMemory::new(Options { history, record_bytes_max, ..with_updates() }).unwrap())
}

/// Rows of each tree that exists, the counter, and the position.
type State = (BTreeMap<TreeId, Vec<String>>, i64, Position);

fn state(view: &impl View, known: &[TreeId]) -> State {
    let exist = known.iter().filter(|tree| match view.cursor(**tree).map(drop) {
        Ok(()) => true,
        Err(Error::UnknownTree(_)) => false,
        Err(other) => panic!("{other}"),
    });
    (exist.map(|tree| (*tree, rows(view, *tree))).collect(), view.counter(COUNTER).unwrap(), view.position())
}

fn change(rig: &Rig, random: &mut Random, known: &mut Vec<TreeId>, live: &mut Vec<TreeId>) {
    let mut txn = rig.begin();
    if live.is_empty() || random.chance(1, 8) {
        let tree = txn.create_tree(TreeOptions::default());
        known.push(tree);
        live.push(tree);
    } else if random.chance(1, 12) {
        txn.drop_tree(live.swap_remove(random.below(live.len() as u64) as usize));
    }
    for _ in 0..random.below(6) {
        let Some(tree) = live.get(random.below(live.len().max(1) as u64) as usize).copied() else { break };
        let key = format!("{:02}", random.below(30));
        match random.below(8) {
            6 | 7 => drop(txn.update(tree, key, [random.below(200) as u8])),
            0 => txn.delete(tree, key),
            1 => txn.delete_range(tree, key.clone(), Some(format!("{key}z").into_bytes())),
            2 => txn.set_tree_options(tree, TreeOptions::default()),
            _ => txn.put_noted(tree, key, random.below(1000).to_string(), "note"),
        }
    }
    txn.add_counter(COUNTER, 1);
    txn.commit(Applied).unwrap();
}

#[test]
fn a_view_at_a_time_shows_what_a_snapshot_showed() {
    for record_bytes_max in [1 << 20, 120] {
        let rig = with_history(record_bytes_max);
        let mut random = Random::new(record_bytes_max as u64);
        let (mut known, mut live, mut states) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..150 {
            change(&rig, &mut random, &mut known, &mut live);
            rig.transactions.validate();
            let time = rig.transactions.time();
            states.push((time, state(&rig.transactions.read().unwrap(), &known)));
            match n % 40 {
                13 => drop(rig.transactions.checkpoint_now().unwrap()),
                27 => assert_eq!(rig.transactions.read_timed().unwrap().1, time),
                _ => {}
            }
        }
        for (time, expected) in &states {
            let view = rig.transactions.view_at(*time).unwrap();
            assert_eq!(state(&view, &known), *expected, "at {time:#x}");
        }
        // between two commits
        rig.transactions.advance_time(rig.transactions.time() + 10);
        let (last, expected) = states.last().unwrap();
        for later in [last + 1, last + 10] {
            assert_eq!(state(&rig.transactions.view_at(later).unwrap(), &known), *expected);
        }
        change(&rig, &mut random, &mut known, &mut live);
        assert_eq!(state(&rig.transactions.view_at(last + 7).unwrap(), &known), *expected);
        assert!(matches!(rig.transactions.view_at(rig.transactions.time() + 1), Err(Error::NotYet { .. })));
    }
}

#[test]
fn what_is_behind_the_window_is_too_old() {
    let rig = with_history(1 << 20);
    let tree = rig.tree();
    let times: Vec<u64> = (0..3)
        .map(|n| {
            rig.put(tree, "a", &n.to_string());
            rig.transactions.checkpoint_now().unwrap();
            rig.transactions.time()
        })
        .collect();
    assert_eq!(rows(&rig.transactions.view_at(times[0]).unwrap(), tree), ["a=0"]);
    rig.transactions.set_history_window(Duration::ZERO);
    rig.put(tree, "a", "3");
    rig.transactions.checkpoint_now().unwrap();
    assert!(matches!(rig.transactions.view_at(times[0]), Err(Error::SnapshotTooOld { .. })));
    assert_eq!(
        rows(&rig.transactions.view_at(times[2]).unwrap(), tree),
        ["a=2"],
        "the last one is held until the next"
    );
    assert!(matches!(rig.transactions.view_at(1), Err(Error::SnapshotTooOld { .. })));
}

/// WiredTiger keeps what its snapshots show in its cache: states of five minutes made the writer wait for room that never came,
/// and ended writing.
#[test]
fn states_that_take_the_engines_memory_are_given_up() {
    const HELD_BYTES_MAX: u64 = 4 << 20;
    let history = Some(Retention { bytes: 1 << 30, time: Duration::ZERO });
    let options = Options { history, ..Options::default() };
    let engine = ModelEngine::with_costly_snapshots(HELD_BYTES_MAX);
    let rig = Rig::over(InMemory::open(FaultyDisk::new(), engine, options).unwrap());
    let tree = rig.tree();
    let text = "x".repeat(1 << 20);
    let times: Vec<u64> = (0..10)
        .map(|n| {
            rig.put(tree, "a", &format!("{n}{text}"));
            rig.transactions.read_timed().unwrap().1
        })
        .collect();
    let is_held = |time: &u64| match rig.transactions.view_at(*time) {
        Ok(_) => true,
        Err(Error::SnapshotTooOld { .. }) => false,
        Err(other) => panic!("{other}"),
    };
    let held: Vec<bool> = times.iter().map(is_held).collect();
    assert_eq!(held.iter().filter(|held| !**held).count(), held.iter().take_while(|held| !**held).count(), "{held:?}");
    assert!(held.iter().filter(|held| **held).count() as u64 <= HELD_BYTES_MAX / (1 << 20) + 1, "{held:?}");
    assert_eq!(rows(&rig.transactions.view_at(times[9]).unwrap(), tree).len(), 1);
}

#[test]
fn without_history_only_the_present_is_there() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    let (view, time) = rig.transactions.read_timed().unwrap();
    assert_eq!(rows(&view, tree), ["a=1"]);
    assert_eq!(rows(&rig.transactions.view_at(time).unwrap(), tree), ["a=1"]);
    rig.put(tree, "a", "2");
    assert!(matches!(rig.transactions.view_at(time), Err(Error::SnapshotTooOld { .. })));
}

/// The log in between is gone: only states that are held can be read.
#[test]
fn a_trimmed_log_leaves_the_held_states() {
    let retention = Some(Retention { bytes: 0, time: Duration::ZERO });
    let options = Options { history: retention, compress_records: false, ..Options::default() };
    let rig = Rig::over(InMemory::with_segments(options, 4 << 10).unwrap());
    let tree = rig.tree();
    rig.put(tree, "a", "held");
    let (_, held) = rig.transactions.read_timed().unwrap();
    rig.put(tree, "a", "between");
    let between = rig.transactions.time();
    (0..20).for_each(|_| rig.put(tree, "b", &"x".repeat(1000)));
    // what is younger than no time at all is kept
    std::thread::sleep(Duration::from_millis(5));
    rig.transactions.checkpoint_now().unwrap();
    assert!(rig.transactions.log().first() > Position(5));
    assert_eq!(rows(&rig.transactions.view_at(held).unwrap(), tree), ["a=held"]);
    assert!(matches!(rig.transactions.view_at(between), Err(Error::SnapshotTooOld { .. })));
}

/// Rows that were loaded in bulk are in no log, and yet in every past state that refers to them.
#[test]
fn loaded_rows_are_in_past_states() {
    let rig = with_history(1 << 20);
    let catalogue = rig.tree();
    rig.transactions.read_timed().unwrap();
    let loaded = rig.tree();
    let mut load = (0..50).map(|n: u32| (n.to_be_bytes().to_vec(), b"loaded".to_vec()));
    rig.transactions.bulk_load(loaded, &mut load).unwrap();
    rig.transactions.checkpoint_now().unwrap();
    rig.put(catalogue, "tree", "loaded");
    let time = rig.transactions.time();
    rig.put(loaded, "more", "x");
    let view = rig.transactions.view_at(time).unwrap();
    assert_eq!((rows(&view, catalogue).len(), rows(&view, loaded).len()), (1, 50));
}

fn load(rig: &Rig, tree: TreeId) {
    let mut rows = (0..50).map(|n: u32| (n.to_be_bytes().to_vec(), b"loaded".to_vec()));
    rig.transactions.bulk_load(tree, &mut rows).unwrap();
}

/// A state of the same time is held from before the load: nothing was committed in between.
#[test]
fn loaded_rows_are_in_past_states_when_nothing_else_is_written() {
    let rig = with_history(1 << 20);
    let (catalogue, loaded) = (rig.tree(), rig.tree());
    let (before, time_before) = rig.transactions.read_timed().unwrap();
    load(&rig, loaded);
    rig.transactions.checkpoint_now().unwrap();
    rig.put(catalogue, "tree", "loaded");
    let time = rig.transactions.time();
    rig.put(catalogue, "more", "x");
    let view = rig.transactions.view_at(time).unwrap();
    assert_eq!((rows(&view, catalogue).len(), rows(&view, loaded).len()), (1, 50));
    assert_eq!(rows(&before, loaded).len(), 0);
    assert_eq!(rows(&rig.transactions.view_at(time_before).unwrap(), catalogue).len(), 0);
}

/// Clients ask for more states than are held: those that a load needs as a base are not among the ones that go.
#[test]
fn loaded_rows_are_in_past_states_however_many_others_are_asked_for() {
    for asked in [0, 1, 70, 150] {
        let rig = with_history(1 << 20);
        let (catalogue, loaded) = (rig.tree(), rig.tree());
        for n in 0..asked {
            rig.put(catalogue, "n", &n.to_string());
            rig.transactions.read_timed().unwrap();
        }
        load(&rig, loaded);
        rig.transactions.read_timed().unwrap();
        rig.transactions.checkpoint_now().unwrap();
        rig.put(catalogue, "tree", "loaded");
        let time = rig.transactions.time();
        for n in 0..asked {
            rig.put(catalogue, "n", &n.to_string());
            rig.transactions.read_timed().unwrap();
        }
        rig.put(catalogue, "last", "x");
        let view = rig.transactions.view_at(time).unwrap();
        assert_eq!(rows(&view, loaded).len(), 50, "{asked} were asked for");
    }
}

/// While writers continue, readers read again at times reported to them: rows and counter always fit, and stay the same.
#[test]
fn reported_times_show_the_same_state_again() {
    let rig = with_history(400);
    let tree = rig.tree();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (rig, done) = (&rig, &done);
            scope.spawn(move || {
                for n in 0..200 {
                    let mut txn = rig.begin();
                    (0..n % 9).for_each(|row| txn.put(tree, format!("{writer} {n:05} {row}"), vec![b'x'; 90]));
                    txn.add_counter(COUNTER, n % 9);
                    txn.commit(Applied).unwrap();
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut reported = Vec::new();
        for round in 0..25 {
            let (view, time) = rig.transactions.read_timed().unwrap();
            let count = view.counter(COUNTER).unwrap();
            assert_eq!(rows(&view, tree).len() as i64, count);
            reported.push((time, count));
            let (time, count) = reported[(round * 7) % reported.len()];
            assert_eq!(rig.transactions.view_at(time).unwrap().counter(COUNTER).unwrap(), count);
            let (earlier, _) = reported[(round * 5) % reported.len()];
            let later = (earlier + 1).min(rig.transactions.time());
            let between = rig.transactions.view_at(later).unwrap();
            assert_eq!(rows(&between, tree).len() as i64, between.counter(COUNTER).unwrap());
        }
        done.store(true, Ordering::Relaxed);
    });
}
