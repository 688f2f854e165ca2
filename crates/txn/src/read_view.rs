//! A snapshot for reading. Taking one touches nothing but the engine.

use std::borrow::Cow;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, RangeEstimate, Snapshot};

use crate::ledger;
use crate::{CounterId, Result, View};

pub struct ReadView {
    snapshot: Box<dyn Snapshot>,
}

impl ReadView {
    pub(crate) fn new(snapshot: Box<dyn Snapshot>) -> ReadView {
        ReadView { snapshot }
    }
}

impl View for ReadView {
    fn position(&self) -> Position {
        self.snapshot.position()
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        Ok(self.snapshot.get(tree, key)?)
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        Ok(self.snapshot.cursor(tree)?)
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        Ok(self.snapshot.estimate(tree, from, to)?)
    }

    fn counter(&self, id: CounterId) -> Result<i64> {
        ledger::read_counter(&*self.snapshot, id)
    }
}
