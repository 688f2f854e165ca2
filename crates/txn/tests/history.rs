//! The log as a history: what notes tell, when, and who waits for more.

mod support;

use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_txn::record::Record;
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability::Applied, History, Options, Retention, TreeOptions};
use support::{Rig, rig};

/// `about=value` of each note, with a bar behind each record that has some.
fn told(mut history: History) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Vec::new();
    while let Some((_, record)) = history.read().unwrap() {
        let note = |note| record.value_of(note).map_or_else(String::new, |value| format!("={}", text(value)));
        let notes: Vec<String> = record.notes.iter().map(|told| text(&told.about) + &note(told)).collect();
        if !notes.is_empty() {
            all.push(notes.join(" "));
        }
    }
    all.join(" | ")
}

fn records(rig: &Rig) -> Vec<Record> {
    let mut history = rig.transactions.history(Position::ZERO);
    std::iter::from_fn(|| history.read().unwrap()).map(|(_, record)| record).filter(|r| !r.notes.is_empty()).collect()
}

#[test]
fn notes_tell_of_every_value_also_of_those_that_were_written_again() {
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
    assert_eq!(told(rig.transactions.history(Position::ZERO)), expected);
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
    assert_eq!(told(rig.transactions.history(Position::ZERO)), "insert a=1 drop");
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
    assert_eq!(told(rig.transactions.history(Position::ZERO)), "first=1 second=1");
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
    assert_eq!(told(end), "");
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
        let own = InMemory::with_segments(Options { history: retention, ..Options::default() }, 64 << 10).unwrap();
        let rig = Rig::over(own);
        let tree = rig.tree();
        for at in 0..100 {
            let mut txn = rig.begin();
            txn.put_noted(tree, format!("{at:04}"), vec![0; 10_000], "insert");
            txn.commit(Applied).unwrap();
        }
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
