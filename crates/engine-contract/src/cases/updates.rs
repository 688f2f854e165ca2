use arbor_base::{Position, Random, TreeId};

use crate::Bench;
use crate::bench::{add, apply, assert_same, batch, create, delete, delete_range, drop_tree, get, model, put};
use arbor_engine::{Engine, Error};

/// The row as a number.
fn number(engine: &dyn Engine, key: &str) -> Option<i64> {
    get(engine, 1, key).map(|value| i64::from_le_bytes(value.try_into().unwrap()))
}

/// An engine that takes updates, or nothing.
fn capable(bench: &Bench<'_>) -> Option<Box<dyn Engine>> {
    let engine = bench.open();
    engine.capabilities().update_messages.then_some(engine)
}

pub(super) fn change_what_is_there(bench: &Bench<'_>) {
    let Some(engine) = capable(bench) else { return };
    apply(&*engine, vec![create(1), add(1, "a", 1), add(1, "a", 2), put(1, "t", "text"), add(1, "t", 5)]);
    assert_eq!((number(&*engine, "a"), get(&*engine, 1, "t")), (Some(3), Some(b"text".into())));
    let before = engine.snapshot().unwrap();
    apply(&*engine, vec![add(1, "a", -3), add(1, "b", 7), put(1, "b", 1i64.to_le_bytes()), add(1, "b", 1)]);
    assert_eq!((number(&*engine, "a"), number(&*engine, "b")), (None, Some(2)));
    apply(&*engine, vec![delete(1, "b"), add(1, "b", 9), add(1, "missing", 0)]);
    assert_eq!((number(&*engine, "b"), get(&*engine, 1, "missing")), (Some(9), None));
    assert_eq!(before.get(TreeId(1), b"a").unwrap().unwrap().as_ref(), 3i64.to_le_bytes());
    assert_eq!(before.get(TreeId(1), b"b").unwrap(), None);
    let unknown = engine.apply(&[batch(4, vec![add(1, "a", 1), add(9, "a", 1)])]);
    assert!(matches!(unknown, Err(Error::UnknownTree(TreeId(9)))), "{unknown:?}");
    assert_eq!((engine.applied(), number(&*engine, "a")), (Position(3), None));
}

/// Each update counts once, however often the engine is closed between, and whatever is handed in again.
pub(super) fn survive(bench: &Bench<'_>) {
    let Some(mut engine) = capable(bench) else { return };
    let model = model();
    apply(&*engine, vec![create(1)]);
    apply(&model, vec![create(1)]);
    let mut random = Random::new(11);
    for round in 0..30u64 {
        let ops = (0..40).map(|_| add(1, format!("{:02}", random.below(60)), random.below(9) as i64 - 4)).collect();
        let group = [batch(round + 2, ops)];
        engine.apply(&group).unwrap();
        engine.apply(&group).unwrap();
        model.apply(&group).unwrap();
        if round % 4 == 3 {
            engine.checkpoint().unwrap();
        }
        if round % 8 == 7 {
            engine = bench.crash(engine);
        }
        assert_same(&model, &*engine, 1..=1);
    }
}

pub(super) fn under_range_deletes(bench: &Bench<'_>) {
    let Some(engine) = capable(bench) else { return };
    let keys = ["a", "b", "c", "d"];
    let all = |number: i64| keys.iter().map(move |key| add(1, key, number));
    apply(&*engine, [create(1)].into_iter().chain(all(1)).collect());
    let held = engine.snapshot().unwrap();
    apply(&*engine, [delete_range(1, b"b", Some(b"d"))].into_iter().chain(all(10)).collect());
    assert_eq!(keys.map(|key| number(&*engine, key)), [Some(11), Some(10), Some(10), Some(11)]);
    apply(&*engine, vec![drop_tree(1), create(1), add(1, "a", 5)]);
    assert_eq!(keys.map(|key| number(&*engine, key)), [Some(5), None, None, None]);
    for key in keys {
        assert_eq!(held.get(TreeId(1), key.as_bytes()).unwrap().unwrap().as_ref(), 1i64.to_le_bytes());
    }
}

pub(super) fn are_refused_without_a_function(bench: &Bench<'_>) {
    let engine = bench.open();
    if engine.capabilities().update_messages {
        return;
    }
    apply(&*engine, vec![create(1)]);
    assert!(engine.apply(&[batch(2, vec![put(1, "a", "1"), add(1, "b", 1)])]).is_err());
    assert_eq!((engine.applied(), get(&*engine, 1, "a")), (Position(1), None));
}
