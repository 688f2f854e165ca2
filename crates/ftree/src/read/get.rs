//! One key.
//!
//! From the newest to the oldest: memtables, runs on the path, the leaf. The first put or delete that the reader sees
//! ends the search; updates are gathered on the way and applied to what is under them. The leaf's block is read
//! before the runs, if it is in memory: ripened, it holds what most runs would say (R1).

use std::sync::Arc;

use arbor_base::memory::values;

use super::Reader;
use super::overlay::apply_all;
use super::path::{Path, Place};
use crate::block::Block;
use crate::counters::Counter;
use crate::memtable::MemTree;
use crate::table::Table;
use crate::tree::{Child, TreeVersion};
use crate::{Entry, Kind, RangeTombstone, Result, Seq, blob, filter};

/// Outcome of a search for one key.
pub enum Got {
    Row(Option<Vec<u8>>),
    /// The row has this many bytes, and the statement of the thread has to reserve memory for them, without a version of the tree.
    TooLarge(usize),
}

/// Reads the value of `key` as the reader sees it.
pub fn get(version: &TreeVersion, reader: &Reader<'_>, key: &[u8]) -> Result<Got> {
    let mut search = Search {
        reader,
        key,
        hash: filter::hash(key),
        above: Seq::ZERO,
        deleted: None,
        updates: Vec::new(),
        found: None,
        too_large: None,
    };
    search.version(version)?;
    search.finish()
}

/// A put or delete that ends a search.
struct Final {
    kind: Kind,
    value: Vec<u8>,
}

struct Search<'a> {
    reader: &'a Reader<'a>,
    key: &'a [u8],
    hash: u64,
    /// Entries with this number or a lower one are in the block (R1).
    above: Seq,
    /// The newest range tombstone found so far.
    deleted: Option<Seq>,
    /// Chains, newest first.
    updates: Vec<(Seq, Vec<u8>)>,
    found: Option<Final>,
    /// As in [`Got::TooLarge`], of a value in memory.
    too_large: Option<usize>,
}

impl Search<'_> {
    fn version(&mut self, version: &TreeVersion) -> Result<()> {
        for part in std::iter::once(&version.active).chain(version.frozen.iter().rev()) {
            if !part.is_empty() && self.memtable(part) {
                return Ok(());
            }
        }
        let path = Path::to(version, Place::From(self.key));
        match path.child {
            Child::Leaf(leaf) => self.leaf(&path, leaf),
            Child::Empty | Child::Inner(_) => self.runs(&path).map(drop),
        }
    }

    /// Like the functions below: whether the search is over.
    fn memtable(&mut self, part: &MemTree) -> bool {
        self.tombstones(&part.tombstones());
        if part.may_contain(self.hash) {
            let mut cursor = part.cursor();
            cursor.seek_at(self.key, self.reader.at);
            while let Some(entry) = cursor.entry().filter(|entry| entry.key == self.key) {
                if self.offer(entry) {
                    return true;
                }
                cursor.next();
            }
        }
        self.deleted.is_some()
    }

    fn runs(&mut self, path: &Path<'_>) -> Result<bool> {
        for run in path.runs() {
            let meta = &run.table.meta;
            if meta.max_seq > self.above && meta.may_hold(self.key) && self.run(&run.table)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run(&mut self, table: &Arc<Table>) -> Result<bool> {
        let body = table.body(self.reader.io)?;
        if table.meta.has_tombstones {
            self.tombstones(body.tombstones());
        }
        // A run may hold range tombstones alone.
        if body.block_count() > 0 && body.may_contain(self.hash) {
            let block = body.block(body.block_of(self.key), self.reader.io)?;
            if self.block(&block) {
                return Ok(true);
            }
        }
        Ok(self.deleted.is_some())
    }

    fn leaf(&mut self, path: &Path<'_>, leaf: &Arc<Table>) -> Result<()> {
        let io = self.reader.io;
        self.above = leaf.meta.max_seq;
        let body = leaf.body(io)?;
        let at = body.block_of(self.key);
        let cached = body.cached(at);
        let ripe = cached.as_deref().is_some_and(|block| self.is_ripe(block));
        if let Some(block) = cached.as_deref().filter(|_| ripe) {
            self.above = block.as_of();
        }
        if self.runs(path)? {
            return Ok(());
        }
        if !ripe && !body.may_contain(self.hash) {
            return Ok(());
        }
        let block = match cached {
            Some(block) => {
                io.counters.add(Counter::LeafBlockHits, 1);
                block
            }
            None => body.block(at, io)?,
        };
        // Another thread may have ripened the block since the runs were searched.
        let above = if self.is_ripe(&block) { block.as_of() } else { self.above };
        self.updates.retain(|(seq, _)| *seq > above);
        self.above = Seq::ZERO;
        self.block(&block);
        Ok(())
    }

    /// Returns true if the block holds what runs say of the key.
    fn is_ripe(&self, block: &Block) -> bool {
        let reaches = |(low, high): (&[u8], Option<&[u8]>)| low <= self.key && high.is_none_or(|high| self.key < high);
        block.as_of() > self.above && block.reach().is_none_or(reaches)
    }

    #[inline]
    fn block(&mut self, block: &Block) -> bool {
        let first = block.lower_bound(self.key);
        for row in first..block.len() {
            if block.key(row) != self.key {
                return false;
            }
            if self.offer(block.entry(row)) {
                return true;
            }
        }
        false
    }

    fn tombstones(&mut self, tombstones: &[RangeTombstone]) {
        let (at, above) = (self.reader.at, self.above);
        for tombstone in tombstones {
            if above < tombstone.seq && tombstone.seq <= at && tombstone.covers(self.key) {
                self.deleted = self.deleted.max(Some(tombstone.seq));
            }
        }
    }

    /// Takes the next older entry of the key. True: nothing older matters.
    fn offer(&mut self, entry: Entry<'_>) -> bool {
        if entry.seq > self.reader.at || (entry.seq <= self.above && self.above > Seq::ZERO) {
            return false;
        }
        if self.deleted.is_some_and(|deleted| entry.seq < deleted) {
            return true;
        }
        if entry.kind == Kind::Update {
            self.updates.push((entry.seq, entry.value.to_vec()));
            return false;
        }
        // one of a memtable may be large
        if values::must_wait(entry.value.len()) {
            self.too_large = Some(entry.value.len());
            return true;
        }
        self.found = Some(Final { kind: entry.kind, value: entry.value.to_vec() });
        true
    }

    fn finish(self) -> Result<Got> {
        debug_assert!(
            self.updates.is_sorted_by(|newer, older| newer.0 >= older.0),
            "I1: updates are found newest first"
        );
        let is_blob = |found: &&Final| found.kind == Kind::PutBlob;
        let blob_bytes =
            self.found.as_ref().filter(is_blob).map(|found| blob::value_bytes(&found.value)).transpose()?;
        if let Some(bytes) = self.too_large.or(blob_bytes.filter(|bytes| values::must_wait(*bytes))) {
            return Ok(Got::TooLarge(bytes));
        }
        let (kind, value) = self.found.map_or((Kind::Delete, Vec::new()), |found| (found.kind, found.value));
        if !self.updates.is_empty() {
            let chains = self.updates.iter().map(|(_, chain)| chain.as_slice());
            return apply_all(self.reader, self.key, kind, &value, chains).map(Got::Row);
        }
        match kind {
            Kind::Put => Ok(Got::Row(Some(value))),
            Kind::PutBlob => blob::load(self.reader.io, &value).map(|value| Got::Row(Some(value))),
            Kind::Delete | Kind::Update => Ok(Got::Row(None)),
        }
    }
}
