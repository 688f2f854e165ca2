//! Kinds of engines for tests, and a set whose trees are spread over its members.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arbor_base::{Position, TreeId};
use arbor_disk::RealDisk;
use arbor_engine::model::ModelEngine;
use arbor_engine::{Barrier, Batch, Capabilities, Engine, EngineStats, Op, Result, Snapshot, TreeOptions, TreeStats};
use arbor_engine_contract::Adder;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use arbor_engine_set::{EngineSet, Kind};
use arbor_ftree::{Forest, Options};

/// Model engines by directory: opening goes back to the checkpoint, as after a crash.
#[derive(Clone, Default)]
pub(crate) struct Models(Arc<Mutex<HashMap<PathBuf, Arc<ModelEngine>>>>);

impl Models {
    pub(crate) fn kind(&self, name: &'static str) -> Kind {
        let own = self.clone();
        Kind::new(name, move |directory| Ok(own.open(directory)))
    }

    pub(crate) fn open(&self, directory: &Path) -> Arc<ModelEngine> {
        let mut engines = self.0.lock().unwrap();
        let new = || ModelEngine::with_updates(Arc::new(Adder));
        let engine = Arc::new(engines.get(directory).map_or_else(new, |engine| engine.crash()));
        std::fs::create_dir_all(directory).unwrap();
        engines.insert(directory.to_owned(), engine.clone());
        engine
    }

    /// The engine that was opened last in a directory.
    pub(crate) fn last(&self, directory: &Path) -> Arc<ModelEngine> {
        self.0.lock().unwrap()[directory].clone()
    }
}

pub(crate) fn ftree() -> Kind {
    Kind::new("ftree", |directory| {
        let mut options = Options::new(Arc::new(RealDisk), 32 << 20);
        options.threads = 1;
        options.updates = Some(Arc::new(Adder));
        std::fs::create_dir_all(directory).unwrap();
        Ok(Arc::new(Forest::open(directory, options)?))
    })
}

pub(crate) fn lmdb() -> Kind {
    Kind::new("lmdb", |directory| {
        let options = LmdbOptions { updates: Some(Arc::new(Adder)), ..LmdbOptions::default() };
        Ok(Arc::new(LmdbEngine::open(directory, options)?))
    })
}

pub(crate) fn create_in(tree: u64, engine: &str) -> Op {
    Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default().with_engine(engine) }
}

pub(crate) fn put(tree: u64, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Op {
    Op::Put { tree: TreeId(tree), key: key.as_ref().to_vec(), value: value.as_ref().to_vec() }
}

/// The applied batches, as the log would have them.
pub(crate) type Records = Arc<Mutex<Vec<Batch>>>;

/// A set that puts each new tree where its id says, and keeps what it applied.
pub(crate) struct Spread {
    pub set: EngineSet,
    pub names: Vec<&'static str>,
    pub records: Records,
}

impl Spread {
    /// Replays what some member has, as recovery does: only then is the state one that was.
    pub(crate) fn open(set: EngineSet, names: Vec<&'static str>, records: Records) -> Spread {
        let end = set.applied_in_part();
        {
            let mut records = records.lock().unwrap();
            records.retain(|batch| batch.position <= end);
            let behind: Vec<Batch> = records.iter().filter(|batch| batch.position > set.applied()).cloned().collect();
            behind.chunks(3).for_each(|group| set.apply(group).unwrap());
        }
        assert_eq!(set.applied(), end);
        Spread { set, names, records }
    }

    fn placed(&self, batches: &[Batch]) -> Vec<Batch> {
        let place = |op: &Op| match op {
            Op::CreateTree { tree, options } => {
                let name = self.names[(tree.0 % self.names.len() as u64) as usize];
                Op::CreateTree { tree: *tree, options: options.clone().with_engine(name) }
            }
            op => op.clone(),
        };
        let batch = |batch: &Batch| Batch { position: batch.position, ops: batch.ops.iter().map(place).collect() };
        batches.iter().map(batch).collect()
    }
}

impl Engine for Spread {
    fn name(&self) -> &'static str {
        self.set.name()
    }
    fn applied(&self) -> Position {
        self.set.applied()
    }
    fn apply(&self, batches: &[Batch]) -> Result<()> {
        let placed = self.placed(batches);
        let applied = self.set.applied();
        self.set.apply(&placed)?;
        self.records.lock().unwrap().extend(placed.into_iter().filter(|batch| batch.position > applied));
        Ok(())
    }
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.set.snapshot()
    }
    fn checkpoint(&self) -> Result<Position> {
        self.set.checkpoint()
    }
    fn set_barrier(&self, barrier: Barrier) {
        self.set.set_barrier(barrier)
    }
    fn durable(&self) -> Position {
        self.set.durable()
    }
    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.set.bulk_load(tree, rows)
    }
    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        self.set.check_options(options)
    }
    fn trees(&self) -> Result<Vec<TreeId>> {
        self.set.trees()
    }
    fn stats(&self) -> Result<EngineStats> {
        self.set.stats()
    }
    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.set.tree_stats(tree)
    }
    fn capabilities(&self) -> Capabilities {
        self.set.capabilities()
    }
    fn validate(&self) {
        self.set.validate();
    }
}
