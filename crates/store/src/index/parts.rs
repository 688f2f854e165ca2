//! The trees of an index of a partitioned collection: one for the entries of each partition, so that a partition is dropped with them.
//!
//! I1: the entries of a record are in the tree of its partition; the index's own tree is empty, and names the index for as long as it exists.
//! I2: such an index is not unique: its trees have no key in common, since a key ends with that of the record.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::RangeEstimate;
use arbor_txn::{Cursor, View};

use super::Index;
use crate::read::in_order::InOrder;
use crate::{Partition, Result};

/// The entries of one partition's records.
#[derive(Clone, Debug)]
pub(crate) struct IndexPart {
    pub partition: Arc<Partition>,
    pub tree: TreeId,
}

impl Index {
    /// All trees that are its own.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> + '_ {
        std::iter::once(self.tree).chain(self.parts.iter().map(|part| part.tree))
    }

    /// The place of the partition of a record among all. `None`: the collection is not partitioned.
    pub(crate) fn part_at(&self, id_key: &[u8]) -> Option<usize> {
        (!self.parts.is_empty()).then(|| self.parts.partition_point(|part| part.partition.ends_before(id_key)))
    }

    /// The tree of the entries of a record.
    pub(crate) fn tree_of(&self, id_key: &[u8]) -> TreeId {
        self.part_at(id_key).and_then(|at| self.parts.get(at)).map_or(self.tree, |part| part.tree)
    }

    /// The tree of the entries of a partition.
    pub(crate) fn tree_of_partition(&self, id: i64) -> Option<TreeId> {
        let at = self.parts.binary_search_by_key(&id, |part| part.partition.id).ok()?;
        self.parts.get(at).map(|part| part.tree)
    }

    /// A cursor over its entries.
    pub(crate) fn cursor<'v>(&self, view: &'v (impl View + ?Sized)) -> Result<Box<dyn Cursor + 'v>> {
        if self.parts.is_empty() {
            return Ok(view.cursor(self.tree)?);
        }
        let cursors = self.parts.iter().map(|part| view.cursor(part.tree));
        Ok(Box::new(InOrder::new(cursors.collect::<Result<_, _>>()?)))
    }

    /// Rough number of entries and bytes in `from <= key < to`.
    pub fn estimate(&self, view: &(impl View + ?Sized), from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        let mut all = RangeEstimate::default();
        for tree in self.trees() {
            let own = view.estimate(tree, from, to)?;
            all.keys += own.keys;
            all.bytes += own.bytes;
        }
        Ok(all)
    }
}
