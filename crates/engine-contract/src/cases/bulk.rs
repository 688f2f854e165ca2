use arbor_base::TreeId;

use crate::Bench;
use crate::bench::{Rows, apply, create, delete, drop_tree, put, rows_of};
use arbor_engine::{Engine, Snapshot};

const TREE: TreeId = TreeId(1);

fn some_rows(count: u32, value_bytes: usize) -> Rows {
    (0..count).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; value_bytes])).collect()
}

fn load(engine: &dyn Engine, rows: &Rows) {
    engine.bulk_load(TREE, &mut rows.iter().cloned()).unwrap();
}

pub(super) fn loads(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), create(2), put(2, "other", "tree")]);
    let rows = some_rows(20_000, 40);
    let before = engine.snapshot().unwrap();
    load(&*engine, &rows);
    assert_eq!(rows_of(&*before, TREE), Some(vec![]));
    drop(before);
    assert!(rows_of(&*engine.snapshot().unwrap(), TREE).as_ref() == Some(&rows));
    let exact = engine.capabilities().exact_counts;
    let stats = engine.tree_stats(TREE).unwrap();
    assert!(!exact || (stats.keys, stats.data_bytes) == (20_000, 20_000 * 44), "{stats:?}");
    apply(&*engine, vec![put(1, "zz", "more"), delete(1, 5u32.to_be_bytes())]);
    engine.checkpoint().unwrap();
    let engine = bench.crash(engine);
    let loaded = rows_of(&*engine.snapshot().unwrap(), TREE).unwrap();
    assert_eq!(loaded.len(), 20_000);
    assert!(!exact || engine.tree_stats(TREE).unwrap().keys == 20_000);
    // No rows, and rows with long keys and large values.
    apply(&*engine, vec![create(3), create(4)]);
    engine.bulk_load(TreeId(3), &mut std::iter::empty()).unwrap();
    assert_eq!(rows_of(&*engine.snapshot().unwrap(), TreeId(3)), Some(vec![]));
    let long: Rows = (1..100).map(|n| (vec![b'x'; n * 37], vec![n as u8; n * 100])).collect();
    engine.bulk_load(TreeId(4), &mut long.iter().cloned()).unwrap();
    assert!(rows_of(&*engine.snapshot().unwrap(), TreeId(4)) == Some(long));
}

/// An initial sync fills all trees of a server behind one batch.
pub(super) fn many_behind_one_batch(bench: &Bench<'_>) {
    let engine = bench.open();
    let trees = 1..=600u64;
    apply(&*engine, trees.clone().map(create).collect());
    for tree in trees.clone() {
        let rows = vec![(b"key".to_vec(), tree.to_string().into_bytes())];
        engine.bulk_load(TreeId(tree), &mut rows.into_iter()).unwrap();
    }
    engine.checkpoint().unwrap();
    let check = |engine: &dyn Engine| {
        let snapshot = engine.snapshot().unwrap();
        for tree in trees.clone() {
            let expect = vec![(b"key".to_vec(), tree.to_string().into_bytes())];
            assert_eq!(rows_of(&*snapshot, TreeId(tree)), Some(expect), "tree {tree}");
        }
    };
    check(&*engine);
    let engine = bench.crash(engine);
    check(&*engine);
    apply(&*engine, vec![put(600, "next", "batch")]);
    assert_eq!(rows_of(&*engine.snapshot().unwrap(), TreeId(600)).map(|rows| rows.len()), Some(2));
}

pub(super) fn refuses(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1)]);
    let many = some_rows(10_000, 100);
    for bad in [b"\0\0\0\0".to_vec(), 9999u32.to_be_bytes().to_vec()] {
        let mut rows = many.iter().cloned().chain([(bad, vec![])]);
        assert!(engine.bulk_load(TREE, &mut rows).is_err());
        assert_eq!(rows_of(&*engine.snapshot().unwrap(), TREE), Some(vec![]), "a refused load leaves nothing");
    }
    apply(&*engine, vec![put(1, "a", "row")]);
    assert!(engine.bulk_load(TREE, &mut some_rows(10, 1).into_iter()).is_err());
    assert_eq!(engine.tree_stats(TREE).unwrap().keys, 1);
}

/// The rows come from an iterator that lets batches be applied meanwhile, as an index build does.
pub(super) fn during_batches(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), create(2)]);
    let rows = some_rows(30_000, 20);
    let mut fed = rows.iter().cloned().enumerate().map(|(n, row)| {
        match n % 3000 {
            0 => apply(&*engine, vec![put(2, (n as u64).to_be_bytes(), "during")]),
            1500 => drop(engine.checkpoint().unwrap()),
            _ => {}
        }
        row
    });
    engine.bulk_load(TREE, &mut fed).unwrap();
    let snapshot = engine.snapshot().unwrap();
    assert!(rows_of(&*snapshot, TREE) == Some(rows));
    assert_eq!(rows_of(&*snapshot, TreeId(2)).unwrap().len(), 10);
}

pub(super) fn empty_or_whole(bench: &Bench<'_>) {
    let mut engine = bench.open();
    let rows = some_rows(25_000, 30);
    for round in 0..4 {
        apply(&*engine, vec![drop_tree(1), create(1)]);
        engine.checkpoint().unwrap();
        let mut fed = rows.iter().cloned().enumerate().map(|(n, row)| {
            if n == 20_000 && round % 2 == 1 {
                engine.checkpoint().unwrap();
            }
            row
        });
        engine.bulk_load(TREE, &mut fed).unwrap();
        engine = bench.crash_with(engine, round);
        let found = empty_or(&*engine.snapshot().unwrap(), &rows);
        let counted = engine.tree_stats(TREE).unwrap().keys;
        // An estimate sees files of the dropped tree that wait for their removal.
        let exact = engine.capabilities().exact_counts;
        assert!(if exact { counted == found } else { counted.abs_diff(found) <= found / 5 }, "{counted} of {found}");
    }
    apply(&*engine, vec![drop_tree(1), create(1)]);
    load(&*engine, &rows);
    engine.checkpoint().unwrap();
    let engine = bench.crash_with(engine, 9);
    assert_eq!(empty_or(&*engine.snapshot().unwrap(), &rows), 25_000);
}

fn empty_or(snapshot: &dyn Snapshot, rows: &Rows) -> u64 {
    let found = rows_of(snapshot, TREE).unwrap();
    assert!(found.is_empty() || found == *rows, "{} rows", found.len());
    found.len() as u64
}
