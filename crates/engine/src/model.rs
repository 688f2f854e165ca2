//! The reference engine: ordered maps in memory, small enough to be right by reading it.
//!
//! Each tree is an `Arc` of a map. A snapshot holds the `Arc`s of its moment; `apply` copies a map before it changes one
//! that a snapshot still holds. Durability is played: [`ModelEngine::checkpoint`](Engine::checkpoint) keeps the state of
//! that moment and [`ModelEngine::crash`] opens a new engine on it.
//!
//! Other crates test against it, and the contract suite compares every real engine with it.

mod cursor;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use parking_lot::Mutex;

use self::snapshot::ModelSnapshot;
use crate::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Op, Result, Snapshot, TreeStats, UpdateFunction, limits,
};

type Rows = BTreeMap<Arc<[u8]>, Arc<[u8]>>;

/// One state of all trees: what a snapshot shows, what a checkpoint keeps. Cloning it is cheap.
#[derive(Clone, Default)]
struct State {
    position: Position,
    trees: Arc<BTreeMap<TreeId, Arc<Rows>>>,
}

#[derive(Default)]
struct Inner {
    current: State,
    checkpointed: State,
    barrier: Option<Barrier>,
    fail_next: Option<Error>,
    poisoned: bool,
    snapshots_taken: u64,
}

/// See the module.
#[derive(Default)]
pub struct ModelEngine {
    updates: Option<Arc<dyn UpdateFunction>>,
    held_snapshot_bytes_max: Option<u64>,
    inner: Mutex<Inner>,
}

impl ModelEngine {
    /// An empty engine, nothing applied.
    pub fn new() -> ModelEngine {
        ModelEngine::default()
    }

    /// An empty engine that takes update messages.
    pub fn with_updates(updates: Arc<dyn UpdateFunction>) -> ModelEngine {
        ModelEngine { updates: Some(updates), ..ModelEngine::default() }
    }

    /// An empty engine whose held snapshots are said to take memory (see [`Capabilities::held_snapshot_bytes_max`]).
    pub fn with_costly_snapshots(held_snapshot_bytes_max: u64) -> ModelEngine {
        ModelEngine { held_snapshot_bytes_max: Some(held_snapshot_bytes_max), ..ModelEngine::default() }
    }

    /// The engine as it reopens after a crash of this one: at its last checkpoint.
    pub fn crash(&self) -> ModelEngine {
        self.at(self.inner.lock().checkpointed.clone())
    }

    /// The engine as it reopens after a clean shutdown of this one: with everything that was applied.
    pub fn reopen(&self) -> ModelEngine {
        self.at(self.inner.lock().current.clone())
    }

    /// The engine as it reopens after only the process died: with everything that was applied, of which no more than the
    /// last checkpoint survives a power failure.
    pub fn kill_process(&self) -> ModelEngine {
        let inner = self.inner.lock();
        let killed = self.at(inner.current.clone());
        killed.inner.lock().checkpointed = inner.checkpointed.clone();
        killed
    }

    /// The next call of `apply` changes nothing and returns this error. [`Error::Poisoned`] lasts, as in a real engine.
    pub fn fail_next_apply(&self, error: Error) {
        self.inner.lock().fail_next = Some(error);
    }

    /// Returns how many snapshots were taken: each transaction takes one.
    pub fn snapshots_taken(&self) -> u64 {
        self.inner.lock().snapshots_taken
    }

    fn at(&self, state: State) -> ModelEngine {
        let inner = Inner { current: state.clone(), checkpointed: state, ..Inner::default() };
        let (updates, inner) = (self.updates.clone(), Mutex::new(inner));
        ModelEngine { updates, inner, held_snapshot_bytes_max: self.held_snapshot_bytes_max }
    }
}

impl Engine for ModelEngine {
    fn name(&self) -> &'static str {
        "model"
    }

    fn applied(&self) -> Position {
        self.inner.lock().current.position
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        let mut inner = self.inner.lock();
        if let Some(error) = inner.fail_next.take() {
            inner.poisoned = matches!(error, Error::Poisoned { .. });
            return Err(error);
        }
        if inner.poisoned {
            return Err(Error::Poisoned { context: "an earlier apply failed".to_owned() });
        }
        let mut state = inner.current.clone();
        for batch in batches {
            state.apply(batch, self.updates.as_deref())?;
        }
        inner.current = state;
        Ok(())
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let mut inner = self.inner.lock();
        inner.snapshots_taken += 1;
        Ok(Arc::new(ModelSnapshot::new(inner.current.clone())))
    }

    fn checkpoint(&self) -> Result<Position> {
        let (state, barrier) = {
            let inner = self.inner.lock();
            (inner.current.clone(), inner.barrier.clone())
        };
        let position = state.position;
        if let Some(barrier) = barrier {
            barrier(position)?;
        }
        let mut inner = self.inner.lock();
        // Another thread's checkpoint may have overtaken this one.
        if inner.checkpointed.position <= position {
            inner.checkpointed = state;
        }
        Ok(position)
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.inner.lock().barrier = Some(barrier);
    }

    fn durable(&self) -> Position {
        self.inner.lock().checkpointed.position
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        let mut loaded = Rows::new();
        for (key, value) in rows {
            limits::check_row(&key, &value)?;
            limits::check_ascending(loaded.last_key_value().map(|(last, _)| &**last), &key)?;
            loaded.insert(key.into(), value.into());
        }
        let mut inner = self.inner.lock();
        let mut state = inner.current.clone();
        let target = state.rows_mut(tree)?;
        limits::check_empty(tree, target.len() as u64)?;
        *target = loaded;
        inner.current = state;
        Ok(())
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        Ok(self.inner.lock().current.trees.keys().copied().collect())
    }

    fn stats(&self) -> Result<EngineStats> {
        let trees = self.inner.lock().current.trees.clone();
        let bytes = trees.values().map(|rows| bytes_of(rows)).sum();
        let counters = vec![("trees", trees.len() as u64)];
        Ok(EngineStats { disk_bytes: bytes, free_bytes: 0, cache_bytes: bytes, counters })
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        let rows = self.inner.lock().current.rows(tree)?.clone();
        let bytes = bytes_of(&rows);
        Ok(TreeStats { keys: rows.len() as u64, data_bytes: bytes, disk_bytes: bytes, free_bytes: 0 })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            update_messages: self.updates.is_some(),
            exact_counts: true,
            held_snapshots_keep_space: false,
            held_snapshot_bytes_max: self.held_snapshot_bytes_max,
            cheap_range_delete: false,
            compression: &[],
        }
    }
}

impl State {
    fn apply(&mut self, batch: &Batch, updates: Option<&dyn UpdateFunction>) -> Result<()> {
        if batch.position <= self.position {
            return Ok(());
        }
        for op in &batch.ops {
            self.change(op, updates)?;
        }
        self.position = batch.position;
        Ok(())
    }

    fn change(&mut self, op: &Op, updates: Option<&dyn UpdateFunction>) -> Result<()> {
        match op {
            Op::CreateTree { tree, options } => {
                options.check_names("model", &[])?;
                Arc::make_mut(&mut self.trees).entry(*tree).or_default();
            }
            Op::DropTree { tree } => {
                Arc::make_mut(&mut self.trees).remove(tree);
            }
            Op::Put { tree, key, value } => {
                limits::check_row(key, value)?;
                self.rows_mut(*tree)?.insert(key.as_slice().into(), value.as_slice().into());
            }
            Op::Update { tree, key, update } => {
                limits::check_row(key, update)?;
                let updates = updates.ok_or_else(|| Error::no_updates("model"))?;
                let rows = self.rows_mut(*tree)?;
                match updates.apply(key, rows.get(key.as_slice()).map(|value| &**value), update) {
                    Some(value) => rows.insert(key.as_slice().into(), value.into()),
                    None => rows.remove(key.as_slice()),
                };
            }
            Op::Delete { tree, key } => {
                self.rows_mut(*tree)?.remove(key.as_slice());
            }
            Op::DeleteRange { tree, from, to } => {
                let inside = |key: &[u8]| key >= from.as_slice() && to.as_ref().is_none_or(|to| key < to.as_slice());
                self.rows_mut(*tree)?.retain(|key, _| !inside(key));
            }
        }
        Ok(())
    }

    fn rows(&self, tree: TreeId) -> Result<&Arc<Rows>> {
        self.trees.get(&tree).ok_or(Error::UnknownTree(tree))
    }

    fn rows_mut(&mut self, tree: TreeId) -> Result<&mut Rows> {
        Arc::make_mut(&mut self.trees).get_mut(&tree).map(Arc::make_mut).ok_or(Error::UnknownTree(tree))
    }
}

fn bytes_of(rows: &Rows) -> u64 {
    rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TreeOptions;

    const TREE: TreeId = TreeId(1);

    fn batch(position: u64, ops: Vec<Op>) -> Batch {
        Batch { position: Position(position), ops }
    }

    fn put(key: &str, value: &str) -> Op {
        Op::Put { tree: TREE, key: key.into(), value: value.into() }
    }

    fn value(engine: &ModelEngine, key: &str) -> Option<Vec<u8>> {
        let snapshot = engine.snapshot().unwrap();
        snapshot.get(TREE, key.as_bytes()).unwrap().map(|value| value.into_owned())
    }

    #[test]
    fn a_crash_goes_back_to_the_checkpoint() {
        let engine = ModelEngine::new();
        let create = Op::CreateTree { tree: TREE, options: TreeOptions::default() };
        engine.apply(&[batch(1, vec![create, put("a", "1")])]).unwrap();
        assert_eq!(engine.checkpoint().unwrap(), Position(1));
        engine.apply(&[batch(2, vec![put("a", "2")])]).unwrap();
        assert_eq!(value(&engine, "a"), Some(b"2".to_vec()));
        let crashed = engine.crash();
        assert_eq!((crashed.applied(), value(&crashed, "a")), (Position(1), Some(b"1".to_vec())));
        let reopened = engine.reopen();
        assert_eq!((reopened.applied(), value(&reopened, "a")), (Position(2), Some(b"2".to_vec())));
    }

    #[test]
    fn a_failed_apply_changes_nothing() {
        let engine = ModelEngine::new();
        let create = Op::CreateTree { tree: TREE, options: TreeOptions::default() };
        let unknown = Op::Delete { tree: TreeId(9), key: vec![] };
        assert!(matches!(engine.apply(&[batch(1, vec![create.clone(), unknown])]), Err(Error::UnknownTree(TreeId(9)))));
        assert!(engine.snapshot().unwrap().get(TREE, b"a").is_err());
        engine.fail_next_apply(Error::OutOfSpace { context: "test".to_owned() });
        assert!(engine.apply(&[batch(1, vec![create.clone()])]).is_err());
        engine.apply(&[batch(1, vec![create])]).unwrap();
        engine.fail_next_apply(Error::Poisoned { context: "test".to_owned() });
        assert!(engine.apply(&[batch(2, vec![])]).is_err());
        assert!(matches!(engine.apply(&[batch(2, vec![])]), Err(Error::Poisoned { .. })));
    }
}
