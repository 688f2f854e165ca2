//! The engine trait's snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::memory::values;
use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, RangeEstimate, Snapshot};

use super::{Got, Reader, TreeCursor, estimate, get};
use crate::core::Core;
use crate::snapshots::{Registered, SHARDS, own_shard};
use crate::tree::Tree;
use crate::{Error, Result};

/// Handles of one forest, one for each shard of threads: threads that make snapshots count in different places.
pub struct Handles {
    shards: Box<[Arc<Shard>]>,
}

/// Target of the references that the snapshots of one shard count.
struct Shard {
    core: Arc<Core>,
}

impl Handles {
    pub fn new(core: &Arc<Core>) -> Handles {
        Handles { shards: (0..SHARDS).map(|_| Arc::new(Shard { core: core.clone() })).collect() }
    }

    pub fn snapshot(&self) -> ForestSnapshot {
        let shard = self.shards.get(own_shard()).expect("threads have shards below SHARDS").clone();
        ForestSnapshot { registered: shard.core.snapshots.register(&shard.core.visible), shard }
    }
}

/// A registered sequence number, and the forest, which it keeps open.
pub struct ForestSnapshot {
    registered: Registered,
    shard: Arc<Shard>,
}

impl ForestSnapshot {
    fn reader(&self) -> Reader<'_> {
        let core = &self.shard.core;
        Reader {
            io: &core.io,
            updates: core.options.updates.as_deref(),
            at: self.registered.seq(),
            snapshots: &core.snapshots,
            visible: &core.visible,
        }
    }

    /// The incarnation that this snapshot sees.
    fn with_tree<R>(&self, id: TreeId, see: impl FnOnce(&Arc<Tree>) -> Result<R>) -> Result<R> {
        self.shard.core.trees.with(id, self.registered.seq(), see).unwrap_or(Err(Error::UnknownTree(id)))
    }
}

impl Snapshot for ForestSnapshot {
    fn position(&self) -> Position {
        self.registered.seq().position()
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        loop {
            match self.with_tree(tree, |tree| get(&tree.version_to_read(), &self.reader(), key))? {
                Got::Row(value) => return Ok(value.map(Cow::Owned)),
                Got::TooLarge(bytes) => values::before_value(bytes),
            }
        }
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        self.with_tree(tree, |tree| Ok(Box::new(TreeCursor::new(self.reader(), tree.clone())) as Box<dyn Cursor + '_>))
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        self.with_tree(tree, |tree| estimate(self.reader(), tree, from, to))
    }
}
