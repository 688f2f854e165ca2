//! Writes laid over a snapshot: how transactions and frozen views read.

use std::borrow::Cow;

use arbor_base::TreeId;
use arbor_engine::{Cursor, RangeEstimate, Snapshot};

use crate::ledger::{self, LEDGER};
use crate::merged_cursor::{EmptyCursor, MergedCursor};
use crate::written::{CounterChange, Presence, Written};
use crate::{CounterId, Error, Result};

#[derive(Clone, Copy)]
pub(crate) struct Overlay<'v> {
    pub snapshot: &'v dyn Snapshot,
    pub written: &'v Written,
}

impl<'v> Overlay<'v> {
    pub(crate) fn get(self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'v, [u8]>>> {
        let Some(own) = self.written.tree(tree) else { return Ok(self.snapshot.get(tree, key)?) };
        if own.presence == Presence::Dropped {
            return Err(Error::UnknownTree(tree));
        }
        if let Some(entry) = own.entries.get(key) {
            return self.written.row(key, entry, || Ok(self.snapshot.get(tree, key)?));
        }
        if own.presence != Presence::Unchanged || own.range_over(key).is_some() {
            return Ok(None);
        }
        Ok(self.snapshot.get(tree, key)?)
    }

    pub(crate) fn cursor(self, tree: TreeId) -> Result<Box<dyn Cursor + 'v>> {
        let Some(own) = self.written.tree(tree) else { return Ok(self.snapshot.cursor(tree)?) };
        let base: Box<dyn Cursor + 'v> = match own.presence {
            Presence::Dropped => return Err(Error::UnknownTree(tree)),
            Presence::Created(_) => Box::new(EmptyCursor),
            Presence::Unchanged => self.snapshot.cursor(tree)?,
        };
        Ok(Box::new(MergedCursor::new(base, own, self.written)))
    }

    pub(crate) fn estimate(self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        match self.written.tree(tree).map(|own| &own.presence) {
            Some(Presence::Dropped) => Err(Error::UnknownTree(tree)),
            Some(Presence::Created(_)) => Ok(RangeEstimate::default()),
            _ => Ok(self.snapshot.estimate(tree, from, to)?),
        }
    }

    pub(crate) fn counter(self, id: CounterId) -> Result<i64> {
        let own = match self.written.counters.get(&id) {
            Some(CounterChange::Drop) => return Ok(0),
            Some(CounterChange::Add(delta)) => *delta,
            None => 0,
        };
        let committed = ledger::counter_in(self.get(LEDGER, &ledger::counter_key(id))?);
        Ok(committed.wrapping_add(own))
    }
}
