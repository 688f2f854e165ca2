//! The writes of a transaction as readers see them: rows and deleted ranges by tree, and counters.
//!
//! Within a tree, an entry is always newer than every deleted range: deleting a range removes the entries inside it, and
//! entries written later shadow the range. So `ranges` first and `entries` after them replays the transaction.
//!
//! Cloning one freezes it: the clone shares the trees, and a write to a shared tree copies it first.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::{TreeOptions, UpdateFunction};

use crate::scratch::{Scratch, Value};
use crate::{CounterId, Result};

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// `None` is a deletion.
    pub value: Option<Value>,
    /// Number of the note that refers to the value.
    pub note: Option<u32>,
    /// The value is an update message for the row of the snapshot, which was not read. U1: the only write of its key, in a
    /// tree that is as in the snapshot.
    pub is_update: bool,
}

impl Entry {
    pub(crate) fn of(value: Option<Value>) -> Entry {
        Entry { value, note: None, is_update: false }
    }

    pub(crate) fn value_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, Value::len)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl KeyRange {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_deref().is_none_or(|to| key < to)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    /// As in the snapshot.
    #[default]
    Unchanged,
    Created(TreeOptions),
    Dropped,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TreeWrites {
    pub entries: BTreeMap<Vec<u8>, Entry>,
    pub ranges: Vec<KeyRange>,
    pub presence: Presence,
}

impl TreeWrites {
    /// The deleted range that hides `key` of the snapshot, if one does.
    pub(crate) fn range_over(&self, key: &[u8]) -> Option<&KeyRange> {
        self.ranges.iter().find(|range| range.contains(key))
    }

    /// Removes the entries inside the range and returns them.
    pub(crate) fn cut(&mut self, range: &KeyRange) -> BTreeMap<Vec<u8>, Entry> {
        let mut inside = self.entries.split_off(&range.from);
        if let Some(to) = &range.to {
            let mut after = inside.split_off(to);
            self.entries.append(&mut after);
        }
        inside
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        self.entries.is_empty() && self.ranges.is_empty() && self.presence == Presence::Unchanged
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterChange {
    Add(i64),
    Drop,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub trees: BTreeMap<TreeId, Arc<TreeWrites>>,
    pub counters: BTreeMap<CounterId, CounterChange>,
    /// The file of spilled values.
    pub scratch: Option<Arc<Scratch>>,
    /// Meaning of the update messages, if there are any.
    pub updates: Option<Arc<dyn UpdateFunction>>,
}

impl Written {
    pub(crate) fn tree(&self, tree: TreeId) -> Option<&TreeWrites> {
        self.trees.get(&tree).map(|writes| &**writes)
    }

    /// The writes of a tree, to be changed: a copy of their own when a view shows them.
    pub(crate) fn tree_mut(&mut self, tree: TreeId) -> &mut TreeWrites {
        Arc::make_mut(self.trees.entry(tree).or_default())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.trees.is_empty() && self.counters.is_empty()
    }

    /// Returns the row that an entry leaves of the snapshot's.
    pub(crate) fn row<'w>(
        &'w self,
        key: &[u8],
        entry: &'w Entry,
        before: impl FnOnce() -> Result<Option<Cow<'w, [u8]>>>,
    ) -> Result<Option<Cow<'w, [u8]>>> {
        let value = entry.value.as_ref().map(|value| value.read(self.scratch.as_deref())).transpose()?;
        let Some(message) = value.as_ref().filter(|_| entry.is_update) else { return Ok(value) };
        let function = self.updates.as_ref().expect("U1: messages come with their function");
        Ok(function.apply(key, before()?.as_deref(), message).map(Cow::Owned))
    }
}
