//! Immutable sorted tables, each in one extent: leaves hold rows, runs hold messages.
//!
//! | part of the extent | bytes |
//! |---|---|
//! | header, for salvage; see [`meta`] | 64 |
//! | blocks, compressed, back to back, in leaves with padding; see [`fit`] | |
//! | index: places and checksums of blocks, first keys, last key, range tombstones, filter; see [`body`] | |
//! | zeros to the next multiple of 4096 | |
//!
//! - [`meta`]: what a parent keeps about a table, always in memory
//! - [`writer`]: from sorted entries to a table
//! - [`body`]: the index in memory, with the cells of the cached blocks
//! - [`fit`]: sizes of blocks
//! - [`cursor`]: over a table's entries, both ways
//!
//! Invariants:
//! - (T1) All versions of one key are in one block; first keys of blocks ascend strictly.
//! - (T2) Nothing of a table changes once it is written; its extent is free when the last `Arc` of it is gone.
//! - (T3) A cached block may be *ripe*: entries from above are merged into it up to its `as_of`. Such a block is never written,
//!   and jobs that move entries (`Reading::Sequential`) do not get it.

mod body;
mod cursor;
mod fit;
mod meta;
mod moved;
mod writer;

use std::sync::Arc;

pub use body::{BlockRef, TableBody};
pub(crate) use cursor::read_bytes;
pub use cursor::{Reading, StoredBlock, TableCursor};
pub(crate) use fit::block_bytes_max;
pub use meta::{HEADER_BYTES, TableMeta};
pub use writer::TableWriter;

use crate::blob::BlobPointer;
use crate::cache::{Cache, Cell, Charge, Evictable, Evicted, Guard, ITEM_BYTES, heap_bytes};
use crate::counters::Counter;
use crate::io::Io;
use crate::space::Extent;
use crate::{Error, Result};

/// The item number of a table's body in the cache; smaller ones are blocks.
const BODY: u32 = u32::MAX;

pub struct Table {
    pub meta: TableMeta,
    extent: Arc<Extent>,
    /// Extents of the large values that rows point to, by offset.
    blobs: Vec<Arc<Extent>>,
    body: Cell<TableBody>,
    /// For all of this but the body.
    charge: Charge,
}

impl Table {
    /// A table that a node on disk names, its extents claimed already (tables may share blobs).
    pub fn adopt(meta: TableMeta, extent: Extent, blobs: Vec<Arc<Extent>>, cache: &Cache) -> Arc<Table> {
        Arc::new(Table::new(meta, extent, blobs, cache))
    }

    fn new(meta: TableMeta, extent: Extent, mut blobs: Vec<Arc<Extent>>, cache: &Cache) -> Table {
        blobs.sort_by_key(|blob| blob.offset());
        let keys = heap_bytes(meta.first_key.len()) + heap_bytes(meta.last_key.len());
        let extents = heap_bytes(size_of::<Extent>() + 16) * (1 + blobs.len()) + 32 * blobs.len();
        let charge = cache.charge_resident((heap_bytes(size_of::<Table>() + 16) + keys + extents) as u64);
        Table { meta, extent: Arc::new(extent), blobs, body: Cell::default(), charge }
    }

    /// Returns this table with nothing in memory. For a leaf that stays while messages above it are consumed: its ripe blocks
    /// may hold some of them, and what undoes those is above no more. Readers of older versions keep the one they have.
    pub fn renewed(&self) -> Arc<Table> {
        let (meta, extent, blobs) = (self.meta.clone(), self.extent.clone(), self.blobs.clone());
        Arc::new(Table { meta, extent, blobs, body: Cell::default(), charge: self.charge.again() })
    }

    /// Returns the length of its extent.
    pub fn extent_bytes(&self) -> u64 {
        self.extent.bytes()
    }

    /// Returns true if half of the blocks are in memory.
    pub fn is_warm(&self) -> bool {
        let Some(body) = self.body.peek() else { return false };
        let cached = (0..body.block_count()).filter(|at| body.is_cached(*at)).count();
        cached * 2 >= body.block_count()
    }

    /// The index, read when it is not in memory.
    #[inline]
    pub fn body(self: &Arc<Table>, io: &Io) -> Result<Guard<TableBody>> {
        match self.body.get() {
            Some(body) => Ok(body),
            None => self.load_body(io),
        }
    }

    /// Asks the operating system to read the block that holds `key` if one does, and does not wait for it. Does nothing where
    /// the block is in memory, or the index is not.
    pub fn start_reading(&self, key: &[u8], io: &Io) {
        if let Some(body) = self.body.peek().filter(|body| body.block_count() > 0) {
            let at = body.block_of(key);
            if !body.is_cached(at) {
                body.start_reading(at..at + 1, io);
            }
        }
    }

    /// Returns the index if it is in memory; does not count as use.
    pub fn cached_body(&self) -> Option<Guard<TableBody>> {
        self.body.peek()
    }

    #[cold]
    fn load_body(self: &Arc<Table>, io: &Io) -> Result<Guard<TableBody>> {
        let bytes = io.file.read(self.meta.index_offset, self.meta.index_bytes.into())?;
        io.counters.add(Counter::BodyMisses, 1);
        io.counters.add(Counter::BodyBytesRead, bytes.len() as u64);
        if xxhash_rust::xxh3::xxh3_64(&bytes) != self.meta.index_checksum {
            return Err(corrupt_at(io, self.meta.index_offset, "the checksum of a table's index does not match"));
        }
        let body = TableBody::decode(&bytes, self).map_err(|error| located(error, io, self.meta.index_offset))?;
        Ok(self.keep_body(body, io))
    }

    fn keep_body(self: &Arc<Table>, body: TableBody, io: &Io) -> Guard<TableBody> {
        let charge = io.cache.charge((body.memory_bytes() + ITEM_BYTES) as u64);
        let (guard, was_empty) = self.body.put_and_get(body, charge);
        if was_empty {
            let weak = Arc::downgrade(self);
            io.cache.admit(weak, BODY);
        }
        guard
    }

    /// The extent that a [`crate::Kind::PutBlob`] value of this table points to, to be held by another table too.
    pub fn blob(&self, value: &[u8]) -> Option<Arc<Extent>> {
        let offset = BlobPointer::decode(value)?.offset;
        let at = self.blobs.binary_search_by_key(&offset, |blob| blob.offset()).ok()?;
        self.blobs.get(at).cloned()
    }

    /// Uncompressed bytes are unknown below the table; this is about the part of them in `rows` of its rows.
    pub fn raw_bytes_of(&self, rows: u64) -> u64 {
        (u128::from(self.meta.raw_bytes) * u128::from(rows) / u128::from(self.meta.rows.max(1))) as u64
    }
}

impl Evictable for Table {
    fn evict(&self, item: u32) -> Evicted {
        if item == BODY {
            return self.body.evict();
        }
        self.body.peek().map_or(Evicted::Gone, |body| body.evict_block(item))
    }
}

pub(crate) fn corrupt_at(io: &Io, offset: u64, context: &str) -> Error {
    Error::Corrupt { place: format!("{} at {offset}", io.file.path().display()), context: context.to_owned() }
}

/// Says where, when a decoder could not.
pub(crate) fn located(error: Error, io: &Io, offset: u64) -> Error {
    match error {
        Error::Corrupt { place, context } if place.is_empty() => corrupt_at(io, offset, &context),
        other => other,
    }
}

#[cfg(test)]
mod tests;
