//! Batches, bulk loads, drops, checkpoints and readers at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_engine_contract::{Scratch, rows_of};
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};

/// Batch n puts key n here, so that the rows give the position.
const MAIN: TreeId = TreeId(1);
const LOADS: u64 = 12;
const LOADED_ROWS: u32 = 3000;

fn options() -> LmdbOptions {
    // Checkpoints by freed pages come all the time.
    LmdbOptions { freed_bytes_max: 512 << 10, ..LmdbOptions::default() }
}

/// Applies batches in turn, from whatever thread.
struct Writer<'e> {
    engine: &'e LmdbEngine,
    turn: std::sync::Mutex<()>,
}

impl Writer<'_> {
    fn apply(&self, mut ops: Vec<Op>) {
        let _turn = self.turn.lock().unwrap();
        let position = self.engine.applied().next();
        ops.push(Op::Put { tree: MAIN, key: position.0.to_be_bytes().to_vec(), value: vec![position.0 as u8; 150] });
        self.engine.apply(&[Batch { position, ops }]).unwrap();
    }
}

fn check_prefix(engine: &LmdbEngine) {
    let snapshot = engine.snapshot().unwrap();
    let rows = rows_of(&*snapshot, MAIN).unwrap();
    let keys: Vec<u64> = rows.iter().map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())).collect();
    assert_eq!(keys, (1..=snapshot.position().0).collect::<Vec<_>>());
}

#[test]
fn everything_at_once() {
    let scratch = Scratch::in_memory();
    let engine = LmdbEngine::open(scratch.path(), options()).unwrap();
    let logged = Arc::new(AtomicU64::new(0));
    let barrier_logged = logged.clone();
    engine.set_barrier(Arc::new(move |position| {
        barrier_logged.fetch_max(position.0, Ordering::SeqCst);
        Ok(())
    }));
    let create = |tree| Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() };
    let writer = Writer { engine: &engine, turn: std::sync::Mutex::new(()) };
    writer.apply(vec![create(1)]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    check_prefix(&engine);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                writer.apply(vec![]);
            }
        });
        for load in 0..LOADS {
            let tree = 10 + load;
            writer.apply(vec![create(tree)]);
            let mut rows = (0..LOADED_ROWS).map(|n| (n.to_be_bytes().to_vec(), vec![load as u8; 100]));
            engine.bulk_load(TreeId(tree), &mut rows).unwrap();
            assert_eq!(rows_of(&*engine.snapshot().unwrap(), TreeId(tree)).unwrap().len(), LOADED_ROWS as usize);
            if load % 3 == 0 {
                writer.apply(vec![Op::DropTree { tree: TreeId(tree) }]);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stats = engine.stats().unwrap();
    let counter = |name| stats.counters.iter().find(|(counter, _)| *counter == name).unwrap().1;
    assert!(counter("checkpoints") > 2, "{stats:?}");
    assert_eq!(counter("background errors"), 0);
    let applied = engine.applied();
    drop(engine);
    let engine = LmdbEngine::open(scratch.path(), options()).unwrap();
    assert!(engine.applied() > Position::ZERO && engine.applied() <= applied);
    assert!(engine.applied().0 <= logged.load(Ordering::SeqCst), "a state became durable before its log");
    check_prefix(&engine);
    for load in 0..LOADS {
        let rows = rows_of(&*engine.snapshot().unwrap(), TreeId(10 + load)).map_or(0, |rows| rows.len() as u32);
        assert!(rows == 0 || rows == LOADED_ROWS, "{rows}");
    }
}
