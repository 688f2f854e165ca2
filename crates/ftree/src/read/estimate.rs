//! Estimated number of keys and bytes in a range.
//!
//! A short range is counted by a cursor. For a longer one the counts of tables are summed, from what nodes and indexes say of
//! them: entries of runs and memtables count as rows, which they mostly are where they are many.

use std::sync::Arc;

use arbor_engine::{Cursor, RangeEstimate};

use super::cursor::TreeCursor;
use super::{Reader, overlay};
use crate::memtable::MemTree;
use crate::table::Table;
use crate::tree::{Child, Inner, Tree, TreeVersion};
use crate::{RangeTombstone, Result};

/// Rows that are counted one by one.
const COUNTED: u64 = 128;
/// Memtable entries that are counted one by one.
const STEPS: u64 = 4096;

pub fn estimate(reader: Reader<'_>, tree: &Arc<Tree>, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
    let counted = count(reader, tree, from, to)?;
    if counted.keys < COUNTED {
        return Ok(counted);
    }
    let version = tree.version_to_read();
    let mut sum = Sum { reader, from, to, total: counted, tombstones: Vec::new() };
    sum.total = RangeEstimate::default();
    sum.version(&version)?;
    let RangeEstimate { keys, bytes } = sum.total;
    Ok(RangeEstimate { keys: keys.max(counted.keys), bytes: bytes.max(counted.bytes) })
}

/// Up to [`COUNTED`] rows.
fn count(reader: Reader<'_>, tree: &Arc<Tree>, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
    let mut total = RangeEstimate::default();
    let mut cursor = TreeCursor::new(reader, tree.clone());
    let mut more = cursor.seek(from)?;
    while more && total.keys < COUNTED && to.is_none_or(|to| cursor.key() < to) {
        total.keys += 1;
        total.bytes += (cursor.key().len() + cursor.value().len()) as u64;
        more = cursor.next()?;
    }
    Ok(total)
}

struct Sum<'s> {
    reader: Reader<'s>,
    from: &'s [u8],
    to: Option<&'s [u8]>,
    total: RangeEstimate,
    /// That the reader sees, of what was passed on the way down.
    tombstones: Vec<RangeTombstone>,
}

impl Sum<'_> {
    fn version(&mut self, version: &TreeVersion) -> Result<()> {
        for part in std::iter::once(&version.active).chain(&version.frozen) {
            self.memtable(part);
            self.tombstones.extend(part.tombstones().iter().filter(|other| other.seq <= self.reader.at).cloned());
        }
        self.node(&version.root, &[], None)
    }

    fn memtable(&mut self, part: &MemTree) {
        let entries = part.entries() as u64;
        let mut cursor = part.cursor();
        cursor.seek(self.from);
        let mut steps = 0;
        while cursor.entry().is_some_and(|entry| self.to.is_none_or(|to| entry.key < to)) && steps < STEPS {
            steps += 1;
            cursor.next();
        }
        if steps == STEPS {
            let all = self.from.is_empty() && self.to.is_none();
            steps = if all { entries } else { steps + entries.saturating_sub(steps) / 2 };
        }
        self.add(steps, steps * part.bytes() / entries.max(1));
    }

    fn add(&mut self, keys: u64, bytes: u64) {
        self.total.keys += keys;
        self.total.bytes += bytes;
    }

    /// `low <= key < high`: the node's keys.
    fn node(&mut self, node: &Inner, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let first = node.pivots.upper_bound(self.from);
        let end = self.to.map_or(node.slots.len(), |to| node.pivots.lower_bound(to) + 1);
        for at in first..end.min(node.slots.len()) {
            let low = if at > 0 { node.pivots.key(at - 1) } else { low };
            let high = if at < node.pivots.len() { Some(node.pivots.key(at)) } else { high };
            if let Some(slot) = node.slots.get(at) {
                let tombstones = self.tombstones.len();
                for run in &slot.runs {
                    self.table(&run.table, low, high)?;
                    self.pass_tombstones(&run.table)?;
                }
                match &slot.child {
                    Child::Empty => {}
                    Child::Leaf(leaf) => self.table(leaf, low, high)?,
                    Child::Inner(inner) => self.node(inner, low, high)?,
                }
                self.tombstones.truncate(tombstones);
            }
        }
        Ok(())
    }

    fn pass_tombstones(&mut self, table: &Arc<Table>) -> Result<()> {
        if table.meta.has_tombstones {
            let body = table.body(self.reader.io)?;
            self.tombstones.extend(body.tombstones().iter().filter(|other| other.seq <= self.reader.at).cloned());
        }
        Ok(())
    }

    /// The table's rows that lie in the range and between `low` and `high`.
    fn table(&mut self, table: &Arc<Table>, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let meta = &table.meta;
        let from = self.from.max(low);
        let to = overlay::least_end(self.to, high);
        let (first, last) = (meta.first_key.as_slice(), meta.last_key.as_slice());
        let gone = |other: &RangeTombstone| {
            other.seq > meta.max_seq && other.from.as_slice() <= from.max(first) && ends_behind(other, to, last)
        };
        if last < from || to.is_some_and(|to| to <= first) || self.tombstones.iter().any(gone) {
            return Ok(());
        }
        if from <= first && to.is_none_or(|to| last < to) {
            self.add(meta.rows, meta.raw_bytes);
            return Ok(());
        }
        let body = table.body(self.reader.io)?;
        let blocks = body.block_of(from)..to.map_or(body.block_count(), |to| body.blocks_before(to));
        let (mut keys, mut bytes) = (0, 0);
        for at in blocks.clone() {
            // Of the blocks at the ends about a half is inside.
            let (low, high) = body.block_bounds(at);
            let whole = from <= low && to.is_none_or(|to| high.unwrap_or(last) <= to);
            let share = if whole { 1 } else { 2 };
            keys += body.rows_of(at) / share;
            bytes += body.raw_bytes_of(at) / share;
        }
        self.add(keys, bytes);
        Ok(())
    }
}

/// Returns true if the tombstone reaches to the end of the table or of the range.
fn ends_behind(tombstone: &RangeTombstone, to: Option<&[u8]>, last: &[u8]) -> bool {
    match (tombstone.to.as_deref(), to) {
        (None, _) => true,
        (Some(end), Some(to)) if to <= end => true,
        (Some(end), _) => last < end,
    }
}
