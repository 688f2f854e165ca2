use std::sync::atomic::{AtomicBool, Ordering};

use arbor_base::{Position, TreeId};

use crate::Bench;
use crate::bench::{apply, create, delete, drop_tree, put, rows_of};
use arbor_engine::Engine;

const TREE: TreeId = TreeId(1);

pub(super) fn does_not_change(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1)]);
    let mut held = Vec::new();
    for n in 0..40u64 {
        held.push((n, engine.snapshot().unwrap()));
        apply(&*engine, vec![put(1, format!("{n:03}"), n.to_string()), put(1, "last", n.to_string())]);
        if n % 5 == 0 {
            apply(&*engine, vec![delete(1, format!("{:03}", n / 2)), put(1, format!("{:03}", n / 2), "again")]);
        }
        if n % 9 == 0 {
            engine.checkpoint().unwrap();
        }
    }
    for (n, snapshot) in &held {
        let rows = rows_of(&**snapshot, TREE).unwrap();
        assert_eq!(rows.len() as u64, if *n == 0 { 0 } else { n + 1 }, "snapshot {n}");
        let last = snapshot.get(TREE, b"last").unwrap().map(|value| value.into_owned());
        assert_eq!(last, n.checked_sub(1).map(|n| n.to_string().into_bytes()));
    }
}

/// Each with cursors of its own, concurrently with a writer.
pub(super) fn threads_share_one(bench: &Bench<'_>) {
    let engine = bench.open();
    let rows: Vec<_> = (0..400u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 50])).collect();
    apply(&*engine, [create(1)].into_iter().chain(rows.iter().map(|(key, value)| put(1, key, value))).collect());
    let snapshot = engine.snapshot().unwrap();
    let read = || {
        for round in 0..6 {
            assert!(rows_of(&*snapshot, TREE).as_ref() == Some(&rows));
            for (key, value) in rows.iter().skip(round) {
                assert_eq!(snapshot.get(TREE, key).unwrap().as_deref(), Some(&value[..]));
            }
            assert!(snapshot.get(TreeId(2), b"").is_err());
            snapshot.estimate(TREE, b"", None).unwrap();
        }
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        let mut n = 0u32;
        while readers.iter().any(|reader| !reader.is_finished()) {
            apply(&*engine, vec![put(1, (n % 400).to_be_bytes(), vec![0; 60]), create(2), delete(1, n.to_be_bytes())]);
            n += 1;
            if n.is_multiple_of(50) {
                engine.checkpoint().unwrap();
            }
        }
    });
    read();
}

pub(super) fn outlives_its_trees(bench: &Bench<'_>) {
    let engine = bench.open();
    let rows: Vec<_> = (0..500u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 100])).collect();
    apply(&*engine, [create(1)].into_iter().chain(rows.iter().map(|(key, value)| put(1, key, value))).collect());
    let before = engine.snapshot().unwrap();
    let mut cursor = before.cursor(TREE).unwrap();
    cursor.seek(&100u32.to_be_bytes()).unwrap();
    apply(&*engine, vec![drop_tree(1)]);
    let after = engine.snapshot().unwrap();
    apply(&*engine, vec![create(1), put(1, "new", "tree")]);
    // Other writes continue, so that freed space would be used again.
    for n in 0..30u8 {
        apply(&*engine, vec![create(2), put(2, [n], vec![n; 3000])]);
        engine.checkpoint().unwrap();
    }
    assert_eq!(cursor.value(), [7; 100]);
    assert!(cursor.next().unwrap() && cursor.key() == 101u32.to_be_bytes());
    drop(cursor);
    assert_eq!(rows_of(&*before, TREE), Some(rows));
    assert_eq!(before.position(), Position(1));
    assert_eq!(rows_of(&*after, TREE), None);
    drop(engine);
    assert!(rows_of(&*before, TREE).is_some(), "a snapshot may outlive the engine's handle");
}

/// Each batch moves an amount between two rows; readers see the sum unchanged and positions that do not fall.
pub(super) fn readers_see_whole_batches(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), put(1, "a", 1000u64.to_be_bytes()), put(1, "b", 0u64.to_be_bytes())]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| read_until(&*engine, &stop));
        }
        for n in 1..300u64 {
            let amounts = [put(1, "a", (1000 - n).to_be_bytes()), put(1, "b", n.to_be_bytes())];
            apply(&*engine, amounts.into());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn read_until(engine: &dyn Engine, stop: &AtomicBool) {
    let mut last = Position::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let snapshot = engine.snapshot().unwrap();
        let amount = |key: &str| {
            let value = snapshot.get(TREE, key.as_bytes()).unwrap().unwrap();
            u64::from_be_bytes(value.as_ref().try_into().unwrap())
        };
        let (a, b) = (amount("a"), amount("b"));
        assert_eq!((a + b, snapshot.position()), (1000, Position(b + 1)));
        assert!(snapshot.position() >= last);
        last = snapshot.position();
    }
}
