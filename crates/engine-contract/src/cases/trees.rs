use arbor_base::{Position, TreeId};

use crate::Bench;
use crate::bench::{apply, batch, create, drop_tree, get, put, rows_of};
use arbor_engine::{Engine, Error, Op, TreeOptions};

pub(super) fn a_new_engine_is_empty(bench: &Bench<'_>) {
    let engine = bench.open();
    assert_eq!((engine.applied(), engine.durable()), (Position::ZERO, Position::ZERO));
    assert!(!engine.name().is_empty());
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.position(), Position::ZERO);
    let tree = TreeId(1);
    let unknown = |error: Option<Error>| assert!(matches!(error, Some(Error::UnknownTree(TreeId(1)))), "{error:?}");
    unknown(snapshot.get(tree, b"a").err());
    unknown(snapshot.cursor(tree).err());
    unknown(snapshot.estimate(tree, b"", None).err());
    unknown(engine.tree_stats(tree).err());
    unknown(engine.bulk_load(tree, &mut std::iter::empty()).err());
    engine.stats().unwrap();
    assert_eq!(engine.checkpoint().unwrap(), Position::ZERO);
}

pub(super) fn create_and_drop_are_idempotent(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), put(1, "a", "1"), create(1)]);
    apply(&*engine, vec![create(1), put(1, "b", "2")]);
    assert_eq!((get(&*engine, 1, "a"), get(&*engine, 1, "b")), (Some(b"1".into()), Some(b"2".into())));
    assert_eq!(engine.trees().unwrap(), [TreeId(1)]);
    apply(&*engine, vec![drop_tree(1), drop_tree(1), drop_tree(7)]);
    assert!(engine.trees().unwrap().is_empty());
    assert!(engine.snapshot().unwrap().get(TreeId(1), b"a").is_err());
    // Ids are not used again by the commit path; an engine gives an empty tree all the same.
    apply(&*engine, vec![create(1)]);
    assert_eq!(get(&*engine, 1, "a"), None);
    apply(&*engine, vec![put(1, "a", "3"), drop_tree(1), create(1), put(1, "c", "4")]);
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(rows_of(&*snapshot, TreeId(1)), Some(vec![(b"c".into(), b"4".into())]));
}

pub(super) fn options_are_checked(bench: &Bench<'_>) {
    let engine = bench.open();
    engine.check_options(&TreeOptions::default()).unwrap();
    let options = TreeOptions { settings: vec![("no such option".to_owned(), "1".to_owned())] };
    let invalid = |result: arbor_engine::Result<()>| match result {
        Err(Error::InvalidOption { name, .. }) => assert_eq!(name, "no such option"),
        other => panic!("{other:?}"),
    };
    invalid(engine.check_options(&options));
    let with = |options: &TreeOptions| Op::CreateTree { tree: TreeId(1), options: options.clone() };
    invalid(engine.apply(&[batch(1, vec![with(&options)])]));
    assert_eq!(engine.applied(), Position::ZERO);
    assert!(engine.tree_stats(TreeId(1)).is_err());
    for name in engine.capabilities().compression {
        options_take(&*engine, &with, name);
    }
}

/// A tree is created with a compression, or changes to it, and keeps its rows.
fn options_take(engine: &dyn Engine, with: &dyn Fn(&TreeOptions) -> Op, compression: &str) {
    let options = TreeOptions { settings: vec![("compression".to_owned(), compression.to_owned())] };
    engine.check_options(&options).unwrap();
    apply(engine, vec![with(&options), put(1, compression, compression.repeat(500))]);
    engine.checkpoint().unwrap();
    assert_eq!(get(engine, 1, compression), Some(compression.repeat(500).into_bytes()));
}

pub(super) fn many_trees_stay_apart(bench: &Bench<'_>) {
    let engine = bench.open();
    let ids: Vec<u64> = (0..300).chain([1 << 20, 1 << 40, (1 << 62) - 1, u64::MAX]).collect();
    for some in ids.chunks(50) {
        apply(&*engine, some.iter().flat_map(|&id| [create(id), put(id, "key", id.to_string())]).collect());
    }
    let keys: [&[u8]; 5] = [b"", b"\0", b"\0\0\0\0\0\0\0\0\0", b"\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"];
    apply(&*engine, keys.iter().flat_map(|key| [put(7, key, "seven"), put(9, key, "nine")]).collect());
    apply(&*engine, ids.iter().filter(|&&id| id % 3 == 2).map(|&id| drop_tree(id)).collect());
    let engine = {
        engine.checkpoint().unwrap();
        bench.crash(engine)
    };
    let snapshot = engine.snapshot().unwrap();
    for &id in &ids {
        let rows = rows_of(&*snapshot, TreeId(id));
        let own = (b"key".to_vec(), id.to_string().into_bytes());
        match id {
            id if id % 3 == 2 => assert_eq!(rows, None, "tree {id}"),
            7 | 9 => assert_eq!(rows.unwrap().len(), 6, "tree {id}"),
            _ => assert_eq!(rows, Some(vec![own]), "tree {id}"),
        }
    }
}
