//! Groups that another member of a replica set has logged: engines that are not open here or not in this build, settings that an
//! engine refuses, update messages for engines that take none.

use std::sync::{Arc, Mutex};

use arbor_base::{Position, TreeId};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Batch, Engine, MemberState, Op, Result, TreeOptions};
use arbor_engine_contract::{Adder, Scratch};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use arbor_engine_set::{EngineSet, Kind, SetOptions};

use crate::support::{Models, create_in, ftree, put};

const TREE: u64 = 20;

fn apply(engine: &dyn Engine, ops: Vec<Op>) -> Result<()> {
    engine.apply(&[Batch { position: engine.applied().next(), ops }])
}

/// LMDB without a function for updates.
fn plain_lmdb() -> Kind {
    Kind::new("lmdb", |directory| Ok(Arc::new(LmdbEngine::open(directory, LmdbOptions::default())?)))
}

fn add(tree: u64, key: &str, number: u64) -> Op {
    Op::Update { tree: TreeId(tree), key: key.into(), update: number.to_le_bytes().to_vec() }
}

fn rows(engine: &dyn Engine, tree: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let snapshot = engine.snapshot().unwrap();
    let mut cursor = snapshot.cursor(TreeId(tree)).unwrap();
    let (mut rows, mut more) = (Vec::new(), cursor.first().unwrap());
    while more {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = cursor.next().unwrap();
    }
    rows
}

#[test]
fn an_engine_of_this_build_joins_when_a_record_names_it() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let open = || {
        let options = SetOptions { adapts: true, ..SetOptions::default() };
        let kinds = vec![engines.kind("home"), engines.kind("left")];
        EngineSet::open(scratch.path(), kinds, "home", "home").unwrap().with_options(options)
    };
    let set = open().unwrap();
    apply(&set, vec![create_in(TREE, "left"), put(TREE, "k", "v")]).unwrap();
    assert_eq!(set.engine_of(TreeId(TREE)), "left");
    assert!(matches!(set.members()[1].state, MemberState::Open { .. }));
    set.checkpoint().unwrap();
    drop(set);
    let set = open().unwrap();
    assert_eq!(rows(&set, TREE).len(), 1);
    // A tree that exists stays where it is.
    apply(&set, vec![create_in(TREE, "home"), put(TREE, "l", "w")]).unwrap();
    assert_eq!((set.engine_of(TreeId(TREE)), rows(&set, TREE).len()), ("left", 2));
}

#[test]
fn an_engine_that_is_not_in_this_build_is_replaced_by_the_default() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let kinds = vec![engines.kind("home"), engines.kind("left")];
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let warned = warnings.clone();
    let options = SetOptions {
        adapts: true,
        on_other_settings: Some(Arc::new(move |text: &str| warned.lock().unwrap().push(text.to_owned()))),
        ..SetOptions::default()
    };
    let set = EngineSet::open(scratch.path(), kinds, "home", "left").unwrap().with_options(options).unwrap();
    let settings = |tree: u64| {
        let settings = vec![("engine".into(), "paper".into()), ("weight".into(), "80".into())];
        Op::CreateTree { tree: TreeId(tree), options: TreeOptions { settings } }
    };
    apply(&set, vec![settings(TREE), put(TREE, "k", "v"), settings(TREE + 1)]).unwrap();
    assert_eq!((set.engine_of(TreeId(TREE)), set.engine_of(TreeId(TREE + 1))), ("left", "left"));
    assert_eq!(rows(&set, TREE).len(), 1);
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("weight=80"), "{warnings:?}");
}

#[test]
fn an_override_takes_all_new_trees_and_leaves_the_old_ones() {
    let (scratch, engines) = (Scratch::new(), Models::default());
    let open = |name| {
        let kinds = vec![engines.kind("home"), engines.kind("left"), engines.kind("right")];
        let options = SetOptions { adapts: true, storage_engine_override: name, ..SetOptions::default() };
        EngineSet::open(scratch.path(), kinds, "home", "home").unwrap().with_options(options)
    };
    let unnamed = |tree: u64| Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() };
    let set = open(None).unwrap();
    apply(&set, vec![unnamed(1), unnamed(TREE)]).unwrap();
    set.checkpoint().unwrap();
    drop(set);
    assert!(open(Some("paper")).is_err());
    let set = open(Some("left")).unwrap();
    let known = TreeOptions::default().with_engine("right");
    set.check_options(&known).unwrap();
    apply(&set, vec![unnamed(2), unnamed(TREE), unnamed(TREE + 1), create_in(TREE + 2, "right")]).unwrap();
    let places = [1, 2, TREE, TREE + 1, TREE + 2].map(|tree| set.engine_of(TreeId(tree)));
    assert_eq!(places, ["home", "home", "home", "left", "left"], "fixed trees are in the home");
}

/// Equal operations, on the model with update messages and on LMDB without: in one batch, in a group, over a restart.
#[test]
fn updates_become_rows_where_an_engine_takes_none() {
    let (scratch, whole) = (Scratch::new(), ModelEngine::with_updates(Arc::new(Adder)));
    let open = || {
        let options = SetOptions { adapts: true, updates: Some(Arc::new(Adder)), ..SetOptions::default() };
        let set = EngineSet::open(scratch.path(), vec![ftree(), plain_lmdb()], "ftree", "ftree").unwrap();
        set.with_options(options).unwrap()
    };
    let number = |n: u64| n.to_le_bytes();
    let range = |from: &str, to: Option<&str>| Op::DeleteRange {
        tree: TreeId(TREE),
        from: from.into(),
        to: to.map(|to| to.as_bytes().to_vec()),
    };
    let delete = |key: &str| Op::Delete { tree: TreeId(TREE), key: key.into() };
    let batches: Vec<Vec<Op>> = vec![
        vec![create_in(TREE, "lmdb"), add(TREE, "a", 1), add(TREE, "a", 2), put(TREE, "b", number(5))],
        vec![add(TREE, "b", 1), delete("a"), add(TREE, "a", 9), add(TREE, "c", 4), range("b", Some("c"))],
        vec![add(TREE, "b", 7), add(TREE, "c", 0u64.wrapping_sub(4)), add(TREE, "d", 1), range("d", None)],
        vec![add(TREE, "d", 3), add(TREE, "a", 1)],
        vec![Op::DropTree { tree: TreeId(TREE) }, create_in(TREE, "lmdb"), add(TREE, "a", 100)],
        vec![add(TREE, "a", 100), put(TREE, "t", "text"), add(TREE, "t", 1)],
    ];
    let batch = |(at, ops): (usize, &Vec<Op>)| Batch { position: Position(at as u64 + 1), ops: ops.clone() };
    let batches: Vec<Batch> = batches.iter().enumerate().map(batch).collect();
    let mut set = open();
    assert!(set.capabilities().update_messages);
    for (at, batch) in batches.iter().enumerate() {
        // Each group repeats the batch before it, which is passed over.
        set.apply(&batches[at.saturating_sub(1)..=at]).unwrap();
        let stripped: Vec<Op> = batch
            .ops
            .iter()
            .map(|op| match op {
                Op::CreateTree { tree, .. } => Op::CreateTree { tree: *tree, options: TreeOptions::default() },
                other => other.clone(),
            })
            .collect();
        whole.apply(&[Batch { position: batch.position, ops: stripped }]).unwrap();
        assert_eq!(rows(&set, TREE), rows(&whole, TREE), "after batch {at}");
        if at == 3 {
            set.checkpoint().unwrap();
            drop(set);
            set = open();
            set.apply(&batches[..=at]).unwrap();
        }
    }
    drop(set);
    // All in one group, from the last checkpoint on.
    let set = open();
    set.apply(&batches).unwrap();
    assert_eq!(rows(&set, TREE), rows(&whole, TREE));
}
