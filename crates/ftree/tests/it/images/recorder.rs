//! A forest that is watched.

use std::sync::Arc;
use std::time::Duration;

use arbor_base::{Position, TreeId};
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Result, Snapshot, TreeOptions, TreeStats,
};
use arbor_ftree::Forest;

use super::camera::Camera;
use super::states::{Row, States};

/// The forest, of which every change goes to the states as well.
pub(super) struct Recorder {
    pub forest: Arc<Forest>,
    pub states: Arc<States>,
    pub camera: Camera,
}

impl Recorder {
    /// Does the same again with all the space there is when the disk is full. Jobs of threads may find for a while that it was.
    fn with_room<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        const TRIES: u32 = 100;
        let mut done = work();
        for tried in 0..TRIES {
            if !matches!(done, Err(Error::OutOfSpace { .. })) {
                break;
            }
            if tried == 0 {
                self.camera.shoot("on a full disk");
                self.camera.disk().set_capacity(None);
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
            // Measures the free space again, and absorbs what waits for it.
            let io = &self.forest.core().io;
            io.space.return_all_space(&io.file)?;
            self.forest.checkpoint()?;
            done = work();
        }
        done
    }
}

impl Engine for Recorder {
    fn name(&self) -> &'static str {
        self.forest.name()
    }

    fn applied(&self) -> Position {
        self.forest.applied()
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.with_room(|| self.forest.apply(batches))?;
        for batch in batches {
            self.states.push(|state| state.apply(std::slice::from_ref(batch)));
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.forest.snapshot()
    }

    fn checkpoint(&self) -> Result<Position> {
        let durable = self.with_room(|| self.forest.checkpoint())?;
        self.camera.set_floor(self.states.newest());
        Ok(durable)
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.forest.set_barrier(barrier);
    }

    fn durable(&self) -> Position {
        self.forest.durable()
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = Row>) -> Result<()> {
        let rows: Vec<Row> = rows.collect();
        self.with_room(|| self.forest.bulk_load(tree, &mut rows.iter().cloned()))?;
        self.states.push(|state| state.bulk_load(tree, &mut rows.into_iter()));
        Ok(())
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        self.forest.check_options(options)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        self.forest.trees()
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.camera.shoot("before compaction");
        let freed = self.with_room(|| self.forest.compact(tree, stop))?;
        self.camera.shoot("after compaction");
        Ok(freed)
    }

    fn stats(&self) -> Result<EngineStats> {
        self.forest.stats()
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.forest.tree_stats(tree)
    }

    fn capabilities(&self) -> Capabilities {
        self.forest.capabilities()
    }
}
