//! Cutting leaves.
//!
//! - (L1) Up to about 1.5 leaves stay one leaf; more is cut into parts of even size near `leaf_bytes`.
//! - (L2) When all messages are after the last row, as ascending loads send them, the left part is filled to `leaf_bytes`.
//!   A leaf that is well filled then is not even read: it stays as it is and the messages become leaves of their own.
//! - (L3) No small leaf is left at the end for what the estimate got wrong.

use std::ops::Range;
use std::sync::Arc;

use arbor_base::sometimes;

use super::large_values::LargeValues;
use super::rewrite::{Output, Rewrite};
use super::{Fragments, Sink};
use crate::block::Block;
use crate::key_index::common_prefix;
use crate::table::{StoredBlock, Table, TableWriter};
use crate::{Entry, Result};

/// Takes rows and writes leaves.
pub(super) struct Leaves<'a> {
    job: &'a Rewrite<'a>,
    large_values: LargeValues<'a>,
    /// Those that are rewritten and not passed yet.
    old: &'a [Arc<Table>],
    writer: Option<TableWriter<'a>>,
    /// Lower bound of the leaf in progress.
    from: Vec<u8>,
    cut: Cut,
    outputs: Vec<Output>,
}

/// Size at which a leaf is full, in uncompressed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    leaf_bytes: u64,
    /// The leaf in progress ends at this size,
    target: u64,
    /// unless about less than a quarter of a leaf is left of this.
    expected: u64,
}

impl Cut {
    /// `expected`: estimate of what all leaves will hold together.
    fn new(leaf_bytes: u64, expected: u64, is_appended: bool) -> Cut {
        let limit = leaf_bytes + leaf_bytes / 2;
        let leaves = ((expected + leaf_bytes / 2) / leaf_bytes.max(1)).max(1);
        let target = match (expected <= limit, is_appended) {
            (true, _) => limit,
            (false, true) => leaf_bytes,
            (false, false) => expected.div_ceil(leaves),
        };
        Cut { leaf_bytes, target, expected }
    }

    fn is_due(&self, bytes: u64) -> bool {
        let few_left = self.expected.saturating_sub(bytes) < self.leaf_bytes / 4;
        bytes >= self.target && !(few_left && bytes < self.leaf_bytes + self.leaf_bytes / 2)
    }

    /// The leaf in progress ended with this many bytes.
    fn cut(&mut self, bytes: u64) {
        self.expected = self.expected.saturating_sub(bytes);
    }
}

impl<'a> Leaves<'a> {
    /// Also returns which of the leaves have to be rewritten. `first`: the first message.
    pub(super) fn new(
        job: &'a Rewrite<'a>,
        old: &'a [Arc<Table>],
        first: Option<&[u8]>,
        fragments: &Fragments,
    ) -> (Leaves<'a>, &'a [Arc<Table>]) {
        let leaf_bytes = u64::from(job.settings.leaf_bytes);
        let incoming: u64 = job.inputs.iter().map(|input| input.bytes).sum();
        let present: u64 = old.iter().map(|leaf| leaf.meta.raw_bytes).sum();
        let is_appended = match (old, first) {
            ([leaf], Some(first)) => fragments.is_empty() && leaf.meta.last_key.as_slice() < first,
            _ => false,
        };
        let stays = is_appended && present >= leaf_bytes / 4 * 3 && incoming >= leaf_bytes / 16;
        let mut leaves = Leaves {
            job,
            large_values: LargeValues::of(job),
            old,
            writer: None,
            from: job.from.to_vec(),
            cut: Cut::new(leaf_bytes, if stays { incoming } else { present + incoming }, is_appended),
            outputs: Vec::new(),
        };
        if stays && let [leaf] = old {
            sometimes!("ftree: a full leaf stays as it is");
            leaves.outputs.push(Output { table: leaf.clone(), from: job.from.to_vec(), slots: Vec::new() });
            leaves.old = &[];
        }
        let rewritten = leaves.old;
        (leaves, rewritten)
    }

    pub(super) fn finish(mut self) -> Result<Vec<Output>> {
        self.end_leaf()?;
        debug_assert!(self.outputs.is_sorted_by(|one, next| one.from < next.from), "lower bounds of leaves rise");
        let ends = |output: &Output| self.job.to.is_none_or(|to| output.table.meta.last_key.as_slice() < to);
        assert!(self.outputs.iter().all(ends), "leaves are inside the bounds of their job");
        Ok(self.outputs)
    }

    fn end_leaf(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.cut.cut(writer.raw_bytes());
            let from = std::mem::take(&mut self.from);
            let table = writer.finish(self.job.as_of())?;
            self.outputs.extend(table.map(|table| Output { table, from, slots: Vec::new() }));
        }
        Ok(())
    }

    /// The leaf in progress, and the old one that holds the block. Requires: blocks come in key order.
    fn writer_and_leaf(&mut self, block: &Block) -> Option<(&mut TableWriter<'a>, &'a Arc<Table>)> {
        while self.old.first()?.meta.last_key.as_slice() < block.first_key() {
            self.old = self.old.get(1..).unwrap_or_default();
        }
        Some((self.writer.as_mut()?, self.old.first()?))
    }

    #[cold]
    fn begin_leaf(&mut self, key: &[u8]) {
        if let Some(before) = self.outputs.last() {
            self.from = separator(&before.table.meta.last_key, key).to_vec();
        }
        let Rewrite { io, tree, settings, keep_cached, .. } = *self.job;
        self.writer = Some(TableWriter::new(io, tree, 0, settings, keep_cached));
    }
}

/// The shortest first part of `to` that is greater than `from`. Requires: `from < to`.
fn separator<'k>(from: &[u8], to: &'k [u8]) -> &'k [u8] {
    debug_assert!(from < to, "T1: {from:?} is in the leaf before {to:?}");
    to.get(..common_prefix(from, to) + 1).unwrap_or(to)
}

impl Sink for Leaves<'_> {
    #[inline]
    fn begin(&mut self, key: &[u8]) -> Result<()> {
        if self.writer.as_ref().is_some_and(|writer| self.cut.is_due(writer.raw_bytes())) {
            self.end_leaf()?;
        }
        if self.writer.is_none() {
            self.begin_leaf(key);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        match &mut self.writer {
            Some(writer) => self.large_values.push(writer, entry),
            None => Ok(()),
        }
    }

    fn push_rows(&mut self, block: &Block, mut rows: Range<usize>) -> Result<()> {
        if block.has_blobs() && self.large_values.renews() {
            return rows.try_for_each(|at| {
                self.begin(block.key(at))?;
                self.push(block.entry(at))
            });
        }
        if let Some((writer, leaf)) = self.writer_and_leaf(block) {
            writer.push_rows(block, rows, leaf);
        }
        Ok(())
    }

    fn push_block(&mut self, block: &Block, stored: StoredBlock<'_>) -> Result<()> {
        if block.has_blobs() && self.large_values.renews() {
            return self.push_rows(block, 0..block.len());
        }
        if let Some((writer, leaf)) = self.writer_and_leaf(block) {
            writer.push_block(block, stored, leaf);
        }
        Ok(())
    }
}
