//! A decoded block: the unit that is read, cached and searched; rows in the order E1.
//!
//! Keys and values share one allocation, keys first. Where all keys (or values) have one length there are no offsets.
//!
//! - [`encode`]: [`BlockBuilder`], and the raw form on disk
//! - [`decode`]: from the raw form

mod decode;
mod encode;

pub use encode::BlockBuilder;

use std::ops::Range;

use crate::cache::heap_bytes;
use crate::key_index::Heads;
use crate::packed::PackedInts;
use crate::{Entry, Kind, Seq};

/// The keys from one on to before another, or to the end.
type Reach = Box<(Vec<u8>, Option<Vec<u8>>)>;

pub struct Block {
    rows: usize,
    heads: Heads,
    keys: Spans,
    values: Spans,
    bytes: Box<[u8]>,
    kinds: PackedInts,
    seqs: PackedInts,
    max_seq: Seq,
    plain: bool,
    as_of: Seq,
    /// `from <= key < to` for which `as_of` holds; `None`: for all that the block is responsible for.
    reach: Option<Reach>,
}

/// Positions of one column's slices in the bytes.
enum Spans {
    Fixed {
        first: usize,
        len: usize,
    },
    /// One more than rows: the last one is the end.
    Starts(Box<[u32]>),
}

impl Spans {
    #[inline]
    fn slice<'a>(&self, bytes: &'a [u8], at: usize) -> &'a [u8] {
        self.slices(bytes, &(at..at + 1))
    }

    /// Returns neighbouring rows as one slice.
    #[inline]
    fn slices<'a>(&self, bytes: &'a [u8], rows: &Range<usize>) -> &'a [u8] {
        let (from, to) = self.range(rows.start, rows.end);
        bytes.get(from..to).unwrap_or_default()
    }

    /// Returns the byte range of the rows from one to before another.
    #[inline]
    fn range(&self, from: usize, to: usize) -> (usize, usize) {
        match self {
            Spans::Fixed { first, len } => (first + from * len, first + to * len),
            Spans::Starts(starts) => match (starts.get(from), starts.get(to)) {
                (Some(&from), Some(&to)) => (from as usize, to as usize),
                _ => (0, 0),
            },
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Spans::Fixed { .. } => 0,
            Spans::Starts(starts) => heap_bytes(starts.len() * 4),
        }
    }
}

/// Requires of all `at`: below `len`. Beyond it the answer is any row or an empty one.
impl Block {
    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        self.keys.slice(&self.bytes, at)
    }

    #[inline]
    pub fn value(&self, at: usize) -> &[u8] {
        self.values.slice(&self.bytes, at)
    }

    #[inline]
    pub fn seq(&self, at: usize) -> Seq {
        Seq(self.seqs.get(at))
    }

    #[inline]
    pub fn kind(&self, at: usize) -> Kind {
        Kind::from_byte(self.kinds.get(at) as u8).unwrap_or(Kind::Put)
    }

    #[inline]
    pub fn entry(&self, at: usize) -> Entry<'_> {
        debug_assert!(at < self.rows, "row {at} of {}", self.rows);
        Entry { key: self.key(at), seq: self.seq(at), kind: self.kind(at), value: self.value(at) }
    }

    pub fn first_key(&self) -> &[u8] {
        if self.rows == 0 { &[] } else { self.key(0) }
    }

    pub fn last_key(&self) -> &[u8] {
        self.rows.checked_sub(1).map_or(&[], |last| self.key(last))
    }

    /// The first row with `key(row) >= key`.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.heads.count(key, false, |at| self.key(at))
    }

    /// The first row with `key(row) > key`.
    #[inline]
    pub fn upper_bound(&self, key: &[u8]) -> usize {
        self.heads.count(key, true, |at| self.key(at))
    }

    /// All rows are puts that every reader sees, one per key: the block may be read as an array.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns the approximate size of these rows in the raw form; as [`BlockBuilder::raw_bytes`].
    #[inline]
    pub fn raw_bytes_of(&self, rows: Range<usize>) -> usize {
        let len = |spans: &Spans| spans.range(rows.start, rows.end).1 - spans.range(rows.start, rows.end).0;
        len(&self.keys) + len(&self.values) + 2 * rows.len()
    }

    /// Some row is a [`Kind::PutBlob`].
    pub fn has_blobs(&self) -> bool {
        match self.kinds.same() {
            Some(kind) => kind == Kind::PutBlob as u64,
            None => (0..self.rows).any(|at| self.kind(at) == Kind::PutBlob),
        }
    }

    /// The greatest sequence number among the rows.
    pub fn max_seq(&self) -> Seq {
        self.max_seq
    }

    /// Up to which number entries from above are merged in already (R1). Zero in a block as it was written.
    #[inline]
    pub fn as_of(&self) -> Seq {
        self.as_of
    }

    /// The keys for which `as_of` holds, where they are fewer than those the block is responsible for.
    #[inline]
    pub fn reach(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.reach.as_deref().map(|(from, to)| (from.as_slice(), to.as_deref()))
    }

    pub fn with_reach(mut self, from: &[u8], to: Option<&[u8]>) -> Block {
        debug_assert!(to.is_none_or(|to| from < to), "R1: a block reaches some keys");
        self.reach = Some(Box::new((from.to_vec(), to.map(<[u8]>::to_vec))));
        self
    }

    pub fn with_as_of(mut self, as_of: Seq) -> Block {
        debug_assert!(self.max_seq <= as_of, "R1: no row is newer than what was merged in");
        self.as_of = as_of;
        self
    }

    /// As the allocator reserves it.
    pub fn memory_bytes(&self) -> usize {
        let bytes = heap_bytes(self.bytes.len());
        let parts = [self.heads.memory_bytes(), self.keys.memory_bytes(), self.values.memory_bytes(), bytes];
        size_of::<Block>() + parts.iter().sum::<usize>() + self.kinds.memory_bytes() + self.seqs.memory_bytes()
    }

    /// Returns true if keys ascend and versions of one key descend (E1); for verification.
    pub fn is_ordered(&self) -> bool {
        (1..self.rows).all(|at| match self.key(at - 1).cmp(self.key(at)) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.seq(at - 1) >= self.seq(at),
            std::cmp::Ordering::Greater => false,
        })
    }
}

#[cfg(test)]
mod tests;
