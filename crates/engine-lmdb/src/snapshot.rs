//! A snapshot is an LMDB read transaction.

use std::borrow::Cow;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, Error, RangeEstimate, Result, Snapshot};
use parking_lot::Mutex;

use crate::cursor::LmdbCursor;
use crate::estimate;
use crate::keys::Content;
use crate::positions::Positions;
use crate::readers::{Reader, Readers};
use crate::{records, rows};

const TRIES_MAX: usize = 10_000;

pub(crate) struct LmdbSnapshot {
    reader: Reader,
    position: Position,
    /// The tree that was asked for last: most snapshots read one or two trees.
    recent: Mutex<Option<(TreeId, Content)>>,
}

impl LmdbSnapshot {
    /// Opens a snapshot of the newest state.
    pub(crate) fn new(readers: &Readers, positions: &Positions) -> Result<LmdbSnapshot> {
        for _ in 0..TRIES_MAX {
            let reader = readers.reader()?;
            if let Some(position) = reader.last_position().or_else(|| positions.of(reader.txn().id())) {
                return Ok(LmdbSnapshot { reader, position, recent: Mutex::new(None) });
            }
            // The writer is noting this position, or this thread was held up for two commits or many.
            std::thread::yield_now();
        }
        Err(Error::Other("no position is known for the newest state".to_owned()))
    }

    fn content(&self, tree: TreeId) -> Result<Content> {
        let mut recent = self.recent.lock();
        if let Some((_, content)) = recent.filter(|(recent, _)| *recent == tree) {
            return Ok(content);
        }
        let content = records::tree(self.reader.txn(), tree)?.ok_or(Error::UnknownTree(tree))?.content;
        *recent = Some((tree, content));
        Ok(content)
    }
}

impl Snapshot for LmdbSnapshot {
    fn position(&self) -> Position {
        self.position
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let content = self.content(tree)?;
        Ok(rows::get(self.reader.txn(), content, key)?.map(Cow::Borrowed))
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(LmdbCursor::new(self.reader.txn(), self.content(tree)?)?))
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        estimate::range(&self.reader, self.content(tree)?, from, to)
    }
}
