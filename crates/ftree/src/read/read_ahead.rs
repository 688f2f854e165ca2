//! Reading blocks before they are asked for, when a cursor moves on through blocks that are not in memory.
//!
//! The first read after a seek takes one block, the next one two, then four and so on: a short scan reads little that it
//! does not need, a long one soon reads in large pieces. If it is known how many rows are read, the first read takes the blocks of these.
//!
//! In a full cache a read of several blocks would evict as many others, while most blocks that a scan reads are not read again
//! before they are evicted themselves. So one such read in [`ADMITTED`] goes through the cache, which is where what is scanned often stays; the
//! blocks of others are with the cursor only, in their stored form.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Weak};

use arbor_disk::Buffer;

use super::Reader;
use crate::Result;
use crate::cache::Charge;
use crate::table::{BlockRef, Table, TableBody, read_bytes};

/// Blocks of one read at most; their stored bytes are [`read_bytes`] at most.
const BLOCKS_MAX: usize = 64;
/// Blocks of one read from which on the next read is started in advance.
const BLOCKS_LONG: usize = BLOCKS_MAX / 4;

/// One read of several blocks in this many is admitted to a full cache.
const ADMITTED: u32 = 8;

/// Stored blocks that a cursor has read and the cache has not.
struct Stored {
    /// Weak: a leaf that is replaced frees its extent. Its memory is no other table's until then.
    leaf: Weak<Table>,
    blocks: Range<usize>,
    bytes: Buffer,
    _charge: Charge,
}

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
    stored: Option<Stored>,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead { blocks: 1, rows: 0, end: Vec::new(), last: (0, 0..0), stored: None }
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
        leaf: &Arc<Table>,
        body: &TableBody,
        at: usize,
        forward: bool,
    ) -> Result<BlockRef> {
        if let Some(stored) = self.stored.as_ref().filter(|stored| stored.holds(leaf, at)) {
            return body.open_one(at, &stored.bytes, &stored.blocks, reader.io);
        }
        self.stored = None;
        let blocks = self.range(reader, body, at, forward);
        self.blocks = (2 * self.blocks).min(BLOCKS_MAX);
        self.last = (leaf.meta.offset, blocks.clone());
        self.start_next(reader, body, &blocks, forward);
        if blocks.len() <= 1 {
            return body.block(at, reader.io);
        }
        if !reader.io.cache.is_full() || next_number().is_multiple_of(ADMITTED) {
            return body.read_several(blocks, at, reader.io);
        }
        let bytes = body.read_stored(&blocks, reader.io)?;
        let block = body.open_one(at, &bytes, &blocks, reader.io)?;
        let charge = reader.io.cache.charge(bytes.len() as u64);
        self.stored = Some(Stored { leaf: Arc::downgrade(leaf), blocks, bytes, _charge: charge });
        Ok(block)
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
        body.start_reading(self.range(reader, body, at, forward), reader.io);
    }

    fn range(&self, reader: &Reader<'_>, body: &TableBody, at: usize, forward: bool) -> Range<usize> {
        let bytes_max = read_bytes(reader.io) as u64;
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
            if bytes > bytes_max {
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

impl Stored {
    fn holds(&self, leaf: &Arc<Table>, at: usize) -> bool {
        self.leaf.as_ptr() == Arc::as_ptr(leaf) && self.blocks.contains(&at)
    }
}

/// Number of a read of several blocks among those of this thread.
fn next_number() -> u32 {
    thread_local!(static READS: Cell<u32> = const { Cell::new(0) });
    READS.set(READS.get().wrapping_add(1));
    READS.get()
}
