//! Merging messages with the rows below them.
//!
//! PERF: leaf rows that no message and no tombstone touches are never read one by one: a search in the block finds the
//! row where the next message belongs, and all before it go to the sink as a range. A message that needs no folding
//! ([`Fold::alone`]) goes from its source to the sink without a copy between.

use std::ops::Range;

use super::{Fold, FoldResult, Fragments, Merge, RetainedVersion, Source, Versions};
use crate::block::Block;
use crate::table::StoredBlock;
use crate::{Entry, Result, Seq};

/// Blocks of rows, read forwards. Never positioned after the last row of a block.
pub trait Rows {
    /// The current block and row; `None` at the end.
    fn block(&self) -> Option<(&Block, usize)>;

    /// The block as it is stored, when that is at hand.
    fn stored(&self) -> Option<StoredBlock<'_>> {
        None
    }

    /// Goes to a later row of the block; `row == block.len()`: to the next block.
    fn pass_to(&mut self, row: usize) -> Result<()>;

    fn entry(&self) -> Option<Entry<'_>> {
        self.block().map(|(block, row)| block.entry(row))
    }

    fn key(&self) -> Option<&[u8]> {
        self.block().map(|(block, row)| block.key(row))
    }

    fn advance(&mut self) -> Result<()> {
        match self.block().map(|(_, row)| row + 1) {
            Some(row) => self.pass_to(row),
            None => Ok(()),
        }
    }
}

/// No rows.
pub struct NoRows;

impl Rows for NoRows {
    fn block(&self) -> Option<(&Block, usize)> {
        None
    }

    fn pass_to(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
}

/// Takes what is kept, in the order E1.
pub trait Sink {
    /// Before the first entry of each key, and before each range of rows.
    fn begin(&mut self, key: &[u8]) -> Result<()>;

    fn push(&mut self, entry: Entry<'_>) -> Result<()>;

    fn push_rows(&mut self, block: &Block, rows: Range<usize>) -> Result<()>;

    /// All rows of a block.
    fn push_block(&mut self, block: &Block, stored: StoredBlock<'_>) -> Result<()> {
        let _ = stored;
        self.push_rows(block, 0..block.len())
    }
}

pub struct MessageMerge<'a, S, R> {
    pub messages: Merge<S>,
    /// Older than all messages.
    pub rows: R,
    pub fold: Fold<'a>,
    /// Range tombstones of messages and rows.
    pub fragments: &'a Fragments,
    place: usize,
    versions: Versions,
    kept: Vec<RetainedVersion>,
}

impl<'a, S: Source, R: Rows> MessageMerge<'a, S, R> {
    pub fn new(messages: Merge<S>, rows: R, fold: Fold<'a>, fragments: &'a Fragments) -> MessageMerge<'a, S, R> {
        let (versions, kept) = (Versions::default(), Vec::new());
        MessageMerge { messages, rows, fold, fragments, place: 0, versions, kept }
    }

    /// Moves on by one message key or by rows before it. `false` at the end.
    pub fn step(&mut self, sink: &mut impl Sink) -> Result<bool> {
        let message = self.messages.key();
        let Some((block, row)) = self.rows.block() else {
            let more = message.is_some();
            if more {
                self.message(sink)?;
            }
            return Ok(more);
        };
        let end = message.map_or(block.len(), |key| block.lower_bound(key));
        if end > row {
            self.rows_to(end, sink)?;
        } else {
            self.message(sink)?;
        }
        Ok(true)
    }

    /// Merges the messages of the current key with its rows.
    fn message(&mut self, sink: &mut impl Sink) -> Result<()> {
        let Some(message) = self.messages.entry() else { return Ok(()) };
        if let Some(result) = self.fold.alone(&message)
            && self.deleted_as_of(message.key).is_none_or(|deleted| message.seq >= deleted)
        {
            if let FoldResult::Keep(seq) = result {
                sink.begin(message.key)?;
                sink.push(Entry { seq, ..message })?;
            }
            while self.rows.key() == Some(message.key) {
                self.rows.advance()?;
            }
            return self.messages.pass_key();
        }
        self.versions.begin(message.key);
        while let Some(message) = self.messages.entry().filter(|message| message.key == self.versions.key()) {
            if !self.fold.hides(&self.versions, message.seq) {
                self.versions.push(message);
            }
            self.messages.advance()?;
        }
        self.fold_with_rows(sink)
    }

    /// Adds the rows of the key and lets the sink have what is kept.
    fn fold_with_rows(&mut self, sink: &mut impl Sink) -> Result<()> {
        while let Some(row) = self.rows.entry().filter(|row| row.key == self.versions.key()) {
            if !self.fold.hides(&self.versions, row.seq) {
                self.versions.push(row);
            }
            self.rows.advance()?;
        }
        if let Some(fragment) = self.fragments.covering(&mut self.place, self.versions.key()) {
            self.versions.push_tombstones(&fragment.seqs);
        }
        self.fold.fold(&self.versions, &mut self.kept)?;
        if !self.kept.is_empty() {
            sink.begin(self.versions.key())?;
        }
        self.kept.iter().try_for_each(|kept| sink.push(kept.entry(&self.versions)))
    }

    /// The newest tombstone over a key that is not passed yet.
    fn deleted_as_of(&self, key: &[u8]) -> Option<Seq> {
        if self.fragments.is_empty() {
            return None;
        }
        self.fragments.covering(&mut self.place.clone(), key).map(|fragment| fragment.newest())
    }

    /// Copies rows up to `end` in the block, which no message touches. Requires: `end` is after the current row.
    fn rows_to(&mut self, end: usize, sink: &mut impl Sink) -> Result<()> {
        let Some((block, row)) = self.rows.block() else { return Ok(()) };
        debug_assert!(row < end && end <= block.len(), "rows {row}..{end} of {}", block.len());
        let key = block.key(row);
        let (end, tombstone) = match self.fragments.at_or_after(&mut self.place, key) {
            None => (end, None),
            Some(fragment) if key < fragment.from.as_slice() => (end.min(block.lower_bound(&fragment.from)), None),
            Some(fragment) => {
                let covered = fragment.to.as_deref().map_or(end, |to| end.min(block.lower_bound(to)));
                (covered, Some(fragment.newest()))
            }
        };
        let plain = block.is_plain() && self.fold.bottom;
        match tombstone {
            None if plain => {
                sink.begin(key)?;
                match self.rows.stored() {
                    Some(stored) if row == 0 && end == block.len() => sink.push_block(block, stored)?,
                    _ => sink.push_rows(block, row..end)?,
                }
                self.rows.pass_to(end)
            }
            Some(newest) if plain && self.fold.is_total(newest) => self.rows.pass_to(end),
            _ => {
                self.versions.begin(key);
                self.fold_with_rows(sink)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::BlockBuilder;
    use crate::merge::Slice;
    use crate::{Kind, RangeTombstone};

    type Owned = (Vec<u8>, Seq, Kind, Vec<u8>);

    fn entry(owned: &Owned) -> Entry<'_> {
        Entry { key: &owned.0, seq: owned.1, kind: owned.2, value: &owned.3 }
    }

    fn owned(entry: Entry<'_>) -> Owned {
        (entry.key.to_vec(), entry.seq, entry.kind, entry.value.to_vec())
    }

    struct Blocks {
        blocks: Vec<Block>,
        at: usize,
        row: usize,
    }

    impl Blocks {
        fn new(rows: &[Owned], rows_per_block: usize) -> Blocks {
            let block = |rows: &[Owned]| {
                let mut builder = BlockBuilder::default();
                rows.iter().for_each(|row| builder.push(entry(row)));
                builder.finish_block()
            };
            Blocks { blocks: rows.chunks(rows_per_block).map(block).collect(), at: 0, row: 0 }
        }
    }

    impl Rows for Blocks {
        fn block(&self) -> Option<(&Block, usize)> {
            self.blocks.get(self.at).map(|block| (block, self.row))
        }

        fn pass_to(&mut self, row: usize) -> Result<()> {
            assert!(row > self.row);
            self.row = row;
            if row == self.blocks[self.at].len() {
                (self.at, self.row) = (self.at + 1, 0);
            }
            Ok(())
        }
    }

    #[derive(Default)]
    struct Collected {
        entries: Vec<Owned>,
        begun: Vec<Vec<u8>>,
        in_ranges: usize,
    }

    impl Sink for Collected {
        fn begin(&mut self, key: &[u8]) -> Result<()> {
            self.begun.push(key.to_vec());
            Ok(())
        }

        fn push(&mut self, entry: Entry<'_>) -> Result<()> {
            assert_eq!(self.begun.last().map(Vec::as_slice), Some(entry.key));
            self.entries.push(owned(entry));
            Ok(())
        }

        fn push_rows(&mut self, block: &Block, rows: Range<usize>) -> Result<()> {
            assert!(!rows.is_empty());
            self.in_ranges += rows.len();
            self.entries.extend(rows.map(|row| owned(block.entry(row))));
            Ok(())
        }
    }

    fn no_blobs(_: &[u8]) -> Result<Vec<u8>> {
        unreachable!()
    }

    fn flow(messages: &[Vec<Owned>], rows: impl Rows, fold: Fold<'_>, fragments: &Fragments) -> Collected {
        let messages: Vec<Vec<Entry<'_>>> = messages.iter().map(|list| list.iter().map(entry).collect()).collect();
        let merge = Merge::new(messages.iter().map(|list| Slice::new(list)).collect(), 0);
        let mut message_merge = MessageMerge::new(merge, rows, fold, fragments);
        let mut sink = Collected::default();
        while message_merge.step(&mut sink).unwrap() {}
        sink
    }

    /// Versions of a key with falling sequence numbers, on some keys.
    fn level(newest: u64, oldest: u64) -> impl Strategy<Value = Vec<Owned>> {
        let versions = prop::collection::btree_map(oldest..=newest, (any::<bool>(), b'a'..=b'z'), 0..3);
        prop::collection::btree_map(0u8..30, versions, 0..12).prop_map(|keys| {
            let versions = keys.into_iter().flat_map(|(key, versions)| {
                versions.into_iter().rev().map(move |(seq, (put, value))| {
                    let (kind, value) = if put { (Kind::Put, vec![value]) } else { (Kind::Delete, Vec::new()) };
                    (vec![key], Seq(seq), kind, value)
                })
            });
            versions.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 400 }))]

        #[test]
        fn rows_in_blocks_are_a_source_like_any_other(
            newer in level(20, 15),
            older in level(14, 10),
            rows in level(9, 1),
            tombstones in prop::collection::vec((0u8..30, prop::option::of(0u8..31), 8u64..20), 0..4),
            stripes in prop::collection::btree_set(0u64..21, 0..4),
            rows_per_block in 1usize..6,
        ) {
            let tombstones: Vec<RangeTombstone> = tombstones.into_iter().map(|(from, to, seq)| {
                RangeTombstone { from: vec![from], to: to.map(|to| vec![to]), seq: Seq(seq) }
            }).collect();
            let stripes: Vec<Seq> = stripes.into_iter().map(Seq).collect();
            let none = Fragments::default();
            let fragments = Fragments::new(&tombstones, &stripes, &[], None);
            for bottom in [false, true] {
                let fold = Fold { stripes: &stripes, bottom, updates: None, load_blob: &no_blobs };
                // rows as a job before has left them
                let rows = flow(std::slice::from_ref(&rows), NoRows, fold, &none).entries;
                let blocks = Blocks::new(&rows, rows_per_block);
                let found = flow(&[newer.clone(), older.clone()], blocks, fold, &fragments);
                let expect = flow(&[newer.clone(), older.clone(), rows], NoRows, fold, &fragments);
                prop_assert_eq!(found.entries, expect.entries);
                prop_assert!(found.begun.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", found.begun);
            }
        }
    }

    #[test]
    fn untouched_rows_go_in_ranges_and_deleted_ones_are_not_read() {
        let rows: Vec<Owned> = (0..100).map(|key| (vec![key], Seq::ZERO, Kind::Put, vec![key])).collect();
        let messages = vec![vec![(vec![25], Seq(5), Kind::Put, vec![0]), (vec![31], Seq(5), Kind::Delete, vec![])]];
        let fold = Fold { stripes: &[], bottom: true, updates: None, load_blob: &no_blobs };
        let found = flow(&messages, Blocks::new(&rows, 10), fold, &Fragments::default());
        assert_eq!((found.entries.len(), found.in_ranges, found.begun.len()), (99, 98, 13));
        let tombstone = RangeTombstone { from: vec![8], to: Some(vec![95]), seq: Seq(4) };
        let fragments = Fragments::new([&tombstone], &[], &[], None);
        let found = flow(&messages, Blocks::new(&rows, 10), fold, &fragments);
        assert_eq!((found.entries.len(), found.in_ranges, found.begun.len()), (14, 13, 3));
    }
}
