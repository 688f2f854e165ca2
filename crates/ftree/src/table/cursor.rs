//! A cursor over one table, both ways.

use std::sync::Arc;

use arbor_disk::Buffer;

use super::body::BlockRef;
use super::{Table, TableBody};
use crate::block::Block;
use crate::cache::{Charge, Guard};
use crate::counters::Counter;
use crate::io::Io;
use crate::{Entry, Result};

/// Bytes of one read in sequence at most, and of the budget: a job has up to a dozen cursors.
const READ_BYTES: usize = 256 << 10;
const READ_PARTS: u64 = 256;

/// Bytes of one read in sequence.
pub(crate) fn read_bytes(io: &Io) -> usize {
    READ_BYTES.min((io.cache.limit() / READ_PARTS) as usize)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Blocks come from the cache and go there; they may be ripe.
    Point,
    /// For moving entries: large reads, nothing is put into the cache; blocks are as they were written.
    Sequential,
}

/// A block in its stored form.
#[derive(Clone, Copy)]
pub struct StoredBlock<'a> {
    pub bytes: &'a [u8],
    pub raw_bytes: u64,
}

/// Rests on an entry, or on none when it ran over an end.
pub struct TableCursor<'io> {
    table: Arc<Table>,
    io: &'io Io,
    reading: Reading,
    body: Option<Guard<TableBody>>,
    block: Option<BlockRef>,
    block_at: usize,
    row: usize,
    /// Stored forms of the blocks `ahead_of.0 .. ahead_of.1`.
    ahead: Buffer,
    ahead_of: (usize, usize),
    ahead_charge: Option<Charge>,
}

impl<'io> TableCursor<'io> {
    /// Rests on no entry yet.
    pub fn new(table: Arc<Table>, io: &'io Io, reading: Reading) -> TableCursor<'io> {
        let (body, block, ahead) = (None, None, Buffer::from(Vec::new()));
        TableCursor {
            table,
            io,
            reading,
            body,
            block,
            block_at: 0,
            row: 0,
            ahead,
            ahead_of: (0, 0),
            ahead_charge: None,
        }
    }

    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.block.as_ref().map(|block| block.entry(self.row))
    }

    /// The block that the cursor rests in, and the row: for bulk copies. `skip_to` continues after them.
    #[inline]
    pub fn block(&self) -> Option<(&Block, usize)> {
        self.block.as_ref().map(|block| (&**block, self.row))
    }

    /// That block as it is stored, when reading in sequence has it at hand.
    pub fn stored(&self) -> Option<StoredBlock<'_>> {
        let (Some(BlockRef::Own(_)), Some(body), at) = (&self.block, &self.body, self.block_at) else { return None };
        if !(self.ahead_of.0..self.ahead_of.1).contains(&at) {
            return None;
        }
        let bytes = body.part_of(at, &self.ahead, self.ahead_of.0);
        Some(StoredBlock { bytes, raw_bytes: body.raw_bytes_of(at) })
    }

    /// Skips to a row of the same block; its length: to the next block.
    pub fn skip_to(&mut self, row: usize) -> Result<()> {
        let Some(block) = &self.block else { return Ok(()) };
        if row < block.len() {
            self.row = row;
            return Ok(());
        }
        self.enter_forward(self.block_at + 1)
    }

    /// To the first entry with a key `>= key`, its newest version.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.body()?.block_of(key);
        self.enter_forward(at)?;
        let row = self.block.as_ref().map_or(0, |block| block.lower_bound(key));
        self.skip_to(row)
    }

    /// To the last entry with a key `< key`, its oldest version.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let before = self.body()?.blocks_before(key);
        self.enter_backward(before)?;
        self.row = self.block.as_ref().map_or(0, |block| block.lower_bound(key)).saturating_sub(1);
        Ok(())
    }

    pub fn first(&mut self) -> Result<()> {
        self.body()?;
        self.enter_forward(0)
    }

    pub fn last(&mut self) -> Result<()> {
        let blocks = self.body()?.block_count();
        self.enter_backward(blocks)
    }

    #[inline]
    #[expect(clippy::should_implement_trait, reason = "moves, and lends the row")]
    pub fn next(&mut self) -> Result<()> {
        match &self.block {
            Some(block) if self.row + 1 < block.len() => {
                self.row += 1;
                Ok(())
            }
            Some(_) => self.enter_forward(self.block_at + 1),
            None => Ok(()),
        }
    }

    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        match (&self.block, self.row.checked_sub(1)) {
            (Some(_), Some(row)) => {
                self.row = row;
                Ok(())
            }
            (Some(_), None) => self.enter_backward(self.block_at),
            (None, _) => Ok(()),
        }
    }

    fn body(&mut self) -> Result<&TableBody> {
        let body = match self.body.take() {
            Some(body) => body,
            None => self.table.body(self.io)?,
        };
        Ok(self.body.insert(body))
    }

    /// To the first row of block `at` or, where it is empty, of the next one.
    fn enter_forward(&mut self, mut at: usize) -> Result<()> {
        self.block = None;
        self.row = 0;
        while at < self.body()?.block_count() {
            let block = self.load(at)?;
            self.block_at = at;
            if !block.is_empty() {
                self.block = Some(block);
                break;
            }
            at += 1;
        }
        Ok(())
    }

    /// To the last row of the block before `end`.
    fn enter_backward(&mut self, mut end: usize) -> Result<()> {
        self.block = None;
        while let Some(at) = end.checked_sub(1) {
            let block = self.load(at)?;
            self.block_at = at;
            if let Some(last) = block.len().checked_sub(1) {
                self.row = last;
                self.block = Some(block);
                break;
            }
            end = at;
        }
        Ok(())
    }

    fn load(&mut self, at: usize) -> Result<BlockRef> {
        let (io, reading) = (self.io, self.reading);
        let body = self.body()?;
        if reading == Reading::Point {
            return body.block(at, io);
        }
        if let Some(block) = body.cached_unripe(at) {
            return Ok(block);
        }
        self.read_ahead(at)?;
        let Some(body) = &self.body else { return self.load_alone(at) };
        let stored = body.part_of(at, &self.ahead, self.ahead_of.0);
        Ok(BlockRef::Own(Box::new(body.open(at, stored, io)?)))
    }

    fn load_alone(&mut self, at: usize) -> Result<BlockRef> {
        let io = self.io;
        Ok(BlockRef::Own(Box::new(self.body()?.read(at, io)?)))
    }

    /// Ensures: the stored form of `at` is in `ahead`, with what follows it in the direction of travel.
    fn read_ahead(&mut self, at: usize) -> Result<()> {
        let before = self.ahead_of;
        if (before.0..before.1).contains(&at) {
            return Ok(());
        }
        let io = self.io;
        let read_bytes = read_bytes(io);
        let body = self.body()?;
        let (mut from, mut to) = (at, at + 1);
        if at + 1 == before.0 {
            while from > 0 && body.span(from - 1, to).1 <= read_bytes {
                from -= 1;
            }
        } else {
            while to < body.block_count() && body.span(from, to + 1).1 <= read_bytes {
                to += 1;
            }
        }
        let (offset, bytes) = body.span(from, to);
        self.ahead_charge.get_or_insert_with(|| io.cache.charge(0)).resize(bytes as u64);
        // The one before goes first.
        self.ahead = Buffer::from(Vec::new());
        self.ahead = io.file.read(offset, bytes as u64)?;
        self.ahead_of = (from, to);
        io.counters.add(Counter::ScanBytesRead, bytes as u64);
        Ok(())
    }
}
