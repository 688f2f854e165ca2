use arbor_base::{Position, Random, TreeId};

use crate::Bench;
use crate::bench::{apply, assert_same, batch, create, delete, delete_range, get, model, put, rows_of};
use arbor_engine::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Engine, Error, Op};

pub(super) fn put_replace_delete(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), put(1, "", "empty key"), put(1, "a", ""), put(1, b"\0", "nul")]);
    assert_eq!(get(&*engine, 1, ""), Some(b"empty key".into()));
    assert_eq!(get(&*engine, 1, "a"), Some(vec![]));
    assert_eq!(get(&*engine, 1, b"\0"), Some(b"nul".into()));
    assert_eq!(get(&*engine, 1, b"\0\0"), None);
    apply(&*engine, vec![put(1, "a", "longer"), delete(1, ""), delete(1, "missing")]);
    assert_eq!((get(&*engine, 1, "a"), get(&*engine, 1, "")), (Some(b"longer".into()), None));
    apply(&*engine, vec![put(1, "b", "1"), put(1, "b", "2"), delete(1, "a"), put(1, "a", "3"), delete(1, "b")]);
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(rows_of(&*snapshot, TreeId(1)).unwrap(), vec![(vec![0], b"nul".into()), (b"a".into(), b"3".into())]);
}

pub(super) fn range_deletes(bench: &Bench<'_>) {
    let long = |n: usize, end: &[u8]| [&vec![b'm'; n][..], end].concat();
    let keys: Vec<Vec<u8>> = [b"".to_vec(), b"a".into(), b"b".into(), b"ba".into(), b"c".into(), b"\xff".into()]
        .into_iter()
        .chain([long(500, b""), long(500, b"a"), long(500, b"b"), long(1000, b"c"), long(1600, b""), long(501, b"z")])
        .collect();
    let mut bounds: Vec<Option<Vec<u8>>> = keys.iter().cloned().map(Some).collect();
    bounds.extend([None, Some(b"aa".into()), Some(long(499, b"")), Some(long(1000, b"")), Some(long(500, b"ab"))]);
    let engine = bench.open();
    let mut tree = 0;
    for from in bounds.iter().flatten() {
        for to in &bounds {
            tree += 1;
            let puts = keys.iter().map(|key| put(tree, key, "v"));
            let range = delete_range(tree, from, to.as_deref());
            apply(&*engine, [create(tree)].into_iter().chain(puts).chain([range]).collect());
            let left = keys.iter().filter(|key| *key < from || to.as_ref().is_some_and(|to| *key >= to));
            let mut left: Vec<_> = left.map(|key| (key.clone(), b"v".to_vec())).collect();
            left.sort();
            let snapshot = engine.snapshot().unwrap();
            assert_eq!(rows_of(&*snapshot, TreeId(tree)).unwrap(), left, "{from:?} {to:?}");
            assert_count(&*engine, tree, left.len() as u64);
        }
    }
}

fn assert_count(engine: &dyn Engine, tree: u64, keys: u64) {
    let stats = engine.tree_stats(TreeId(tree)).unwrap();
    assert!(stats.keys == keys || !engine.capabilities().exact_counts, "{} keys of {keys}", stats.keys);
}

pub(super) fn long_keys(bench: &Bench<'_>) {
    let (engine, model) = (bench.open(), model());
    let mut ops = vec![create(1)];
    for length in [0, 1, 480, 490, 498, 499, 500, 501, 502, 510, 511, 512, 999, 1000, 1001, 1500, 2000, 4096, 40_000] {
        for (fill, end) in [(0u8, 0u8), (b'k', b'k'), (b'k', b'l'), (b'k', 0), (0xff, 0xff), (0xff, 0xfe)] {
            let mut key = vec![fill; length];
            if let Some(last) = key.last_mut() {
                *last = end;
            }
            ops.push(put(1, &key, format!("{length} {fill} {end}")));
        }
    }
    apply_both(&model, &*engine, ops.clone());
    // Every second goes again, so layers are emptied and shared ones stay.
    let deletes = ops.iter().skip(1).step_by(2).filter_map(|op| match op {
        Op::Put { key, .. } => Some(delete(1, key)),
        _ => None,
    });
    apply_both(&model, &*engine, deletes.collect());
    apply_both(&model, &*engine, vec![delete_range(1, &vec![b'k'; 700], Some(&vec![b'k'; 3000]))]);
    apply_both(&model, &*engine, vec![delete_range(1, b"", Some(&[0xff]))]);
    apply_both(&model, &*engine, vec![delete_range(1, b"", None), put(1, vec![1; 600], "again")]);
}

fn apply_both(model: &ModelEngine, engine: &dyn Engine, ops: Vec<Op>) {
    apply(model, ops.clone());
    apply(engine, ops);
    assert_same(model, engine, 1..=1);
}

pub(super) fn values_of_every_size(bench: &Bench<'_>) {
    let engine = bench.open();
    let sizes = [0, 1, 100, 2000, 2030, 2040, 4000, 4080, 4096, 5000, 65_536, (16 << 20) + (16 << 10), VALUE_BYTES_MAX];
    let value = |size: usize| vec![size as u8 | 1; size];
    apply(&*engine, [create(1)].into_iter().chain(sizes.map(|size| put(1, size.to_string(), value(size)))).collect());
    for size in sizes {
        assert!(get(&*engine, 1, size.to_string()) == Some(value(size)), "{size}");
    }
    apply(&*engine, vec![put(1, "0", value(70_000)), put(1, "65536", "small")]);
    engine.checkpoint().unwrap();
    let engine = bench.crash(engine);
    assert!(get(&*engine, 1, "0") == Some(value(70_000)));
    assert_eq!(get(&*engine, 1, "65536"), Some(b"small".into()));
    assert!(get(&*engine, 1, VALUE_BYTES_MAX.to_string()) == Some(value(VALUE_BYTES_MAX)));
}

/// The statistics of a tree count its large values, wherever an engine keeps them, and of other trees at most a neighbour in its block.
pub(super) fn sizes_count_large_values(bench: &Bench<'_>) {
    const VALUES: u64 = 60;
    let engine = bench.open();
    let mut random = Random::new(7);
    for bytes in [3_000, 100_000] {
        let (large, small) = (bytes, bytes + 1);
        apply(&*engine, vec![create(large), create(small), put(small, "k", "v")]);
        for key in 0..VALUES {
            apply(&*engine, vec![put(large, key.to_be_bytes(), random.bytes(bytes as usize))]);
        }
        engine.checkpoint().unwrap();
        let on_disk = |tree| engine.tree_stats(TreeId(tree)).unwrap().disk_bytes;
        let (all, alone) = (VALUES * bytes, on_disk(small));
        assert!((all * 9 / 10..all * 2).contains(&on_disk(large)), "{} of {all} bytes", on_disk(large));
        assert!(alone < (2 * bytes).max(100_000), "{alone} bytes of one small row");
    }
}

pub(super) fn bounds(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1)]);
    for op in [put(1, "k", vec![0; VALUE_BYTES_MAX + 1]), put(1, vec![0; KEY_BYTES_MAX + 1], "v")] {
        assert!(engine.apply(&[batch(2, vec![op])]).is_err());
        assert_eq!(engine.applied(), Position(1));
    }
    apply(&*engine, vec![put(1, "k", "v")]);
}

pub(super) fn counts_are_exact(bench: &Bench<'_>) {
    let (mut engine, model) = (bench.open(), model());
    let mut random = Random::new(5);
    for round in 0..20 {
        let mut ops = vec![create(1)];
        for _ in 0..50 {
            let key = vec![b'k'; random.below(40) as usize * 30];
            ops.push(match random.below(5) {
                0 | 1 => delete(1, key),
                2 => delete_range(1, &key, Some(&[&key[..], b"z"].concat())),
                _ => put(1, key, vec![b'v'; random.below(5000) as usize]),
            });
        }
        apply_both(&model, &*engine, ops);
        if round % 7 == 3 {
            engine.checkpoint().unwrap();
            engine = bench.crash(engine);
            assert_same(&model, &*engine, 1..=1);
        }
    }
}

pub(super) fn a_failed_group_changes_nothing(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), put(1, "a", "1")]);
    let good = batch(2, vec![put(1, "a", "2"), create(2), put(2, "b", "3"), delete_range(1, b"", None)]);
    for bad in [put(9, "x", "y"), delete(9, "x"), delete_range(9, b"", None)] {
        let result = engine.apply(&[good.clone(), batch(3, vec![bad])]);
        assert!(matches!(result, Err(Error::UnknownTree(TreeId(9)))), "{result:?}");
        assert_eq!(engine.applied(), Position(1));
        assert_eq!(get(&*engine, 1, "a"), Some(b"1".into()));
        assert!(engine.snapshot().unwrap().get(TreeId(2), b"b").is_err());
        assert_count(&*engine, 1, 1);
    }
    engine.apply(&[good]).unwrap();
    assert_eq!((engine.applied(), get(&*engine, 1, "a")), (Position(2), None));
    assert_eq!(get(&*engine, 2, "b"), Some(b"3".into()));
}

pub(super) fn applied_batches_are_passed_over(bench: &Bench<'_>) {
    let engine = bench.open();
    let batches = [batch(3, vec![create(1), put(1, "a", "3")]), batch(8, vec![put(1, "a", "8")])];
    engine.apply(&batches).unwrap();
    assert_eq!((engine.applied(), get(&*engine, 1, "a")), (Position(8), Some(b"8".into())));
    engine.apply(&batches).unwrap();
    assert_eq!((engine.applied(), get(&*engine, 1, "a")), (Position(8), Some(b"8".into())));
    engine.apply(&[]).unwrap();
    engine.apply(&[batch(8, vec![delete(1, "a")]), batch(9, vec![])]).unwrap();
    assert_eq!((engine.applied(), get(&*engine, 1, "a")), (Position(9), Some(b"8".into())));
    assert_eq!(engine.snapshot().unwrap().position(), Position(9));
}

/// More than the memory that the engine is given in most tests: a large transaction is one batch.
pub(super) fn a_batch_of_many_megabytes(bench: &Bench<'_>) {
    const ROWS: u32 = 100;
    let mb = std::env::var("ARBOR_ENGINE_BATCH_MB").map_or(1, |text| text.parse().expect("megabytes"));
    let value = |n: u32| [vec![n as u8; 500_000 * mb], n.to_be_bytes().to_vec(), vec![1; 500_000 * mb]].concat();
    let engine = bench.open();
    apply(&*engine, vec![create(1), put(1, "small", "row")]);
    let before = engine.snapshot().unwrap();
    apply(&*engine, (0..ROWS).map(|n| put(1, n.to_be_bytes(), value(n))).collect());
    assert_eq!(rows_of(&*before, TreeId(1)).map(|rows| rows.len()), Some(1));
    drop(before);
    apply(&*engine, vec![put(1, "small", "again")]);
    engine.checkpoint().unwrap();
    let engine = bench.crash(engine);
    let snapshot = engine.snapshot().unwrap();
    for n in 0..ROWS {
        assert!(snapshot.get(TreeId(1), &n.to_be_bytes()).unwrap().as_deref() == Some(&value(n)[..]), "row {n}");
    }
}
