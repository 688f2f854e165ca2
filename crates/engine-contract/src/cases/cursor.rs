use arbor_base::TreeId;

use crate::Bench;
use crate::bench::{apply, create, put};
use arbor_engine::{Cursor, Engine, Result};

const TREE: TreeId = TreeId(2);

/// Three trees with the keys in the middle one, so that a cursor that leaves its tree finds something.
fn engine_with(bench: &Bench<'_>, keys: &[Vec<u8>]) -> Box<dyn Engine> {
    let engine = bench.open();
    apply(&*engine, vec![create(1), create(2), create(3), put(1, "z", "before"), put(3, "", "behind")]);
    apply(&*engine, keys.iter().map(|key| put(2, key, value_of(key))).collect());
    engine
}

fn value_of(key: &[u8]) -> Vec<u8> {
    [b"value of ", &key[..key.len().min(20)]].concat()
}

fn check(cursor: &dyn Cursor, answer: Result<bool>, expected: Option<&Vec<u8>>, what: &str) {
    assert_eq!(answer.unwrap(), expected.is_some(), "{what}");
    if let Some(key) = expected {
        assert!(cursor.key() == key && cursor.value() == value_of(key), "{what}");
    }
}

/// Seeks every target and walks from there, with turns.
fn check_all_moves(engine: &dyn Engine, keys: &[Vec<u8>], targets: &[Vec<u8>]) {
    assert!(keys.is_sorted());
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(TREE).unwrap();
    for target in targets {
        let what = format!("target of {} bytes {:?}", target.len(), &target[target.len().saturating_sub(3)..]);
        let at = keys.partition_point(|key| key < target);
        let answer = cursor.seek(target);
        check(&*cursor, answer, keys.get(at), &what);
        if at < keys.len() {
            // there and back again, one and two steps
            let answer = cursor.next();
            check(&*cursor, answer, keys.get(at + 1), &what);
            let answer = cursor.prev();
            check(&*cursor, answer, keys.get(at).filter(|_| at + 1 < keys.len()), &what);
        }
        let answer = cursor.seek_before(target);
        check(&*cursor, answer, at.checked_sub(1).map(|i| &keys[i]), &what);
        if at > 0 {
            let answer = cursor.next();
            check(&*cursor, answer, keys.get(at), &what);
            cursor.seek_before(target).unwrap();
            let answer = cursor.prev();
            check(&*cursor, answer, at.checked_sub(2).map(|i| &keys[i]), &what);
            if at > 1 {
                let answer = cursor.next();
                check(&*cursor, answer, Some(&keys[at - 1]), &what);
            }
        }
    }
    check_ends(&mut *cursor, keys);
}

fn check_ends(cursor: &mut dyn Cursor, keys: &[Vec<u8>]) {
    let answer = cursor.first();
    check(cursor, answer, keys.first(), "first");
    let answer = cursor.prev();
    check(cursor, answer, None, "before the first");
    assert!(!cursor.next().unwrap() && !cursor.prev().unwrap(), "a cursor that ran off is unpositioned");
    let answer = cursor.last();
    check(cursor, answer, keys.last(), "last");
    let answer = cursor.next();
    check(cursor, answer, None, "behind the last");
    assert!(!cursor.prev().unwrap() && !cursor.next().unwrap(), "a cursor that ran off is unpositioned");
}

pub(super) fn moves_at_every_place(bench: &Bench<'_>) {
    let all: Vec<Vec<u8>> = (0..=60u8).map(|i| vec![b'a' + i / 10, b'0' + i % 10]).collect();
    let keys: Vec<Vec<u8>> = all.iter().step_by(2).cloned().collect();
    let mut targets = all;
    targets.extend([b"".to_vec(), b"a".into(), b"\0".into(), b"\xff\xff".into(), b"c5x".into()]);
    let engine = engine_with(bench, &keys);
    check_all_moves(&*engine, &keys, &targets);
}

pub(super) fn moves_over_long_keys(bench: &Bench<'_>) {
    let mut keys = vec![b"".to_vec(), b"j".into(), b"k".into(), b"l".into()];
    for length in [10, 499, 500, 501, 999, 1000, 1001, 1002, 1500, 1501, 3001] {
        for end in [&b""[..], b"\0", b"a", b"k", b"z"] {
            keys.push([&vec![b'k'; length][..], end].concat());
        }
    }
    keys.sort();
    keys.dedup();
    let mut targets = keys.clone();
    for key in &keys {
        targets.push([key, &b"\0"[..]].concat());
        targets.push([key, &b"m"[..]].concat());
        targets.push([key, &[b'm'; 600][..]].concat());
        targets.push([key, &[b'a'; 600][..]].concat());
        if let Some((_, rest)) = key.split_last() {
            targets.push(rest.to_vec());
        }
    }
    targets.extend([b"kl".to_vec(), b"kj".into(), vec![0xff; 2000], vec![0; 2000]]);
    let engine = engine_with(bench, &keys);
    check_all_moves(&*engine, &keys, &targets);
    // Every second key: targets that do not exist, layers with one row.
    let few: Vec<Vec<u8>> = keys.iter().skip(1).step_by(3).cloned().collect();
    let gone = keys.iter().filter(|key| !few.contains(key));
    apply(&*engine, gone.map(|key| crate::bench::delete(2, key)).collect());
    check_all_moves(&*engine, &few, &targets);
}

pub(super) fn empty_trees(bench: &Bench<'_>) {
    let engine = engine_with(bench, &[]);
    let targets = [b"".to_vec(), b"a".into(), vec![0xff; 100], vec![b'x'; 1200]];
    check_all_moves(&*engine, &[], &targets);
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(TREE).unwrap();
    assert!(!cursor.next().unwrap() && !cursor.prev().unwrap(), "a fresh cursor is unpositioned");
}

/// Good enough for a planner: small ranges nearly exact, large ones within a factor of two.
pub(super) fn estimates(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), create(2), create(3), put(1, "z", "before"), put(3, "", "behind")]);
    let key = |n: u64| format!("{n:08}").into_bytes();
    let mut rows = (0..30_000).map(|n| (key(n), vec![b'v'; 50]));
    engine.bulk_load(TREE, &mut rows).unwrap();
    let snapshot = engine.snapshot().unwrap();
    let check = |from: u64, to: Option<u64>, expected: u64| {
        let estimate = snapshot.estimate(TREE, &key(from), to.map(key).as_deref()).unwrap();
        let (low, high) = if expected < 100 { (expected, expected) } else { (expected / 2, expected * 2) };
        assert!((low..=high).contains(&estimate.keys), "{from} {to:?}: {estimate:?} for {expected}");
        assert!((low * 58..=high * 58).contains(&estimate.bytes), "{from} {to:?}: {estimate:?} for {expected}");
    };
    check(0, None, 30_000);
    check(10_000, Some(20_000), 10_000);
    check(29_000, None, 1000);
    check(500, Some(27_000), 26_500);
    check(500, Some(540), 40);
    check(500, Some(501), 1);
    check(500, Some(500), 0);
    check(900, Some(500), 0);
    check(30_000, None, 0);
    assert_eq!(snapshot.estimate(TreeId(3), b"", None).unwrap().keys, 1);
    assert_eq!(snapshot.estimate(TreeId(3), b"a", None).unwrap().keys, 0);
}
