//! The overlay: entries of memtables and runs above a block, gathered, sorted, and resolved for one reader.
//!
//! Entries are copied into one buffer that the page keeps and fills again, so nothing of a tree version is held on to while
//! a cursor rests. A source that holds too much cuts the window in the direction of travel; what the others gathered
//! beyond the cut is left out when the gathered entries are resolved.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use arbor_base::sometimes;

use super::Reader;
use crate::memtable::MemTree;
use crate::table::Table;
use crate::{Entry, Error, Kind, RangeTombstone, Result, Seq, blob, update};

/// Keys of one source in a page at most, and their bytes.
pub const KEYS_MAX: usize = 256;
const BYTES_MAX: usize = 256 << 10;

/// Maximum memory that is kept for the next page: each thread that reads has one.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The keys that a page shows: `low <= key < high`.
#[derive(Default, Debug)]
pub struct Window {
    pub low: Vec<u8>,
    high: Vec<u8>,
    /// To the end of the tree, whatever `high` holds.
    open: bool,
    /// Which end gives way when there is too much.
    forward: bool,
    /// An end gave way.
    pub cut: bool,
}

impl Window {
    pub fn set(&mut self, (low, high): (&[u8], Option<&[u8]>), forward: bool) {
        self.low.clear();
        self.low.extend_from_slice(low);
        self.high.clear();
        self.high.extend_from_slice(high.unwrap_or_default());
        (self.open, self.forward, self.cut) = (high.is_none(), forward, false);
    }

    /// `None`: to the end of the tree.
    #[inline]
    pub fn high(&self) -> Option<&[u8]> {
        if self.open { None } else { Some(&self.high) }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.is_below_high(key)
    }

    #[inline]
    pub fn is_below_high(&self, key: &[u8]) -> bool {
        self.open || key < self.high.as_slice()
    }
}

/// Which entries count: `above < seq <= at`.
#[derive(Clone, Copy)]
pub struct Visibility {
    pub at: Seq,
    /// Number up to which the block below holds entries already (R1).
    pub above: Seq,
    /// All versions count and not only the newest: for ripening.
    pub all: bool,
}

impl Visibility {
    fn sees(self, seq: Seq) -> bool {
        self.above < seq && seq <= self.at
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Span {
    from: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    key: Span,
    value: Span,
    seq: Seq,
    kind: Kind,
    /// Among those with the same sequence number the lower is the newer.
    source: u32,
}

/// A key that something above the block has changed.
#[derive(Clone, Copy, Debug)]
struct Row {
    key: Span,
    value: Span,
    /// `Put`, `PutBlob`, or `Delete` where the reader sees nothing.
    kind: Kind,
}

#[derive(Default)]
pub struct Overlay {
    bytes: Vec<u8>,
    found: Vec<Found>,
    rows: Vec<Row>,
    pub tombstones: Vec<RangeTombstone>,
    sources: u32,
    /// Tables whose blobs are named by what was gathered.
    holders: Vec<Arc<Table>>,
    /// Runs that were looked into, and entries that they gave.
    pub runs: usize,
    pub merged: usize,
    /// There are updates among them.
    pub has_updates: bool,
    /// Deletes among what was gathered.
    pub deletes: usize,
}

impl Overlay {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.found.clear();
        self.rows.clear();
        self.tombstones.clear();
        self.holders.clear();
        self.has_updates = false;
        (self.sources, self.runs, self.merged, self.deletes) = (0, 0, 0, 0);
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.tombstones.is_empty()
    }

    pub fn add_tombstones(
        &mut self,
        tombstones: &[RangeTombstone],
        bounds: (&[u8], Option<&[u8]>),
        visibility: Visibility,
    ) {
        let overlaps = |tombstone: &RangeTombstone| {
            let (low, high) = bounds;
            high.is_none_or(|high| tombstone.from.as_slice() < high)
                && tombstone.to.as_deref().is_none_or(|to| low < to)
        };
        let seen = tombstones.iter().filter(|tombstone| visibility.sees(tombstone.seq) && overlaps(tombstone));
        self.tombstones.extend(seen.cloned());
    }

    /// `keys_max`: at most [`KEYS_MAX`].
    pub fn gather_memtable(&mut self, part: &MemTree, window: &mut Window, visibility: Visibility, keys_max: usize) {
        let mut cursor = part.cursor();
        let mut gather = Gather::new(self, window, visibility, keys_max);
        if gather.window.forward {
            cursor.seek(&gather.window.low);
            while cursor.entry().is_some_and(|entry| gather.offer(entry)) {
                cursor.next();
            }
        } else {
            match gather.window.high() {
                Some(high) => cursor.seek_before(high),
                None => cursor.last(),
            };
            while cursor.entry().is_some_and(|entry| gather.offer(entry)) {
                cursor.prev();
            }
        }
        gather.end();
    }

    pub fn gather_run(
        &mut self,
        reader: &Reader<'_>,
        table: &Arc<Table>,
        window: &mut Window,
        visibility: Visibility,
        keys_max: usize,
    ) -> Result<()> {
        let before = self.found.len();
        let mut gather = Gather::new(self, window, visibility, keys_max);
        gather.run(reader, table)?;
        gather.end();
        let found = self.found.get(before..).unwrap_or_default();
        self.runs += 1;
        self.has_updates |= found.iter().any(|found| found.kind == Kind::Update);
        self.merged += found.len();
        if found.iter().any(|found| found.kind == Kind::PutBlob) {
            self.holders.push(table.clone());
        }
        Ok(())
    }

    /// Puts what was gathered into the order E1 and leaves out what is outside the window, and range tombstones that the
    /// block holds already.
    pub fn sort(&mut self, window: &Window, above: Seq) {
        let Overlay { bytes, found, tombstones, .. } = self;
        let reaches = |tombstone: &RangeTombstone| {
            window.is_below_high(&tombstone.from) && tombstone.to.as_deref().is_none_or(|to| window.low.as_slice() < to)
        };
        tombstones.retain(|tombstone| tombstone.seq > above && reaches(tombstone));
        let key = |found: &Found| slice(bytes, found.key);
        if window.cut {
            found.retain(|found| window.contains(key(found)));
        }
        if self.sources > 1 {
            found.sort_by(|a, b| (key(a), Reverse(a.seq), a.source).cmp(&(key(b), Reverse(b.seq), b.source)));
        }
    }

    /// The entries of the next key after place `from` of the sorted ones.
    pub fn group(&self, from: usize) -> Range<usize> {
        let Some(first) = self.found.get(from) else { return from..from };
        let key = self.slice(first.key);
        let same = self.found.iter().skip(from).take_while(|found| self.slice(found.key) == key).count();
        from..from + same
    }

    pub fn found_len(&self) -> usize {
        self.found.len()
    }

    pub fn found(&self, at: usize) -> Option<Entry<'_>> {
        let found = self.found.get(at)?;
        Some(Entry { key: self.slice(found.key), seq: found.seq, kind: found.kind, value: self.slice(found.value) })
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if one of the entries has its value in an extent of its own, or a value longer than this.
    pub fn has_blob_or_longer(&self, bytes: usize) -> bool {
        self.found.iter().any(|found| found.kind == Kind::PutBlob || found.value.len as usize > bytes)
    }

    /// Adds the row that the reader sees of a group. `base`: what the block says of this key.
    pub fn resolve(&mut self, reader: &Reader<'_>, group: Range<usize>, base: Option<(Kind, &[u8])>) -> Result<()> {
        let Some(key) = self.found.get(group.start).map(|found| found.key) else { return Ok(()) };
        let deleted = self.deleted(self.slice(key));
        let is_above_delete = |found: &Found| Some(found.seq) >= deleted;
        let entries = self.found.get(group.clone()).unwrap_or_default();
        let updates = entries.iter().take_while(|found| found.kind == Kind::Update && is_above_delete(found)).count();
        let base = match entries.get(updates) {
            Some(found) => Some(*found).filter(is_above_delete).map(Base::Found),
            None if deleted.is_some() => None,
            None => base.map(|(kind, value)| Base::Block(kind, value)),
        };
        self.add(reader, key, group.start..group.start + updates, base)
    }

    fn add(&mut self, reader: &Reader<'_>, key: Span, updates: Range<usize>, base: Option<Base<'_>>) -> Result<()> {
        if updates.is_empty() {
            let row = match base {
                Some(Base::Found(found)) => Row { key, value: found.value, kind: found.kind },
                _ => Row { key, value: Span::default(), kind: Kind::Delete },
            };
            self.rows.push(row);
            return Ok(());
        }
        let (kind, value) = match base {
            Some(Base::Found(found)) => (found.kind, self.slice(found.value)),
            Some(Base::Block(kind, value)) => (kind, value),
            None => (Kind::Delete, &[][..]),
        };
        let chains = self.found.get(updates).unwrap_or_default().iter().map(|found| self.slice(found.value));
        let row = apply_all(reader, self.slice(key), kind, value, chains)?;
        let kind = if row.is_some() { Kind::Put } else { Kind::Delete };
        let value = push(&mut self.bytes, &row.unwrap_or_default());
        self.rows.push(Row { key, value, kind });
        Ok(())
    }

    /// The newest range tombstone over the key.
    pub fn deleted(&self, key: &[u8]) -> Option<Seq> {
        self.tombstones.iter().filter(|tombstone| tombstone.covers(key)).map(|tombstone| tombstone.seq).max()
    }

    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        self.rows.get(at).map_or(&[], |row| self.slice(row.key))
    }

    #[inline]
    pub fn value(&self, at: usize) -> &[u8] {
        self.rows.get(at).map_or(&[], |row| self.slice(row.value))
    }

    #[inline]
    pub fn kind(&self, at: usize) -> Kind {
        self.rows.get(at).map_or(Kind::Delete, |row| row.kind)
    }

    /// Resolved rows.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    pub fn has_blob_rows(&self) -> bool {
        self.rows.iter().any(|row| row.kind == Kind::PutBlob)
    }

    fn slice(&self, span: Span) -> &[u8] {
        slice(&self.bytes, span)
    }
}

/// The value that updates apply to.
enum Base<'b> {
    Found(Found),
    Block(Kind, &'b [u8]),
}

/// The row after chains of updates, which come newest first.
pub fn apply_all<'c>(
    reader: &Reader<'_>,
    key: &[u8],
    kind: Kind,
    value: &[u8],
    chains: impl DoubleEndedIterator<Item = &'c [u8]>,
) -> Result<Option<Vec<u8>>> {
    let no_function = || Error::Other("an update message needs an update function".into());
    let function = reader.updates.ok_or_else(no_function)?;
    let mut row = match kind {
        Kind::Put => Some(value.to_vec()),
        Kind::PutBlob => Some(blob::load(reader.io, value)?),
        Kind::Delete | Kind::Update => None,
    };
    for chain in chains.rev() {
        row = update::apply_chain(function, key, row.as_deref(), chain)?;
    }
    Ok(row)
}

fn slice(bytes: &[u8], span: Span) -> &[u8] {
    let from = span.from as usize;
    bytes.get(from..from + span.len as usize).unwrap_or_default()
}

fn push(bytes: &mut Vec<u8>, more: &[u8]) -> Span {
    // A page gathers at most BYTES_MAX and one row of each source, far below 4 GiB.
    debug_assert!(bytes.len() + more.len() <= u32::MAX as usize, "places in a page are 4 bytes");
    let span = Span { from: bytes.len() as u32, len: more.len() as u32 };
    bytes.extend_from_slice(more);
    span
}

/// Takes the entries of one source, in the order in which the source gives them.
struct Gather<'g> {
    overlay: &'g mut Overlay,
    window: &'g mut Window,
    visibility: Visibility,
    source: u32,
    /// The source's first entry.
    first: usize,
    /// The key at hand, and its first entry.
    key: Span,
    key_first: usize,
    bytes_first: usize,
    keys: usize,
    keys_max: usize,
    /// Older versions of the key at hand do not matter (forward).
    settled: bool,
}

impl<'g> Gather<'g> {
    fn new(overlay: &'g mut Overlay, window: &'g mut Window, visibility: Visibility, keys_max: usize) -> Gather<'g> {
        debug_assert!((1..=KEYS_MAX).contains(&keys_max), "{keys_max} keys of a source");
        let (first, bytes_first, source) = (overlay.found.len(), overlay.bytes.len(), overlay.sources);
        Gather {
            overlay,
            window,
            visibility,
            source,
            first,
            key: Span::default(),
            key_first: first,
            bytes_first,
            keys: 0,
            keys_max,
            settled: false,
        }
    }

    /// Adds an entry. Returns true if the source is to continue.
    #[inline]
    fn offer(&mut self, entry: Entry<'_>) -> bool {
        let inside = if self.window.forward {
            self.window.is_below_high(entry.key)
        } else {
            self.window.low.as_slice() <= entry.key
        };
        if !inside || !self.visibility.sees(entry.seq) {
            return inside;
        }
        let same = self.keys > 0 && self.overlay.slice(self.key) == entry.key;
        if same {
            if self.window.forward && self.settled {
                return true;
            }
            if !self.window.forward && !self.visibility.all && entry.kind.is_final() {
                self.overlay.found.truncate(self.key_first);
            }
        } else if !self.begin_key(entry.key) {
            return false;
        }
        self.push(entry);
        true
    }

    /// False when the source gave enough: the window ends here.
    fn begin_key(&mut self, key: &[u8]) -> bool {
        if self.keys == self.keys_max || self.overlay.bytes.len() - self.bytes_first > BYTES_MAX {
            sometimes!("ftree: a page is cut where a source has much");
            self.window.cut = true;
            if self.window.forward {
                self.window.high = key.to_vec();
                self.window.open = false;
            } else {
                self.window.low = self.overlay.slice(self.key).to_vec();
            }
            return false;
        }
        self.keys += 1;
        self.key = push(&mut self.overlay.bytes, key);
        self.key_first = self.overlay.found.len();
        true
    }

    fn push(&mut self, entry: Entry<'_>) {
        let (key, value) = (self.key, push(&mut self.overlay.bytes, entry.value));
        self.settled = entry.kind.is_final() && !self.visibility.all;
        self.overlay.deletes += usize::from(entry.kind == Kind::Delete);
        self.overlay.found.push(Found { key, value, seq: entry.seq, kind: entry.kind, source: self.source });
    }

    fn end(self) {
        let mine = self.overlay.found.get_mut(self.first..).unwrap_or_default();
        if !mine.is_empty() {
            self.overlay.sources += 1;
        }
        if !self.window.forward {
            mine.reverse();
        }
    }

    fn run(&mut self, reader: &Reader<'_>, table: &Arc<Table>) -> Result<()> {
        let body = table.body(reader.io)?;
        if self.window.forward {
            let mut at = body.block_of(&self.window.low);
            while at < body.block_count() && self.window.is_below_high(body.block_bounds(at).0) {
                let block = body.block(at, reader.io)?;
                for row in block.lower_bound(&self.window.low)..block.len() {
                    if !self.offer(block.entry(row)) {
                        return Ok(());
                    }
                }
                at += 1;
            }
            return Ok(());
        }
        let mut end = match self.window.high() {
            Some(high) => body.blocks_before(high),
            None => body.block_count(),
        };
        while end > 0 && body.block_bounds(end - 1).1.is_none_or(|next| self.window.low.as_slice() < next) {
            end -= 1;
            let block = body.block(end, reader.io)?;
            let rows = self.window.high().map_or(block.len(), |high| block.lower_bound(high));
            for row in (0..rows).rev() {
                if !self.offer(block.entry(row)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns the end of a range that comes first.
pub fn least_end<'k>(a: Option<&'k [u8]>, b: Option<&'k [u8]>) -> Option<&'k [u8]> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
