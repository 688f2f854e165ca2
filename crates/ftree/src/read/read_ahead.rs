//! Reading blocks before they are asked for, when a cursor moves on through blocks that are not in memory.
//!
//! The first read after a seek takes one block, the next one two, then four and so on: a short scan reads little that it
//! does not need, a long one soon reads in large pieces. If it is known how many rows are read, the first read takes the blocks of these.

use std::ops::Range;

use super::Reader;
use crate::Result;
use crate::table::{BlockRef, Table, TableBody};

/// Stored bytes of one read at most.
const BYTES_MAX: u64 = 256 * 1024;
const BLOCKS_MAX: usize = 64;
/// Blocks of one read from which on the next read is started in advance.
const BLOCKS_LONG: usize = BLOCKS_MAX / 4;

/// Read-ahead state of one cursor.
pub struct ReadAhead {
    /// Blocks of the next read.
    blocks: usize,
    /// Rows that are likely still read; 0: unknown.
    rows: u64,
    /// The key at which reading ends; empty: unknown.
    end: Vec<u8>,
    /// The last read: a leaf, by its place in the file, and its blocks.
    last: (u64, Range<usize>),
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead { blocks: 1, rows: 0, end: Vec::new(), last: (0, 0..0) }
    }
}

impl ReadAhead {
    /// Begins at another place.
    pub fn begin(&mut self) {
        self.blocks = 1;
    }

    /// Notes how many rows are likely read from the next place on, and the key at which reading ends.
    pub fn expect_rows(&mut self, rows: u64, end: &[u8]) {
        self.rows = rows;
        self.end.clear();
        self.end.extend_from_slice(end);
    }

    /// Notes that rows of a page are read, and expected no longer.
    pub fn pass(&mut self, rows: usize) {
        self.rows = self.rows.saturating_sub(rows as u64);
    }

    /// Returns true if the block is in memory only because it was read ahead.
    pub fn brought(&self, leaf: &Table, at: usize) -> bool {
        self.last.0 == leaf.meta.offset && self.last.1.contains(&at)
    }

    /// A block that is not in memory, with some that come next.
    pub fn block(
        &mut self,
        reader: &Reader<'_>,
        leaf: &Table,
        body: &TableBody,
        at: usize,
        forward: bool,
    ) -> Result<BlockRef> {
        let blocks = self.range(body, at, forward);
        self.blocks = (2 * self.blocks).min(BLOCKS_MAX);
        self.last = (leaf.meta.offset, blocks.clone());
        self.start_next(reader, body, &blocks, forward);
        if blocks.len() <= 1 { body.block(at, reader.io) } else { body.read_several(blocks, at, reader.io) }
    }

    /// Starts what is likely the next read, if this one is long.
    fn start_next(&self, reader: &Reader<'_>, body: &TableBody, read: &Range<usize>, forward: bool) {
        let rows = || read.clone().map(|at| body.rows_of(at)).sum::<u64>();
        if read.len() < BLOCKS_LONG || (self.rows > 0 && self.rows <= rows()) {
            return;
        }
        let next =
            if forward { Some(read.end).filter(|at| *at < body.block_count()) } else { read.start.checked_sub(1) };
        let Some(at) = next.filter(|at| !body.is_cached(*at) && !self.is_beyond(body, *at, forward)) else { return };
        body.start_reading(self.range(body, at, forward), reader.io);
    }

    fn range(&self, body: &TableBody, at: usize, forward: bool) -> Range<usize> {
        let (mut from, mut to) = (at, (at + 1).min(body.block_count()));
        let mut bytes = body.stored_bytes_of(at);
        // the place is in the middle of the first block as a rule
        let mut rows = if self.blocks == 1 { body.rows_of(at) / 2 } else { body.rows_of(at) };
        while to - from < BLOCKS_MAX && if self.rows > 0 { rows < self.rows } else { to - from < self.blocks } {
            let next = if forward { Some(to).filter(|to| *to < body.block_count()) } else { from.checked_sub(1) };
            let Some(next) = next.filter(|next| !body.is_cached(*next) && !self.is_beyond(body, *next, forward)) else {
                break;
            };
            bytes += body.stored_bytes_of(next);
            if bytes > BYTES_MAX {
                break;
            }
            rows += body.rows_of(next);
            (from, to) = (from.min(next), to.max(next + 1));
        }
        debug_assert!(to - from <= BLOCKS_MAX, "blocks {from}..{to} are more than one read takes");
        debug_assert!(self.rows > 0 || to - from <= self.blocks, "blocks {from}..{to}, {} are due", self.blocks);
        from..to
    }

    /// Returns true if reading ends before this block.
    fn is_beyond(&self, body: &TableBody, at: usize, forward: bool) -> bool {
        let (first, next) = body.block_bounds(at);
        !self.end.is_empty()
            && if forward { first >= &self.end[..] } else { next.is_some_and(|next| next <= &self.end[..]) }
    }
}
