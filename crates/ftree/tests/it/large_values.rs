//! A statement that reads a large value reserves the memory for it first, wherever the value is.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_base::memory::values::{for_statement, take};
use arbor_base::memory::{Budget, Class};
use arbor_disk::RealDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};
use arbor_ftree::{Forest, Options};

const TREE: TreeId = TreeId(1);
const VALUE_BYTES: usize = 2 << 20;
const COPIES: usize = 3;

fn reserved_for(read: impl FnOnce()) -> usize {
    let budget = Box::leak(Box::new(Budget::unlimited()));
    budget.set_limit(1 << 30);
    for_statement(
        budget,
        COPIES,
        || true,
        || {
            read();
            let bytes = take().map_or(0, |reservation| reservation.bytes());
            assert_eq!(budget.held(Class::Batch), 0, "the statement holds no other");
            bytes
        },
    )
}

#[test]
fn values_in_memtables_and_in_extents_are_reserved_before_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(Arc::new(RealDisk), 256 << 20);
    options.memtable_bytes = 32 << 20;
    let forest = Forest::open(dir.path(), options).unwrap();
    let ops = vec![
        Op::CreateTree { tree: TREE, options: TreeOptions::default() },
        Op::Put { tree: TREE, key: b"large".to_vec(), value: vec![7; VALUE_BYTES] },
        Op::Put { tree: TREE, key: b"small".to_vec(), value: vec![7; 100] },
    ];
    forest.apply(&[Batch { position: forest.applied().next(), ops }]).unwrap();
    for place in ["memtable", "extent"] {
        let snapshot = forest.snapshot().unwrap();
        let get = |key: &[u8]| reserved_for(|| assert!(snapshot.get(TREE, key).unwrap().is_some()));
        assert_eq!((get(b"large"), get(b"small")), (COPIES * VALUE_BYTES, 0), "in a {place}");
        let scanned = reserved_for(|| {
            let mut cursor = snapshot.cursor(TREE).unwrap();
            assert!(cursor.first().unwrap() && cursor.value().len() == VALUE_BYTES);
        });
        assert!(scanned >= COPIES * VALUE_BYTES, "{scanned} bytes in a {place}");
        assert!(snapshot.get(TREE, b"large").unwrap().is_some(), "no statement, no memory to wait for");
        forest.checkpoint().unwrap();
        drop(snapshot);
        while forest.stats().unwrap().counters.iter().any(|(name, bytes)| *name == "memtable bytes" && *bytes > 0) {
            std::thread::yield_now();
        }
    }
    assert!(forest.stats().unwrap().counters.iter().any(|(name, bytes)| *name == "bytes read for blobs" && *bytes > 0));
}
