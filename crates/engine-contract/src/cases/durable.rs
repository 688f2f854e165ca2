use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arbor_base::{Position, TreeId};

use crate::Bench;
use crate::bench::{apply, create, drop_tree, get, put, rows_of};
use arbor_engine::Error;

pub(super) fn a_checkpoint_survives(bench: &Bench<'_>) {
    let mut engine = bench.open();
    for round in 0..5u64 {
        apply(&*engine, vec![create(round), put(round, "key", round.to_string())]);
        apply(&*engine, vec![put(0, "round", round.to_string())]);
        if round == 3 {
            apply(&*engine, vec![drop_tree(1)]);
        }
        let applied = engine.applied();
        assert_eq!((engine.checkpoint().unwrap(), engine.durable()), (applied, applied));
        engine = bench.crash_with(engine, round);
        assert_eq!((engine.applied(), engine.durable()), (applied, applied));
        assert_eq!(engine.snapshot().unwrap().position(), applied);
        assert_eq!(get(&*engine, 0, "round"), Some(round.to_string().into()));
        for tree in (0..=round).filter(|tree| !(*tree == 1 && round >= 3)) {
            assert_eq!(get(&*engine, tree, "key"), Some(tree.to_string().into()));
        }
    }
    assert!(rows_of(&*engine.snapshot().unwrap(), TreeId(1)).is_none());
}

/// Batch n puts key n. Whatever survives is a prefix that the engine names, at or after the last checkpoint.
pub(super) fn a_crash_shows_a_prefix(bench: &Bench<'_>) {
    let mut engine = bench.open();
    apply(&*engine, vec![create(1)]);
    engine.checkpoint().unwrap();
    for round in 0..12u64 {
        for _ in 0..round * 3 {
            let position = engine.applied().next().0;
            apply(&*engine, vec![put(1, position.to_be_bytes(), vec![round as u8; 300])]);
            if position % 10 == 7 {
                engine.checkpoint().unwrap();
            }
        }
        let (applied, durable) = (engine.applied(), engine.durable());
        engine = bench.crash_with(engine, round);
        assert!((durable..=applied).contains(&engine.applied()), "{durable} {} {applied}", engine.applied());
        let rows = rows_of(&*engine.snapshot().unwrap(), TreeId(1)).unwrap();
        let keys: Vec<_> = rows.into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = (2..=engine.applied().0).map(|n| n.to_be_bytes().to_vec()).collect();
        assert_eq!(keys, expected);
    }
}

/// The barrier is asked for each state that becomes durable, and its refusal keeps the checkpoint before.
pub(super) fn no_state_before_its_log(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1), put(1, "a", "1")]);
    engine.checkpoint().unwrap();
    let log_end = Arc::new(AtomicU64::new(1));
    let barrier_end = log_end.clone();
    engine.set_barrier(Arc::new(move |position| match barrier_end.load(Ordering::Relaxed) >= position.0 {
        true => Ok(()),
        false => Err(Error::Other("the log is behind".to_owned())),
    }));
    apply(&*engine, vec![put(1, "a", "2")]);
    assert!(engine.checkpoint().is_err());
    assert_eq!(engine.durable(), Position(1));
    apply(&*engine, vec![put(1, "a", "3")]);
    log_end.store(3, Ordering::Relaxed);
    assert_eq!(engine.checkpoint().unwrap(), Position(3));
    apply(&*engine, vec![put(1, "a", "4")]);
    assert!(engine.checkpoint().is_err());
    let engine = bench.crash(engine);
    assert_eq!((engine.applied(), get(&*engine, 1, "a")), (Position(3), Some(b"3".into())));
}

pub(super) fn checkpoints_during_writes(bench: &Bench<'_>) {
    let engine = bench.open();
    apply(&*engine, vec![create(1)]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Position::ZERO;
            while last == Position::ZERO || !stop.load(Ordering::Relaxed) {
                let before = engine.applied();
                let durable = engine.checkpoint().unwrap();
                assert!(durable >= before && durable >= last && engine.durable() >= durable);
                last = durable;
            }
        });
        for n in 0..300u64 {
            apply(&*engine, vec![put(1, n.to_be_bytes(), vec![n as u8; 200])]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let durable = engine.durable();
    let engine = bench.crash(engine);
    assert!(engine.applied() >= durable);
    let rows = rows_of(&*engine.snapshot().unwrap(), TreeId(1)).unwrap();
    assert_eq!(rows.len() as u64, engine.applied().0 - 1);
}
