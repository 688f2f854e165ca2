//! From sorted entries to a table: one allocation, one write.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arbor_base::TreeId;

use super::body::{Arrival, IndexParts, Location, charge_of};
use super::fit::Fit;
use super::{HEADER_BYTES, StoredBlock, Table, TableBody, TableMeta};
use crate::block::{Block, BlockBuilder};
use crate::cache::Charge;
use crate::counters::Counter;
use crate::filter::{self, FilterBuilder};
use crate::io::Io;
use crate::key_index::KeyIndex;
use crate::space::{Extent, UNIT};
use crate::{Codec, Entry, Error, Kind, RangeTombstone, Result, Seq, TreeSettings, codec};

/// Takes entries in the order E1.
pub struct TableWriter<'io> {
    io: &'io Io,
    tree: TreeId,
    level: u8,
    codec: Codec,
    /// Blocks that are stored as they are without trying to compress them.
    untried: u32,
    fit: Fit,
    /// Maximum of the block in progress.
    raw_bytes_max: usize,
    filter: Option<FilterBuilder>,
    /// Blocks to leave in the cache.
    kept: Option<Vec<(Block, Charge)>>,
    /// For the table so far.
    charge: Charge,
    builder: BlockBuilder,
    raw: Vec<u8>,
    /// The table's bytes as they will be in the file.
    out: Vec<u8>,
    first_keys: Vec<Box<[u8]>>,
    last_key: Vec<u8>,
    locations: Vec<Location>,
    tombstones: Vec<RangeTombstone>,
    blobs: BTreeMap<u64, Arc<Extent>>,
    rows: u64,
    raw_bytes: u64,
    seqs: (Seq, Seq),
    /// Mark of the settings.
    mark: u32,
    /// Something was taken over that other settings made.
    is_mixed: bool,
}

/// Blocks of a table that are not tried behind one that is not worth compressing ([`Codec::Auto`]): compressing takes 40 us for 8 KB
/// (docs/performance.md).
const UNTRIED: u32 = 15;

/// Blocks of runs are half as large: a scan needs a few rows of each of many runs, and of one or two leaves all.
fn block_bytes(level: u8, settings: &TreeSettings) -> usize {
    settings.block_bytes as usize / if level > 0 { 2 } else { 1 }
}

impl<'io> TableWriter<'io> {
    /// `level` 0: a leaf. `keep_cached`: its blocks are in the cache afterwards.
    pub fn new(io: &'io Io, tree: TreeId, level: u8, settings: &TreeSettings, keep_cached: bool) -> TableWriter<'io> {
        let codec = match settings.codec {
            Codec::Zstd(_) | Codec::Auto if level > 0 => Codec::Lz4,
            codec => codec,
        };
        TableWriter {
            io,
            tree,
            level,
            codec,
            untried: 0,
            fit: Fit::new(block_bytes(level, settings), level == 0),
            raw_bytes_max: block_bytes(level, settings),
            filter: (level > 0 || settings.leaf_filters).then(FilterBuilder::default),
            kept: keep_cached.then(Vec::new),
            charge: io.cache.charge(0),
            builder: BlockBuilder::default(),
            raw: Vec::new(),
            out: vec![0; HEADER_BYTES],
            first_keys: Vec::new(),
            last_key: Vec::new(),
            locations: Vec::new(),
            tombstones: Vec::new(),
            blobs: BTreeMap::new(),
            rows: 0,
            raw_bytes: 0,
            seqs: (Seq(u64::MAX), Seq::ZERO),
            mark: settings.mark(),
            is_mixed: false,
        }
    }

    /// `blob`: the extent that a [`Kind::PutBlob`] points to.
    #[inline]
    pub fn push(&mut self, entry: Entry<'_>, blob: Option<Arc<Extent>>) {
        let is_new = self.builder.is_empty() || self.builder.last_key() != entry.key;
        if is_new {
            if self.builder.raw_bytes() + entry.key.len() + entry.value.len() > self.raw_bytes_max {
                self.cut();
            }
            if let Some(filter) = &mut self.filter {
                filter.add(filter::hash(entry.key));
            }
        }
        self.builder.push(entry);
        if let Some(blob) = blob {
            self.blobs.insert(blob.offset(), blob);
        }
    }

    /// Rows of a block of another table, copied in bulk.
    pub fn push_rows(&mut self, block: &Block, mut rows: Range<usize>, from: &Table) {
        rows.end = rows.end.min(block.len());
        self.share_blobs(block, rows.clone(), from);
        while !rows.is_empty() {
            let end = self.fitting(block, &rows);
            self.take_rows(block, rows.start..end);
            rows.start = end;
        }
    }

    /// All rows of a block of another table. PERF: its stored form is taken over, which saves compressing it, the greatest part
    /// of a leaf job. Where the block in progress is small, both are evened out first, so that the next block fits again.
    pub fn push_block(&mut self, block: &Block, stored: StoredBlock<'_>, from: &Table) {
        let half_block = self.fit.usual() / 2;
        let (raw_bytes, in_progress) = (stored.raw_bytes as usize, self.builder.raw_bytes());
        if raw_bytes < half_block || from.meta.made_with != self.mark {
            return self.push_rows(block, 0..block.len(), from);
        }
        self.share_blobs(block, 0..block.len(), from);
        if (1..half_block).contains(&in_progress) {
            let half = block.raw_bytes_of(0..block.len()).saturating_sub(in_progress) / 2;
            let is_end = |row: &usize| block.raw_bytes_of(0..*row) >= half && block.key(*row) != block.key(row - 1);
            let rows = (1..block.len()).find(is_end).unwrap_or(block.len());
            self.take_rows(block, 0..rows);
            self.cut();
            return self.take_rows(block, rows..block.len());
        }
        self.cut();
        self.take_rows(block, 0..block.len());
        self.end_block(raw_bytes, |out| codec::put_without_padding(stored.bytes, out));
    }

    fn share_blobs(&mut self, block: &Block, rows: Range<usize>, from: &Table) {
        if block.has_blobs() {
            let blobs = rows.filter(|&at| block.kind(at) == Kind::PutBlob);
            self.blobs.extend(blobs.filter_map(|at| from.blob(block.value(at))).map(|blob| (blob.offset(), blob)));
            self.note_origin(from);
        }
    }

    /// Large values of this table are taken over.
    pub fn note_origin(&mut self, from: &Table) {
        self.is_mixed |= from.meta.made_with != self.mark;
    }

    fn take_rows(&mut self, block: &Block, rows: Range<usize>) {
        if let Some(filter) = &mut self.filter {
            let mut before = (!self.builder.is_empty()).then(|| self.builder.last_key());
            for at in rows.clone() {
                let key = block.key(at);
                if before.replace(key) != Some(key) {
                    filter.add(filter::hash(key));
                }
            }
        }
        self.builder.push_rows(block, rows);
    }

    /// Up to which row the block in progress takes them; cuts it when it takes none. Never between versions of a key (T1).
    fn fitting(&mut self, block: &Block, rows: &Range<usize>) -> usize {
        let fits = |builder: &BlockBuilder, end: usize| {
            builder.raw_bytes() + block.raw_bytes_of(rows.start..end) <= self.raw_bytes_max
        };
        let is_new = self.builder.is_empty() || self.builder.last_key() != block.key(rows.start);
        if is_new && !self.builder.is_empty() && !fits(&self.builder, rows.start + 1) {
            self.cut();
        }
        let fits = |end| self.builder.raw_bytes() + block.raw_bytes_of(rows.start..end) <= self.raw_bytes_max;
        let (mut end, mut above) = (rows.start + 1, rows.end + 1);
        while above - end > 1 {
            let middle = end + (above - end) / 2;
            if fits(middle) { end = middle } else { above = middle }
        }
        while end < rows.end && block.key(end) == block.key(end - 1) {
            end += 1;
        }
        end
    }

    pub fn tombstone(&mut self, tombstone: RangeTombstone) {
        self.seqs = (self.seqs.0.min(tombstone.seq), self.seqs.1.max(tombstone.seq));
        self.tombstones.push(tombstone);
    }

    /// Uncompressed bytes so far.
    #[inline]
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes + self.builder.raw_bytes() as u64
    }

    /// Rows so far.
    pub fn len(&self) -> u64 {
        self.rows + self.builder.len() as u64
    }

    /// Neither rows nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.tombstones.is_empty()
    }

    /// Ends the block in progress.
    fn cut(&mut self) {
        if self.builder.is_empty() {
            return;
        }
        let mut raw = std::mem::take(&mut self.raw);
        raw.clear();
        self.builder.encode(&mut raw);
        let codec = if self.untried > 0 { Codec::None } else { self.codec };
        self.end_block(raw.len(), |out| codec::compress(codec, &raw, out));
        self.raw = raw;
        // padding of the block before it may have moved it
        let offset = self.locations.last().map_or(0, |location| location.offset as usize);
        let is_raw = codec::is_raw(self.out.get(offset..).unwrap_or_default());
        self.untried = match self.untried.checked_sub(1) {
            Some(fewer) => fewer,
            None if codec == Codec::Auto && is_raw => UNTRIED,
            None => 0,
        };
    }

    /// `store` appends the stored form of what is in the builder.
    fn end_block(&mut self, raw_bytes: usize, store: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(!self.builder.is_empty(), "a block has rows");
        let follows = self.locations.is_empty() || self.last_key.as_slice() < self.builder.first_key();
        assert!(follows, "T1: all versions of {:?} are in one block", self.builder.first_key());
        let mut offset = self.out.len();
        store(&mut self.out);
        offset += self.pad_last(self.fit.padding(offset, self.out.len() - offset));
        let stored = self.out.get(offset..).unwrap_or_default();
        self.fit.observe(self.builder.raw_bytes(), stored);
        self.raw_bytes_max = self.fit.raw_bytes_max(self.out.len());
        self.locations.push(Location {
            offset: offset as u32,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            rows: self.builder.len() as u32,
            checksum: xxhash_rust::xxh3::xxh3_64(stored),
        });
        self.first_keys.push(self.builder.first_key().into());
        self.last_key.clear();
        self.last_key.extend_from_slice(self.builder.last_key());
        self.rows += self.builder.len() as u64;
        self.raw_bytes += self.builder.raw_bytes() as u64;
        self.seqs = (self.seqs.0.min(self.builder.min_seq()), self.seqs.1.max(self.builder.max_seq()));
        if let Some(kept) = &mut self.kept {
            let block = self.builder.block();
            let charge = charge_of(&block, &self.io.cache);
            kept.push((block, charge));
        }
        self.builder.clear();
        self.charge.resize(self.memory_bytes());
    }

    /// Pads the last block that has a place, behind which the stored form of another one is already. Returns the bytes.
    fn pad_last(&mut self, padding: usize) -> usize {
        let Some(last) = self.locations.last_mut().filter(|_| padding > 0) else { return 0 };
        let begin = last.offset as usize;
        codec::pad(&mut self.out, begin..begin + last.stored_bytes as usize, padding);
        last.stored_bytes += padding as u32;
        let stored = self.out.get(begin..begin + last.stored_bytes as usize).unwrap_or_default();
        last.checksum = xxhash_rust::xxh3::xxh3_64(stored);
        padding
    }

    /// About: the table so far, and for each row a hash, for each block its place and first key.
    fn memory_bytes(&self) -> u64 {
        let hashes = self.filter.as_ref().map_or(0, FilterBuilder::memory_bytes);
        (self.out.capacity() + hashes + self.locations.capacity() * 2 * size_of::<Location>()) as u64
    }

    /// Writes the table. `as_of`: up to which number everything was merged in. `None`: there was nothing to write.
    pub fn finish(mut self, as_of: Seq) -> Result<Option<Arc<Table>>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.cut();
        let index_begin = self.out.len();
        let parts = IndexParts {
            index: KeyIndex::new(self.first_keys.iter().map(|key| &**key)),
            last_key: self.last_key.clone(),
            filter: self.filter.as_ref().filter(|filter| !filter.is_empty()).map(FilterBuilder::finish),
            tombstones: std::mem::take(&mut self.tombstones),
            locations: std::mem::take(&mut self.locations),
        };
        parts.encode(&mut self.out);
        if self.out.len() > u32::MAX as usize {
            return Err(Error::Other(format!("a table of {} bytes is too large", self.out.len())));
        }
        let table = Arc::new(self.write(index_begin, &parts, as_of)?);
        if let Some(kept) = self.kept.take() {
            let body = table.keep_body(TableBody::new(parts, &table), self.io);
            for (at, (block, charge)) in kept.into_iter().enumerate() {
                drop(body.keep_charged(at, block, charge, self.io, Arrival::Written));
            }
        }
        Ok(Some(table))
    }

    fn write(&mut self, index_begin: usize, parts: &IndexParts, as_of: Seq) -> Result<Table> {
        let index = self.out.get(index_begin..).unwrap_or_default();
        let (index_bytes, index_checksum) = (index.len() as u32, xxhash_rust::xxh3::xxh3_64(index));
        self.out.resize(self.out.len().next_multiple_of(UNIT as usize), 0);
        let extent = self.io.space.allocate(self.out.len() as u64)?;
        assert!(
            extent.bytes() == self.out.len() as u64,
            "the table fills its extent, so that no older bytes are in it"
        );
        let rows: u64 = parts.locations.iter().map(|location| u64::from(location.rows)).sum();
        assert!(rows == self.rows && parts.index.key(0) <= parts.last_key.as_slice(), "{rows} of {} rows", self.rows);
        let meta = TableMeta {
            offset: extent.offset(),
            bytes: extent.bytes(),
            index_offset: extent.offset() + index_begin as u64,
            index_bytes,
            index_checksum,
            rows: self.rows,
            raw_bytes: self.raw_bytes,
            min_seq: self.seqs.0,
            max_seq: self.seqs.1.max(as_of),
            first_key: parts.index.key(0).to_vec(),
            last_key: parts.last_key.clone(),
            level: self.level,
            tree: self.tree,
            has_tombstones: !parts.tombstones.is_empty(),
            has_versions: self.level == 0 && self.seqs.1 > Seq::ZERO,
            made_with: if self.is_mixed { 0 } else { self.mark },
            blobs: self.blobs.values().map(|blob| (blob.offset(), blob.bytes())).collect(),
        };
        if let Some(header) = self.out.first_chunk_mut::<HEADER_BYTES>() {
            *header = meta.header();
        }
        self.io.file.write(extent.offset(), &self.out)?;
        let counter = if self.level == 0 { Counter::LeafBytesWritten } else { Counter::RunBytesWritten };
        self.io.counters.add(counter, self.out.len() as u64);
        let blobs = std::mem::take(&mut self.blobs).into_values().collect();
        Ok(Table::new(meta, extent, blobs, &self.io.cache))
    }
}
