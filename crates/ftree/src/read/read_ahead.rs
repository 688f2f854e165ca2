//! Reading blocks before they are asked for, when a cursor moves on through blocks that are not in memory.
//!
//! The first read after a seek takes one block, the next one two, then four and so on: a short scan reads little that it
//! does not need, a long one soon reads in large pieces.

use std::ops::Range;

use super::Reader;
use crate::Result;
use crate::table::{BlockRef, Table, TableBody};

/// Stored bytes of one read at most.
const BYTES_MAX: u64 = 256 * 1024;
const BLOCKS_MAX: usize = 64;

/// Read-ahead state of one cursor.
pub struct ReadAhead {
    /// Blocks of the next read.
    blocks: usize,
    /// The last read: a leaf, by its place in the file, and its blocks.
    last: (u64, Range<usize>),
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead { blocks: 1, last: (0, 0..0) }
    }
}

impl ReadAhead {
    /// The cursor goes somewhere else.
    pub fn begin(&mut self) {
        self.blocks = 1;
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
        if blocks.len() <= 1 { body.block(at, reader.io) } else { body.read_several(blocks, at, reader.io) }
    }

    fn range(&self, body: &TableBody, at: usize, forward: bool) -> Range<usize> {
        let (mut from, mut to) = (at, (at + 1).min(body.block_count()));
        let mut bytes = body.stored_bytes_of(at);
        while to - from < self.blocks {
            let next = if forward { Some(to).filter(|to| *to < body.block_count()) } else { from.checked_sub(1) };
            let Some(next) = next.filter(|next| !body.is_cached(*next)) else { break };
            bytes += body.stored_bytes_of(next);
            if bytes > BYTES_MAX {
                break;
            }
            (from, to) = (from.min(next), to.max(next + 1));
        }
        debug_assert!(to - from <= self.blocks.max(1), "blocks {from}..{to}, {} are due", self.blocks);
        from..to
    }
}
