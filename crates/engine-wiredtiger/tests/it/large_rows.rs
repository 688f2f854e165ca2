//! Rows that are a large part of the cache.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use arbor_base::{Random, TreeId};
use arbor_engine::{Batch, Cursor, Engine, Op, TreeOptions};
use arbor_engine_wiredtiger::{WiredTigerEngine, WiredTigerOptions};

const LARGE: TreeId = TreeId(1);
const MIXED: TreeId = TreeId(2);
const ROWS: u8 = 6;

fn value(tree: TreeId, n: u8) -> Vec<u8> {
    let bytes = if tree == MIXED && n.is_multiple_of(2) { 100 } else { 12_000_000 };
    Random::new(n.into()).bytes(bytes)
}

/// Runs a function that hangs where there is a mistake.
fn within_a_minute(run: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _ended = ended;
        run();
    });
    assert!(end.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Disconnected), "a read does not end");
    thread.join().unwrap();
}

/// Moves a cursor that is on a row over all rows behind it, then over all rows backward.
fn walk(cursor: &mut dyn Cursor, tree: TreeId, from: u8) {
    assert!(cursor.key() == [from] && cursor.value() == value(tree, from));
    for after in from + 1..ROWS {
        assert!(cursor.next().unwrap() && cursor.key() == [after] && cursor.value() == value(tree, after));
    }
    assert!(!cursor.next().unwrap() && !cursor.prev().unwrap(), "behind the end there is no position");
    assert!(cursor.last().unwrap());
    for before in (0..ROWS - 1).rev() {
        assert!(cursor.prev().unwrap() && cursor.key() == [before] && cursor.value() == value(tree, before));
    }
    assert!(!cursor.prev().unwrap() && !cursor.next().unwrap());
}

#[test]
fn cursors_at_large_rows_leave_room_for_others() {
    within_a_minute(|| {
        let scratch = tempfile::tempdir().unwrap();
        let config_string = "checkpoint_sync=false".to_owned();
        let options = WiredTigerOptions { cache_bytes: 32 << 20, config_string, ..WiredTigerOptions::default() };
        let engine = WiredTigerEngine::open(scratch.path(), options.clone()).unwrap();
        for tree in [LARGE, MIXED] {
            let mut ops = vec![Op::CreateTree { tree, options: TreeOptions::default() }];
            for n in 0..ROWS {
                ops.push(Op::Put { tree, key: vec![n], value: value(tree, n) });
                engine.apply(&[Batch { position: engine.applied().next(), ops: std::mem::take(&mut ops) }]).unwrap();
            }
        }
        engine.checkpoint().unwrap();
        drop(engine);

        let engine = WiredTigerEngine::open(scratch.path(), options).unwrap();
        let snapshots: Vec<_> = (0..ROWS).map(|_| engine.snapshot().unwrap()).collect();
        let mut cursors: Vec<_> = snapshots.iter().map(|snapshot| snapshot.cursor(LARGE).unwrap()).collect();
        for (n, cursor) in (0..ROWS).zip(&mut cursors) {
            assert!(cursor.seek(&[n]).unwrap());
        }
        for (n, cursor) in (0..ROWS).zip(&mut cursors) {
            walk(&mut **cursor, LARGE, n);
            assert!(cursor.seek(&[n]).unwrap());
        }
        let mut mixed = snapshots[0].cursor(MIXED).unwrap();
        assert!(mixed.first().unwrap());
        walk(&mut *mixed, MIXED, 0);
        assert_eq!(engine.parameter("cacheBytes").unwrap(), (32 << 20).to_string());
    });
}
