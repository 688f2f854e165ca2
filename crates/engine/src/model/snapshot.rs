//! A snapshot of the model engine: the maps of its moment.

use std::borrow::Cow;
use std::ops::Bound;

use arbor_base::{Position, TreeId};

use super::State;
use super::cursor::ModelCursor;
use crate::{Cursor, RangeEstimate, Result, Snapshot};

pub(super) struct ModelSnapshot {
    state: State,
}

impl ModelSnapshot {
    pub(super) fn new(state: State) -> ModelSnapshot {
        ModelSnapshot { state }
    }
}

impl Snapshot for ModelSnapshot {
    fn position(&self) -> Position {
        self.state.position
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        Ok(self.state.rows(tree)?.get(key).map(|value| Cow::Borrowed(&**value)))
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(ModelCursor::new(self.state.rows(tree)?)))
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        let rows = self.state.rows(tree)?;
        if to.is_some_and(|to| to <= from) {
            return Ok(RangeEstimate::default());
        }
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut estimate = RangeEstimate::default();
        for (key, value) in rows.range::<[u8], _>((Bound::Included(from), end)) {
            estimate.keys += 1;
            estimate.bytes += (key.len() + value.len()) as u64;
        }
        Ok(estimate)
    }
}
