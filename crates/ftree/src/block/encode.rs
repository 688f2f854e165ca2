//! Building a block, and its raw form on disk (compressed as a whole afterwards).
//!
//! | part | bytes |
//! |---|---|
//! | version, now 1 | 1 |
//! | flags: bit 0 plain, bit 1 key suffixes transposed | 1 |
//! | rows | 4 |
//! | length of the prefix that all keys share | 4 |
//! | key lengths, value lengths, kinds, sequence numbers | packed arrays, see [`crate::packed`] |
//! | the prefix, then the keys without it | |
//! | values | the rest |
//!
//! All numbers are little-endian. Keys of one length with at most 16 bytes after the prefix are stored as differences to
//! their predecessor (big-endian numbers), first all first bytes, then all second bytes and so on: neighbouring keys
//! become runs of zeros, which every codec removes.

use std::ops::Range;

use arbor_base::paranoid;

use super::{Block, Spans};
use crate::key_index::{Heads, common_prefix};
use crate::packed::{self, PackedInts};
use crate::{Entry, Kind, Seq};

pub(super) const VERSION: u8 = 1;
pub(super) const FLAG_PLAIN: u8 = 1;
pub(super) const FLAG_TRANSPOSED: u8 = 2;
/// Key bytes after the prefix that fit into the number whose differences are stored.
pub(super) const SUFFIX_MAX: usize = 16;

#[derive(Clone, Copy)]
struct Row {
    key_end: u32,
    value_end: u32,
    seq: u64,
    kind: Kind,
}

/// Rows in order, less than 4 GiB of keys and of values. Keeps its memory when cleared.
#[derive(Default)]
pub struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    rows: Vec<Row>,
}

impl BlockBuilder {
    #[inline]
    pub fn push(&mut self, entry: Entry<'_>) {
        debug_assert!(self.precedes(entry.key, entry.seq), "E1: {:?} comes too late", entry.key);
        self.keys.extend_from_slice(entry.key);
        self.values.extend_from_slice(entry.value);
        let (key_end, value_end) = (self.keys.len() as u32, self.values.len() as u32);
        self.rows.push(Row { key_end, value_end, seq: entry.seq.0, kind: entry.kind });
    }

    /// Returns true if an entry with this key and number may follow the last row (E1).
    fn precedes(&self, key: &[u8], seq: Seq) -> bool {
        self.rows.last().is_none_or(|last| self.last_key() < key || (self.last_key() == key && seq.0 <= last.seq))
    }

    /// Appends rows of another block.
    pub fn push_rows(&mut self, block: &Block, range: Range<usize>) {
        let range = range.start..range.end.min(block.len());
        if range.is_empty() {
            return;
        }
        debug_assert!(self.precedes(block.key(range.start), block.seq(range.start)), "E1: the rows follow");
        let (keys_from, keys_before) = (block.keys.range(range.start, range.end).0, self.keys.len());
        let (values_from, values_before) = (block.values.range(range.start, range.end).0, self.values.len());
        self.keys.extend_from_slice(block.keys.slices(&block.bytes, &range));
        self.values.extend_from_slice(block.values.slices(&block.bytes, &range));
        let row = |at| Row {
            key_end: (keys_before + block.keys.range(at, at + 1).1 - keys_from) as u32,
            value_end: (values_before + block.values.range(at, at + 1).1 - values_from) as u32,
            seq: block.seqs.get(at),
            kind: block.kind(at),
        };
        self.rows.extend(range.map(row));
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the approximate size of the raw form.
    #[inline]
    pub fn raw_bytes(&self) -> usize {
        self.keys.len() + self.values.len() + 2 * self.rows.len()
    }

    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.rows.clear();
    }

    fn key(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).and_then(|before| self.rows.get(before)).map_or(0, |row| row.key_end);
        let to = self.rows.get(at).map_or(0, |row| row.key_end);
        self.keys.get(from as usize..to as usize).unwrap_or_default()
    }

    pub fn first_key(&self) -> &[u8] {
        self.key(0)
    }

    pub fn last_key(&self) -> &[u8] {
        self.rows.len().checked_sub(1).map_or(&[], |last| self.key(last))
    }

    pub fn max_seq(&self) -> Seq {
        Seq(self.rows.iter().map(|row| row.seq).max().unwrap_or(0))
    }

    pub fn min_seq(&self) -> Seq {
        Seq(self.rows.iter().map(|row| row.seq).min().unwrap_or(0))
    }

    fn lengths(&self, end: impl Fn(&Row) -> u32 + Clone) -> impl Iterator<Item = u64> + Clone {
        self.rows.iter().scan(0, move |before, row| {
            let end = end(row);
            Some(u64::from(end - std::mem::replace(before, end)))
        })
    }

    fn is_plain(&self) -> bool {
        self.rows.iter().all(|row| row.seq == 0 && matches!(row.kind, Kind::Put | Kind::PutBlob))
            && (1..self.rows.len()).all(|at| self.key(at - 1) != self.key(at))
    }

    /// The raw form; the builder is empty afterwards.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(self.raw_bytes() + 64 + 12 * self.rows.len());
        self.encode(&mut raw);
        self.clear();
        raw
    }

    /// Appends the raw form.
    pub fn encode(&self, raw: &mut Vec<u8>) {
        let start = raw.len();
        assert!(self.keys.len().max(self.values.len()) <= u32::MAX as usize, "ends of keys and values are 4 bytes");
        let prefix = common_prefix(self.first_key(), self.last_key());
        let suffix = self.fixed(|row| row.key_end).map(|len| len - prefix).filter(|len| (1..=SUFFIX_MAX).contains(len));
        let plain = if self.is_plain() { FLAG_PLAIN } else { 0 };
        let transposed = if suffix.is_some() { FLAG_TRANSPOSED } else { 0 };
        raw.extend_from_slice(&[VERSION, plain | transposed]);
        raw.extend_from_slice(&(self.rows.len() as u32).to_le_bytes());
        raw.extend_from_slice(&(prefix as u32).to_le_bytes());
        packed::encode(self.lengths(|row| row.key_end), raw);
        packed::encode(self.lengths(|row| row.value_end), raw);
        packed::encode(self.rows.iter().map(|row| row.kind as u64), raw);
        packed::encode(self.rows.iter().map(|row| row.seq), raw);
        raw.extend_from_slice(self.first_key().get(..prefix).unwrap_or_default());
        match suffix {
            Some(suffix) => transpose(&self.keys, prefix, suffix, raw),
            None => (0..self.rows.len()).for_each(|at| raw.extend(self.key(at).get(prefix..).unwrap_or_default())),
        }
        raw.extend_from_slice(&self.values);
        paranoid!(self.is_read_from(raw.get(start..).unwrap_or_default()), "a block is read as it was written");
    }

    fn is_read_from(&self, raw: &[u8]) -> bool {
        let same = |block: Block| block.len() == self.rows.len() && block.last_key() == self.last_key();
        Block::decode(raw).is_ok_and(same)
    }

    /// The one length of all keys, or of all values.
    fn fixed(&self, end: impl Fn(&Row) -> u32 + Clone) -> Option<usize> {
        let mut lengths = self.lengths(end);
        let first = lengths.next()?;
        lengths.all(|length| length == first).then_some(first as usize)
    }

    /// The block without the way over its raw form; the builder is empty afterwards.
    pub fn finish_block(&mut self) -> Block {
        let block = self.block();
        self.clear();
        block
    }

    pub fn block(&self) -> Block {
        let mut bytes = Vec::with_capacity(self.keys.len() + self.values.len());
        bytes.extend_from_slice(&self.keys);
        bytes.extend_from_slice(&self.values);
        let kinds: Vec<u64> = self.rows.iter().map(|row| row.kind as u64).collect();
        let seqs: Vec<u64> = self.rows.iter().map(|row| row.seq).collect();
        Block {
            rows: self.rows.len(),
            heads: Heads::new(self.rows.len(), |at| self.key(at)),
            keys: self.spans(0, |row| row.key_end),
            values: self.spans(self.keys.len(), |row| row.value_end),
            bytes: bytes.into(),
            kinds: PackedInts::new(&kinds),
            seqs: PackedInts::new(&seqs),
            max_seq: self.max_seq(),
            plain: self.is_plain(),
            as_of: Seq::ZERO,
            reach: None,
        }
    }

    fn spans(&self, first: usize, end: impl Fn(&Row) -> u32 + Clone) -> Spans {
        match self.fixed(end.clone()) {
            Some(len) => Spans::Fixed { first, len },
            None => {
                let ends = self.rows.iter().map(|row| first as u32 + end(row));
                Spans::Starts(std::iter::once(first as u32).chain(ends).collect())
            }
        }
    }
}

/// Appends the differences of keys of `prefix + suffix` bytes, transposed.
fn transpose(keys: &[u8], prefix: usize, suffix: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let rows = keys.len() / (prefix + suffix);
    out.resize(start + rows * suffix, 0);
    let planes = out.get_mut(start..).unwrap_or_default();
    let mut before = 0u128;
    for (row, key) in keys.chunks_exact(prefix + suffix).enumerate() {
        let number =
            key.get(prefix..).unwrap_or_default().iter().fold(0, |number, &byte| number << 8 | u128::from(byte));
        let difference = number.wrapping_sub(std::mem::replace(&mut before, number)).to_be_bytes();
        for (plane, &byte) in difference.iter().skip(SUFFIX_MAX - suffix).enumerate() {
            if let Some(place) = planes.get_mut(plane * rows + row) {
                *place = byte;
            }
        }
    }
}
