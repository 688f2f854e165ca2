//! The log as a history: the contents of notes, when they are visible, and waiting for more.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::support::{Rig, rig};
use arbor_base::Position;
use arbor_txn::record::Record;
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability::Applied, History, Options, Retention, TreeOptions, View};

/// `about=value` of each note, with a bar after each record that has some.
fn shown_notes(rig: &Rig, mut history: History) -> String {
    rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        let note = |note| record.value_of(note).map_or_else(String::new, |value| format!("={}", text(value)));
        let notes: Vec<String> = record.notes.iter().map(|entry| text(&entry.about) + &note(entry)).collect();
        if !notes.is_empty() {
            all.push(notes.join(" "));
        }
    }
    all.join(" | ")
}

fn records(rig: &Rig) -> Vec<Record> {
    rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
    let mut history = rig.transactions.history(Position::ZERO);
    std::iter::from_fn(|| history.read().unwrap()).map(|(_, record)| record).filter(|r| !r.notes.is_empty()).collect()
}

#[test]
fn notes_show_every_value_including_overwritten_ones() {
    let rig = rig();
    let tree = rig.tree();
    let mut txn = rig.begin();
    txn.put_noted(tree, "b", "1", "insert b");
    txn.put_noted(tree, "a", "1", "insert a");
    txn.put_noted(tree, "b", "2", "update b");
    txn.note(tree, "nothing");
    txn.put(tree, "a", "quiet");
    txn.commit(Applied).unwrap();
    rig.put(tree, "c", "quiet");
    let mut txn = rig.begin();
    txn.put_noted(tree, "d", "1", "insert d");
    txn.put_noted(tree, "e", "1", "insert e");
    txn.delete_range(tree, "a", Some(b"e".to_vec()));
    txn.note(tree, "delete all below e");
    txn.commit(Applied).unwrap();
    let expected = "insert b=1 insert a=1 update b=2 nothing | insert d=1 insert e=1 delete all below e";
    assert_eq!(shown_notes(&rig, rig.transactions.history(Position::ZERO)), expected);
    assert_eq!(rig.rows(tree), ["e=1"]);
}

#[test]
fn notes_of_a_tree_that_is_gone_again_keep_their_values() {
    let rig = rig();
    let mut txn = rig.begin();
    let tree = txn.create_tree(TreeOptions::default());
    txn.put_noted(tree, "a", "1", "insert a");
    txn.drop_tree(tree);
    txn.note(tree, "drop");
    txn.commit(Applied).unwrap();
    assert_eq!(shown_notes(&rig, rig.transactions.history(Position::ZERO)), "insert a=1 drop");
}

#[test]
fn a_savepoint_takes_notes_back() {
    let rig = rig();
    let tree = rig.tree();
    let mut txn = rig.begin();
    txn.put_noted(tree, "a", "1", "first");
    txn.put_noted(tree, "b", "1", "second");
    let (size, savepoint) = (txn.size_bytes(), txn.savepoint());
    txn.put_noted(tree, "a", "2", "third");
    txn.delete(tree, "b");
    txn.delete_range(tree, "a", None);
    txn.drop_tree(tree);
    txn.note(tree, "fourth");
    txn.rollback_to(savepoint);
    assert_eq!(txn.size_bytes(), size);
    txn.put(tree, "b", "3");
    txn.commit(Applied).unwrap();
    assert_eq!(shown_notes(&rig, rig.transactions.history(Position::ZERO)), "first=1 second=1");
    assert_eq!(rig.rows(tree), ["a=1", "b=3"]);
}

#[test]
fn times_ascend_and_go_on_behind_a_restart() {
    let rig = rig();
    let tree = rig.tree();
    for at in 0..5 {
        let mut txn = rig.begin();
        (0..=at).for_each(|note| txn.put_noted(tree, format!("{at}{note}"), "x", "insert"));
        txn.commit(Applied).unwrap();
    }
    let all = records(&rig);
    assert!(all.windows(2).all(|pair| pair[0].last_time() < pair[1].stamp.time), "{all:?}");
    assert_eq!(all.last().map(Record::last_time), Some(rig.transactions.time()));
    let ahead = rig.transactions.time() + (1000 << 32);
    rig.transactions.advance_time(ahead);
    let mut txn = rig.begin();
    txn.note(tree, "later");
    txn.commit(Applied).unwrap();
    rig.transactions.close().unwrap();
    let InMemory { disk, engine, transactions } = rig.own;
    drop((rig.transactions, transactions));
    let engine = std::sync::Arc::into_inner(engine).unwrap();
    let again = Rig::over(InMemory::open(disk, engine, Options::default()).unwrap());
    assert_eq!(again.transactions.time(), ahead + 1);
}

#[test]
fn the_history_begins_at_any_time() {
    let rig = rig();
    let tree = rig.tree();
    for at in 0..40 {
        let mut txn = rig.begin();
        (0..=at % 3).for_each(|note| txn.put_noted(tree, format!("{at} {note}"), "x", "insert"));
        txn.commit(Applied).unwrap();
        rig.put(tree, "quiet", "x");
    }
    for record in records(&rig) {
        for time in [record.stamp.time, record.last_time()] {
            let mut history = rig.transactions.history_at(time).unwrap();
            assert_eq!(history.read().unwrap().map(|(_, found)| found), Some(record.clone()), "{time}");
        }
    }
    let end = rig.transactions.history_at(rig.transactions.time() + 1).unwrap();
    assert_eq!(shown_notes(&rig, end), "");
}

/// Notes of commits that a power failure would still undo are not shown, and waiting for them has them synced.
#[test]
fn only_durable_notes_are_shown() {
    let rig = rig();
    let tree = rig.tree();
    let log = rig.transactions.log();
    log.set_commit_interval(Duration::MAX);
    log.wait_durable(log.appended()).unwrap();
    let mut txn = rig.begin();
    txn.put_noted(tree, "a", "1", "insert a");
    let position = txn.commit(Applied).unwrap();
    let mut history = rig.transactions.history_at(0).unwrap();
    while history.read().unwrap().is_some_and(|(read, _)| read < position) {}
    assert_eq!(history.position(), position, "it is visible, but not durable");
    assert!(history.wait(Instant::now() + Duration::from_secs(60)), "the wait asks for the sync");
    assert!(rig.transactions.shown() >= position);
    assert_eq!(history.read().unwrap().map(|(read, _)| read), Some(position));
}

/// Each commit asks for a sync while a waiter exists, and wakes exactly those that wait for it.
#[test]
fn a_thousand_readers_wait() {
    let rig = rig();
    let tree = rig.tree();
    rig.transactions.log().set_commit_interval(Duration::MAX);
    let begin = rig.transactions.read().unwrap().position();
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = Waker::from(Arc::new(Counting(woken.clone())));
    let mut context = Context::from_waker(&waker);
    let mut arrivals: Vec<_> =
        (0..1000).map(|n| Box::pin(rig.transactions.position_reached(Position(begin.0 + 1 + n % 2)))).collect();
    assert!(arrivals.iter_mut().all(|arrival| arrival.as_mut().poll(&mut context).is_pending()));
    for (commit, expected) in [(1, 500), (2, 1000)] {
        rig.put(tree, "a", "x");
        let reached = rig.transactions.position_reached(Position(begin.0 + commit));
        assert!(reached.wait(Instant::now() + Duration::from_secs(60)));
        let until = Instant::now() + Duration::from_secs(60);
        while woken.load(SeqCst) < expected && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(woken.load(SeqCst), expected);
    }
    assert!(arrivals.iter_mut().all(|arrival| arrival.as_mut().poll(&mut context) == Poll::Ready(true)));
    drop(arrivals);
    let mut never = Box::pin(rig.transactions.position_reached(Position(u64::MAX)));
    assert!(never.as_mut().poll(&mut context).is_pending());
    rig.transactions.close().unwrap();
    assert_eq!((never.as_mut().poll(&mut context), woken.load(SeqCst)), (Poll::Ready(false), 1001));
}

struct Counting(Arc<AtomicUsize>);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn waiters_wake_for_every_commit() {
    let rig = rig();
    let tree = rig.tree();
    const COMMITS: usize = 300;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut history = rig.transactions.history(Position::ZERO);
                let mut notes = 0;
                while notes < COMMITS {
                    assert!(history.wait(Instant::now() + Duration::from_secs(60)), "{notes}");
                    while let Some((_, record)) = history.read().unwrap() {
                        notes += record.notes.len();
                    }
                }
            });
        }
        for n in 0..COMMITS {
            let mut txn = rig.begin();
            txn.put_noted(tree, n.to_string(), "x", "insert");
            txn.commit(Applied).unwrap();
        }
    });
}

#[test]
fn a_reader_waits_for_the_next_commit() {
    let rig = rig();
    let tree = rig.tree();
    let mut history = rig.transactions.history_at(u64::MAX).unwrap();
    assert!(!history.wait(Instant::now() + Duration::from_millis(5)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            rig.put(tree, "a", "1");
        });
        assert!(history.wait(Instant::now() + Duration::from_secs(60)));
    });
    assert!(history.read().unwrap().is_some());
    rig.transactions.close().unwrap();
    assert!(!history.wait(Instant::now() + Duration::from_secs(60)), "a closed log ends the wait");
}

#[test]
fn history_is_kept_by_size_and_by_time() {
    let kept_from = |retention: Option<Retention>| {
        let options = Options { history: retention, compress_records: false, ..Options::default() };
        let rig = Rig::over(InMemory::with_segments(options, 64 << 10).unwrap());
        let tree = rig.tree();
        for at in 0..100 {
            let mut txn = rig.begin();
            txn.put_noted(tree, format!("{at:04}"), vec![0; 10_000], "insert");
            txn.commit(Applied).unwrap();
        }
        // what is as young as this millisecond is kept
        std::thread::sleep(Duration::from_millis(5));
        rig.transactions.checkpoint_now().unwrap();
        rig.transactions.log().first().0
    };
    let hour = Duration::from_secs(3600);
    let (nothing, all) = (kept_from(None), kept_from(Some(Retention { bytes: 1 << 30, time: Duration::ZERO })));
    assert!(all == 1 && nothing > 90, "{all} {nothing}");
    let some = kept_from(Some(Retention { bytes: 300_000, time: Duration::ZERO }));
    assert!((60..=75).contains(&some), "{some}: 300 kB are 30 records, in segments of 6");
    assert_eq!(kept_from(Some(Retention { bytes: 1, time: hour })), 1, "all of it is younger than an hour");
}

#[test]
fn a_record_keeps_the_epoch_of_its_log() {
    let rig = rig();
    let tree = rig.tree();
    rig.put(tree, "a", "1");
    rig.transactions.log().begin_epoch(4).unwrap();
    rig.put(tree, "b", "1");
    rig.transactions.log().wait_durable(rig.transactions.log().appended()).unwrap();
    let mut history = rig.transactions.history(Position::ZERO);
    let epochs: Vec<u64> = std::iter::from_fn(|| history.read().unwrap().map(|_| history.epoch())).collect();
    assert_eq!(epochs.iter().rev().take(3).copied().collect::<Vec<_>>(), [4, 1, 1]);
}
