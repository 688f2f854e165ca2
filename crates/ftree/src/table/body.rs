//! The index of a table in memory, with the cells of its cached blocks.
//!
//! | index on disk | bytes |
//! |---|---|
//! | version, now 1 | 1 |
//! | blocks | 4 |
//! | per block: stored bytes, raw bytes, rows, length of the first key | packed arrays, see [`crate::packed`] |
//! | per block: xxh3 of the stored bytes | 8 each |
//! | first keys | |
//! | last key | 4 + length |
//! | range tombstones: number; from, to (length `u32::MAX`: none), sequence number | 4; 4 + length, 4 + length, 8 each |
//! | filter | the rest |
//!
//! Little-endian.

use std::ops::{Deref, Range};
use std::sync::{Arc, Weak};

use arbor_base::paranoid;
use arbor_disk::Buffer;
use arbor_disk::ring::ReadLater;

use super::meta::{HEADER_BYTES, corrupt, numbers, text};
use super::{Table, corrupt_at, located};
use crate::block::Block;
use crate::cache::{Cache, Cell, Charge, Evicted, Guard, ITEM_BYTES, heap_bytes};
use crate::codec;
use crate::counters::Counter;
use crate::filter::Filter;
use crate::io::Io;
use crate::key_index::KeyIndex;
use crate::packed::{self, PackedInts};
use crate::{RangeTombstone, Result, Seq};

const VERSION: u8 = 1;
const NO_END: u32 = u32::MAX;

/// Location of a block.
#[derive(Clone, Copy)]
pub(super) struct Location {
    /// From the table's begin.
    pub offset: u32,
    pub stored_bytes: u32,
    pub raw_bytes: u32,
    pub rows: u32,
    pub checksum: u64,
}

pub struct TableBody {
    /// First keys of the blocks.
    index: KeyIndex,
    last_key: Box<[u8]>,
    filter: Option<Filter>,
    tombstones: Vec<RangeTombstone>,
    locations: Box<[Location]>,
    blocks: Box<[Cell<Block>]>,
    owner: Weak<Table>,
    /// Offset of the table in the file.
    offset: u64,
    is_leaf: bool,
}

/// A block that is being read.
pub enum BlockRef {
    Cached(Guard<Block>),
    Own(Box<Block>),
}

impl BlockRef {
    /// For holding on to the block; see [`Guard::settled`].
    pub fn settled(self) -> BlockRef {
        match self {
            BlockRef::Cached(guard) => BlockRef::Cached(guard.settled()),
            own => own,
        }
    }
}

impl Deref for BlockRef {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            BlockRef::Cached(guard) => guard,
            BlockRef::Own(block) => block,
        }
    }
}

/// Why a block comes into the cache.
#[derive(Clone, Copy)]
pub(super) enum Arrival {
    /// For a reader that has it now.
    InUse,
    /// For readers that may come: their first use shows no more than the read of a block that was missing.
    Ahead,
    /// In the place of blocks that were in memory: written by a job.
    Written,
}

/// The charge of a block that is to be kept.
pub(super) fn charge_of(block: &Block, cache: &Cache) -> Charge {
    cache.charge((block.memory_bytes() + ITEM_BYTES) as u64)
}

/// A table's index as its writer builds it.
pub(super) struct IndexParts {
    pub index: KeyIndex,
    pub last_key: Vec<u8>,
    pub filter: Option<Filter>,
    pub tombstones: Vec<RangeTombstone>,
    pub locations: Vec<Location>,
}

impl IndexParts {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let each =
            |number: fn(&Location) -> u32| self.locations.iter().map(move |location| u64::from(number(location)));
        out.push(VERSION);
        out.extend_from_slice(&(self.locations.len() as u32).to_le_bytes());
        packed::encode(each(|location| location.stored_bytes), out);
        packed::encode(each(|location| location.raw_bytes), out);
        packed::encode(each(|location| location.rows), out);
        packed::encode((0..self.index.len()).map(|at| self.index.key(at).len() as u64), out);
        out.extend(self.locations.iter().flat_map(|location| location.checksum.to_le_bytes()));
        self.index.iter().for_each(|key| out.extend_from_slice(key));
        put_text(&self.last_key, out);
        out.extend_from_slice(&(self.tombstones.len() as u32).to_le_bytes());
        for tombstone in &self.tombstones {
            put_text(&tombstone.from, out);
            match &tombstone.to {
                Some(to) => put_text(to, out),
                None => out.extend_from_slice(&NO_END.to_le_bytes()),
            }
            out.extend_from_slice(&tombstone.seq.0.to_le_bytes());
        }
        if let Some(filter) = &self.filter {
            filter.encode(out);
        }
        paranoid!(self.is_read_from(out.get(begin + 1..).unwrap_or_default()), "an index is read as it was written");
    }

    /// `bytes`: without the version.
    fn is_read_from(&self, mut bytes: &[u8]) -> bool {
        IndexParts::decode(&mut bytes).is_some_and(|read| {
            read.index.iter().eq(self.index.iter())
                && read.last_key == self.last_key
                && read.tombstones == self.tombstones
        })
    }

    fn decode(input: &mut &[u8]) -> Option<IndexParts> {
        let mut count = u32::from_le_bytes(*input.split_off(..4)?.first_chunk()?) as usize;
        if count > input.len() / 8 {
            return None;
        }
        let mut array = || PackedInts::decode(input, count).ok();
        let (stored, raw, rows, keys) = (array()?, array()?, array()?, array()?);
        let checksums = input.split_off(..count * 8)?.as_chunks::<8>().0;
        let mut locations = Vec::with_capacity(count);
        let mut offset = HEADER_BYTES as u64;
        for (at, checksum) in checksums.iter().enumerate() {
            let number = |numbers: &PackedInts| u32::try_from(numbers.get(at)).ok();
            let stored_bytes = number(&stored)?;
            let checksum = u64::from_le_bytes(*checksum);
            let (raw_bytes, rows) = (number(&raw)?, number(&rows)?);
            locations.push(Location { offset: u32::try_from(offset).ok()?, stored_bytes, raw_bytes, rows, checksum });
            offset += u64::from(stored_bytes);
        }
        let mut first_keys = Vec::with_capacity(count);
        for at in 0..count {
            first_keys.push(input.split_off(..usize::try_from(keys.get(at)).ok()?)?);
        }
        let last_key = text(input)?.to_vec();
        count = u32::from_le_bytes(*input.split_off(..4)?.first_chunk()?) as usize;
        let tombstones = (0..count).map(|_| tombstone(input)).collect::<Option<_>>()?;
        let filter = if input.is_empty() { None } else { Some(Filter::decode(input).ok()?) };
        Some(IndexParts { index: KeyIndex::new(first_keys.into_iter()), last_key, filter, tombstones, locations })
    }
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn tombstone(input: &mut &[u8]) -> Option<RangeTombstone> {
    let from = text(input)?.to_vec();
    let to = if input.starts_with(&NO_END.to_le_bytes()) {
        input.split_off(..4)?;
        None
    } else {
        Some(text(input)?.to_vec())
    };
    let [seq] = numbers(input)?;
    Some(RangeTombstone { from, to, seq: Seq(seq) })
}

impl TableBody {
    pub(super) fn new(parts: IndexParts, owner: &Arc<Table>) -> TableBody {
        let IndexParts { index, last_key, filter, tombstones, locations } = parts;
        assert!(index.len() == locations.len(), "each block has a first key and a place");
        TableBody {
            index,
            last_key: last_key.into(),
            filter,
            tombstones,
            blocks: locations.iter().map(|_| Cell::default()).collect(),
            locations: locations.into(),
            owner: Arc::downgrade(owner),
            offset: owner.meta.offset,
            is_leaf: owner.meta.level == 0,
        }
    }

    /// Errors: `Corrupt` without a place.
    pub(super) fn decode(mut bytes: &[u8], owner: &Arc<Table>) -> Result<TableBody> {
        if bytes.split_off_first() != Some(&VERSION) {
            return corrupt("a table of another version");
        }
        let Some(parts) = IndexParts::decode(&mut bytes) else { return corrupt("the structure of a table's index") };
        let data_end = parts.locations.last().map_or(0, |last| u64::from(last.offset) + u64::from(last.stored_bytes));
        if data_end > owner.meta.index_offset.saturating_sub(owner.meta.offset) {
            return corrupt("blocks beyond their table");
        }
        Ok(TableBody::new(parts, owner))
    }

    pub fn block_count(&self) -> usize {
        self.locations.len()
    }

    /// The block that holds `key` if one does. Some number when there are no blocks.
    #[inline]
    pub fn block_of(&self, key: &[u8]) -> usize {
        self.index.upper_bound(key).saturating_sub(1)
    }

    /// Returns the number of blocks that begin before `key`; all of their predecessors are before it.
    #[inline]
    pub fn blocks_before(&self, key: &[u8]) -> usize {
        self.index.lower_bound(key)
    }

    /// The first key of a block, and that of the next one.
    #[inline]
    pub fn block_bounds(&self, at: usize) -> (&[u8], Option<&[u8]>) {
        (self.index.key(at), (at + 1 < self.index.len()).then(|| self.index.key(at + 1)))
    }

    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Returns true if `key` with this hash may be in the table.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    pub fn tombstones(&self) -> &[RangeTombstone] {
        &self.tombstones
    }

    pub fn rows_of(&self, at: usize) -> u64 {
        self.locations.get(at).map_or(0, |location| location.rows.into())
    }

    pub fn raw_bytes_of(&self, at: usize) -> u64 {
        self.locations.get(at).map_or(0, |location| location.raw_bytes.into())
    }

    pub fn stored_bytes_of(&self, at: usize) -> u64 {
        self.locations.get(at).map_or(0, |location| location.stored_bytes.into())
    }

    /// A block that is in memory.
    #[inline]
    pub fn cached(&self, at: usize) -> Option<BlockRef> {
        self.blocks.get(at)?.get().map(BlockRef::Cached)
    }

    /// A block that is in memory; does not count as use.
    pub fn peek(&self, at: usize) -> Option<BlockRef> {
        self.blocks.get(at)?.peek().map(BlockRef::Cached)
    }

    /// Does not count as use.
    pub fn is_cached(&self, at: usize) -> bool {
        self.blocks.get(at).is_some_and(|cell| !cell.is_empty())
    }

    /// A block as it was written, if it is in memory; does not count as use.
    pub(super) fn cached_unripe(&self, at: usize) -> Option<BlockRef> {
        self.blocks.get(at)?.peek().filter(|block| block.as_of() == Seq::ZERO).map(BlockRef::Cached)
    }

    /// A block, read and kept when it is not in memory. Requires: `at < block_count()`.
    #[inline]
    pub fn block(&self, at: usize, io: &Io) -> Result<BlockRef> {
        if let Some(block) = self.cached(at) {
            io.counters.add(if self.is_leaf { Counter::LeafBlockHits } else { Counter::RunBlockHits }, 1);
            return Ok(block);
        }
        self.load(at, io)
    }

    #[cold]
    fn load(&self, at: usize, io: &Io) -> Result<BlockRef> {
        let block = self.read(at, io)?;
        io.counters.add(if self.is_leaf { Counter::LeafBlockMisses } else { Counter::RunBlockMisses }, 1);
        Ok(self.keep(at, block, io, Arrival::InUse))
    }

    /// Starts to read a block, for a task that awaits it. None: it has to be read by a thread.
    pub fn read_later(&self, at: usize, io: &Io) -> Option<ReadLater> {
        let (offset, bytes) = self.span(at, at + 1);
        io.file.read_later(offset, bytes)
    }

    /// Keeps a block that was read with [`TableBody::read_later`], unless it is in memory by now.
    pub fn keep_read(&self, at: usize, stored: &[u8], io: &Io) -> Result<()> {
        if !self.is_cached(at) {
            let block = self.open(at, stored, io)?;
            io.counters.add(if self.is_leaf { Counter::LeafBlockMisses } else { Counter::RunBlockMisses }, 1);
            io.counters.add(Counter::BlockBytesRead, stored.len() as u64);
            io.counters.add(Counter::BlocksPrefetched, 1);
            self.keep(at, block, io, Arrival::Ahead);
        }
        Ok(())
    }

    /// A block from the file, not kept.
    pub fn read(&self, at: usize, io: &Io) -> Result<Block> {
        let (offset, bytes) = self.span(at, at + 1);
        let stored = io.file.read(offset, bytes as u64)?;
        io.counters.add(Counter::BlockBytesRead, bytes as u64);
        self.open(at, &stored, io)
    }

    /// Returns offset and length of the stored forms of the blocks from one to before another.
    pub(super) fn span(&self, from: usize, to: usize) -> (u64, usize) {
        let blocks = self.locations.get(from..to).unwrap_or_default();
        let offset = blocks.first().map_or(0, |first| first.offset);
        let bytes = blocks.iter().map(|location| location.stored_bytes as usize).sum();
        (self.offset + u64::from(offset), bytes)
    }

    /// A block out of its stored form.
    pub(super) fn open(&self, at: usize, stored: &[u8], io: &Io) -> Result<Block> {
        let (offset, _) = self.span(at, at + 1);
        let Some(location) = self.locations.get(at) else {
            return Err(corrupt_at(io, self.offset, "a table has fewer blocks than its reader requested"));
        };
        if xxhash_rust::xxh3::xxh3_64(stored) != location.checksum {
            return Err(corrupt_at(io, offset, "the checksum of a block does not match"));
        }
        let block = codec::with_decompressed(stored, location.raw_bytes as usize, Block::decode);
        let block = block.map_err(|error| located(error, io, offset))?;
        match block.len() == location.rows as usize {
            true => Ok(block),
            false => Err(corrupt_at(io, offset, "a block has another number of rows than its index says")),
        }
    }

    /// Reads the stored forms of neighbouring blocks at once.
    pub fn read_stored(&self, blocks: &Range<usize>, io: &Io) -> Result<Buffer> {
        let (offset, bytes) = self.span(blocks.start, blocks.end);
        io.counters.add(Counter::BlockBytesRead, bytes as u64);
        io.file.read(offset, bytes as u64)
    }

    /// Returns the stored form of a block out of those of neighbouring ones, of which `first` is the first.
    pub(super) fn part_of<'s>(&self, at: usize, stored: &'s [u8], first: usize) -> &'s [u8] {
        debug_assert!(first <= at, "block {at} of those from {first} on");
        let (from, bytes) = (self.span(first, at).1, self.span(at, at + 1).1);
        debug_assert!(from + bytes <= stored.len(), "block {at} ends behind the {} bytes that were read", stored.len());
        stored.get(from..from + bytes).unwrap_or_default()
    }

    /// Returns the block at `requested` out of the stored forms of several, as [`TableBody::read_stored`] returned them, and does not keep it.
    pub fn open_one(&self, requested: usize, stored: &[u8], blocks: &Range<usize>, io: &Io) -> Result<BlockRef> {
        debug_assert!(blocks.contains(&requested), "block {requested} of {blocks:?}");
        let block = self.open(requested, self.part_of(requested, stored, blocks.start), io)?;
        io.counters.add(if self.is_leaf { Counter::LeafBlockMisses } else { Counter::RunBlockMisses }, 1);
        Ok(BlockRef::Own(Box::new(block)))
    }

    /// Reads several neighbouring blocks at once and keeps them, but for those that are in memory. Returns the one at `requested`.
    pub fn read_several(&self, blocks: Range<usize>, requested: usize, io: &Io) -> Result<BlockRef> {
        let stored = self.read_stored(&blocks, io)?;
        let (mut from, mut answer) = (0, None);
        for at in blocks {
            let to = from + self.stored_bytes_of(at) as usize;
            let is_requested = at == requested;
            if is_requested || !self.is_cached(at) {
                let block = self.open(at, stored.get(from..to).unwrap_or_default(), io)?;
                io.counters.add(if self.is_leaf { Counter::LeafBlockMisses } else { Counter::RunBlockMisses }, 1);
                let kept = self.keep(at, block, io, if is_requested { Arrival::InUse } else { Arrival::Ahead });
                answer = if is_requested { Some(kept) } else { answer };
            }
            from = to;
        }
        answer.map_or_else(|| self.block(requested, io), Ok)
    }

    /// Asks the operating system to read neighbouring blocks, and does not wait for them. With direct I/O it has no place for them.
    pub fn start_reading(&self, blocks: Range<usize>, io: &Io) {
        if io.file.is_direct() {
            return;
        }
        debug_assert!(blocks.end <= self.block_count(), "blocks {blocks:?} of {}", self.block_count());
        let (offset, bytes) = self.span(blocks.start, blocks.end);
        io.file.read_ahead(offset, bytes as u64);
        io.counters.add(Counter::ReadsStarted, 1);
    }

    /// Replaces a cached block by one into which entries from above are merged (T3). Requires: `as_of` is set.
    pub fn put_ripe(&self, at: usize, block: Block, io: &Io) {
        debug_assert!(block.as_of() > Seq::ZERO, "T3: a ripe block says up to when");
        self.keep(at, block, io, Arrival::InUse);
    }

    fn keep(&self, at: usize, block: Block, io: &Io, arrival: Arrival) -> BlockRef {
        let charge = charge_of(&block, &io.cache);
        self.keep_charged(at, block, charge, io, arrival)
    }

    pub(super) fn keep_charged(&self, at: usize, block: Block, charge: Charge, io: &Io, arrival: Arrival) -> BlockRef {
        let Some(cell) = self.blocks.get(at) else { return BlockRef::Own(Box::new(block)) };
        let (guard, was_empty) = match arrival {
            Arrival::InUse => cell.put_and_get(block, charge),
            Arrival::Ahead | Arrival::Written => cell.put_ahead(block, charge),
        };
        match (was_empty, arrival) {
            (false, _) => {}
            (true, Arrival::Written) => io.cache.admit_replacement(self.owner.clone(), at as u32),
            (true, _) => io.cache.admit(self.owner.clone(), at as u32),
        }
        BlockRef::Cached(guard)
    }

    pub(super) fn evict_block(&self, at: u32) -> Evicted {
        self.blocks.get(at as usize).map_or(Evicted::Gone, Cell::evict)
    }

    pub fn memory_bytes(&self) -> usize {
        let tombstones = self.tombstones.iter().map(|tombstone| 80 + tombstone.from.len() * 2).sum::<usize>();
        let each = |bytes| heap_bytes(self.locations.len() * bytes);
        let blocks = each(size_of::<Location>()) + each(size_of::<Cell<Block>>());
        let filter = self.filter.as_ref().map_or(0, |filter| heap_bytes(filter.memory_bytes()));
        size_of::<TableBody>() + self.index.memory_bytes() + self.last_key.len() + filter + tombstones + blocks
    }
}
