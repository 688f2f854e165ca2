//! A snapshot: RocksDB's own, with the trees of its moment.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, Error, RangeEstimate, Result, Snapshot};

use crate::cursor::RocksCursor;
use crate::estimate::{self, Expansion};
use crate::published::{Published, State};
use crate::raw::{Db, RawSnapshot};
use crate::records::Tree;

/// Keeps the database open, so it may outlive the engine.
pub(crate) struct RocksSnapshot {
    raw: RawSnapshot,
    state: Arc<State>,
    published: Arc<Published>,
    expansion: Arc<Expansion>,
}

impl RocksSnapshot {
    pub(crate) fn new(db: &Arc<Db>, published: &Arc<Published>, expansion: &Arc<Expansion>) -> Result<RocksSnapshot> {
        let (raw, state) = published.hold(db)?;
        Ok(RocksSnapshot { raw, state, published: published.clone(), expansion: expansion.clone() })
    }

    fn tree(&self, tree: TreeId) -> Result<&Tree> {
        self.state.trees.get(&tree).map(Arc::as_ref).ok_or(Error::UnknownTree(tree))
    }
}

impl Drop for RocksSnapshot {
    fn drop(&mut self) {
        self.published.release(self.state.generation);
    }
}

impl Snapshot for RocksSnapshot {
    fn position(&self) -> Position {
        self.state.position
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let row = self.tree(tree)?.content.row(key);
        Ok(self.raw.db.get(&row, Some(&self.raw))?.map(Cow::Owned))
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        let content = self.tree(tree)?.content;
        Ok(Box::new(RocksCursor::new(self.raw.db.rows(content, Some(&self.raw))?)))
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        estimate::of_range(&self.raw, &self.expansion, self.tree(tree)?, from, to)
    }
}
