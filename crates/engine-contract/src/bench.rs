//! Helpers of the cases: a scratch directory, short words for batches, comparison of two engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::{Position, TreeId};

use super::{Adder, Factory};
use arbor_engine::model::ModelEngine;
use arbor_engine::{Batch, Cursor, Engine, Error, Op, Snapshot, TreeOptions};

/// A directory that is removed at the end.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Scratch {
        Scratch::within(&std::env::temp_dir())
    }

    /// In memory where the system offers that: for little data and many syncs.
    pub fn in_memory() -> Scratch {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Scratch::within(memory) } else { Scratch::new() }
    }

    fn within(parent: &Path) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("arbor-contract-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory can be made");
        Scratch { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// One case's engine maker and directory.
pub struct Bench<'f> {
    factory: &'f dyn Factory,
    scratch: Scratch,
}

impl<'f> Bench<'f> {
    pub fn new(factory: &'f dyn Factory) -> Bench<'f> {
        Bench { factory, scratch: Scratch::new() }
    }

    pub fn open(&self) -> Box<dyn Engine> {
        self.factory.open(self.scratch.path())
    }

    pub fn crash(&self, engine: Box<dyn Engine>) -> Box<dyn Engine> {
        self.crash_with(engine, 0)
    }

    pub fn crash_with(&self, engine: Box<dyn Engine>, seed: u64) -> Box<dyn Engine> {
        self.factory.crash(engine, self.scratch.path(), seed)
    }
}

pub(super) fn batch(position: u64, ops: Vec<Op>) -> Batch {
    Batch { position: Position(position), ops }
}

pub(super) fn create(tree: u64) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() }
}

pub(super) fn drop_tree(tree: u64) -> Op {
    Op::DropTree { tree: TreeId(tree) }
}

pub(super) fn put(tree: u64, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Op {
    Op::Put { tree: TreeId(tree), key: key.as_ref().to_vec(), value: value.as_ref().to_vec() }
}

/// A message for [`Adder`](super::Adder).
pub(super) fn add(tree: u64, key: impl AsRef<[u8]>, number: i64) -> Op {
    Op::Update { tree: TreeId(tree), key: key.as_ref().to_vec(), update: number.to_le_bytes().to_vec() }
}

pub(super) fn delete(tree: u64, key: impl AsRef<[u8]>) -> Op {
    Op::Delete { tree: TreeId(tree), key: key.as_ref().to_vec() }
}

pub(super) fn delete_range(tree: u64, from: &[u8], to: Option<&[u8]>) -> Op {
    Op::DeleteRange { tree: TreeId(tree), from: from.to_vec(), to: to.map(<[u8]>::to_vec) }
}

/// The model that every engine is compared with.
pub(super) fn model() -> ModelEngine {
    ModelEngine::with_updates(Arc::new(Adder))
}

/// Applies one batch after all others.
pub(super) fn apply(engine: &dyn Engine, ops: Vec<Op>) {
    let position = engine.applied().next().0;
    engine.apply(&[batch(position, ops)]).expect("the batch applies");
    assert_eq!(engine.applied(), Position(position));
}

pub(super) fn get(engine: &dyn Engine, tree: u64, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    let snapshot = engine.snapshot().expect("a snapshot");
    let value = snapshot.get(TreeId(tree), key.as_ref()).expect("get answers");
    value.map(|value| value.into_owned())
}

pub(super) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// All rows of a tree, read forward; `None` if there is no such tree. Checks that reading backward and the order agree.
pub fn rows_of(snapshot: &dyn Snapshot, tree: TreeId) -> Option<Rows> {
    let mut cursor = match snapshot.cursor(tree) {
        Err(Error::UnknownTree(unknown)) if unknown == tree => return None,
        cursor => cursor.expect("a cursor"),
    };
    let row = |cursor: &dyn Cursor| (cursor.key().to_vec(), cursor.value().to_vec());
    let mut rows = Vec::new();
    let mut more = cursor.first().expect("first answers");
    while more {
        rows.push(row(&*cursor));
        more = cursor.next().expect("next answers");
    }
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "keys rise strictly in {tree:?}");
    let mut more = cursor.last().expect("last answers");
    for expected in rows.iter().rev() {
        assert!(more && row(&*cursor) == *expected, "backward reading differs in {tree:?}");
        more = cursor.prev().expect("prev answers");
    }
    assert!(!more, "backward reading finds more in {tree:?}");
    Some(rows)
}

/// Both engines show the same position, trees, rows and, where they are exact, counts.
pub fn assert_same(model: &dyn Engine, engine: &dyn Engine, trees: impl Iterator<Item = u64>) {
    let (left, right) = (model.snapshot().expect("a snapshot"), engine.snapshot().expect("a snapshot"));
    assert_eq!(left.position(), right.position(), "position");
    for tree in trees.map(TreeId) {
        assert_same_rows(&*left, &*right, tree);
        match (model.tree_stats(tree), engine.tree_stats(tree)) {
            (Ok(_), Ok(_)) if !engine.capabilities().exact_counts => {}
            (Ok(left), Ok(right)) => {
                assert_eq!((left.keys, left.data_bytes), (right.keys, right.data_bytes), "counts of {tree:?}");
            }
            (Err(Error::UnknownTree(_)), Err(Error::UnknownTree(_))) => {}
            (left, right) => panic!("tree_stats of {tree:?}: {left:?} against {right:?}"),
        }
    }
}

pub(super) fn assert_same_rows(model: &dyn Snapshot, engine: &dyn Snapshot, tree: TreeId) {
    let (left, right) = (rows_of(model, tree), rows_of(engine, tree));
    if left == right {
        return;
    }
    let (Some(left), Some(right)) = (&left, &right) else {
        panic!("{tree:?} exists: {} against {}", left.is_some(), right.is_some());
    };
    let at = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let key = |rows: &Rows| rows.get(at).map(|(key, value)| format!("{:?} with {} bytes", Short(key), value.len()));
    panic!(
        "{tree:?} differs at row {at} (of {} and {}): {:?} against {:?}",
        left.len(),
        right.len(),
        key(left),
        key(right)
    );
}

/// A key in few characters.
struct Short<'a>(&'a [u8]);

impl std::fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tail = &self.0[self.0.len().saturating_sub(8)..];
        write!(f, "{} bytes ending {tail:?}", self.0.len())
    }
}
