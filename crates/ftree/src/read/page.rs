//! A page, the unit a cursor moves over: the rows of one leaf block, or of a range without one, as the reader sees them.
//!
//! A page shows every key of its window. It is either the rows of a block as they are (no entry above them that counts,
//! nothing in the block that the reader must not see), or a list of rows of the block and of the overlay. Moving over it is
//! counting in both cases. It never changes: as a snapshot does not, a page that is there may be used again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::{paranoid, sometimes};

use super::overlay::{self, Overlay, Visibility, Window};
use super::path::{Path, Place};
use super::read_ahead::ReadAhead;
use super::{Reader, ripen};
use crate::block::Block;
use crate::counters::Counter;
use crate::memtable::MemTree;
use crate::table::{BlockRef, Table};
use crate::tree::{Child, TreeVersion};
use crate::{Error, Kind, RangeTombstone, Result, Seq};

/// Marks a place in the overlay in a list of items.
const OVERLAY: u32 = 1 << 31;

/// Read work that an entry of a run that a scan merges adds to its slot, and a delete that it skips.
const MERGED_BYTES: u64 = 100;
const DELETE_BYTES: u64 = 200;

/// One page in this many adds to the read work, for all of them.
const SAMPLED: u32 = 4;

/// One page in this many that shows a part of its block gathers what the runs hold for all of it, to ripen the block.
const RIPENED: u32 = 16;

#[derive(Default)]
pub struct Page {
    window: Window,
    block: Option<BlockRef>,
    rows: Rows,
    overlay: Overlay,
    /// Rows may have their values in extents of their own.
    pub has_blobs: bool,
    /// The table that keeps them.
    holder: Option<Arc<Table>>,
    is_loaded: bool,
    /// Memory for the next list of items.
    spare: Vec<u32>,
}

enum Rows {
    /// These rows of the block.
    Plain { from: usize, len: usize },
    /// Rows of the block, and of the overlay with the mark.
    Mixed(Vec<u32>),
}

impl Default for Rows {
    fn default() -> Rows {
        Rows::Plain { from: 0, len: 0 }
    }
}

impl Page {
    pub fn low(&self) -> &[u8] {
        &self.window.low
    }

    pub fn high(&self) -> Option<&[u8]> {
        self.window.high()
    }

    /// Returns the bytes of rows that were gathered from memtables and runs.
    pub fn overlay_bytes(&self) -> usize {
        self.overlay.bytes()
    }

    /// Returns true if the page shows the row at this place, if there is one.
    pub fn shows(&self, place: Place<'_>) -> bool {
        self.is_loaded && place.is_in(self.low(), self.high())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::Plain { len, .. } => *len,
            Rows::Mixed(items) => items.len(),
        }
    }

    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        match (&self.rows, &self.block) {
            (Rows::Plain { from, .. }, Some(block)) => block.key(from + at),
            (Rows::Mixed(items), block) => match (items.get(at), block) {
                (Some(row), Some(block)) if row & OVERLAY == 0 => block.key(*row as usize),
                (item, _) => self.overlay.key(in_overlay(item)),
            },
            (Rows::Plain { .. }, None) => &[],
        }
    }

    #[inline]
    pub fn value(&self, at: usize) -> &[u8] {
        match (&self.rows, &self.block) {
            (Rows::Plain { from, .. }, Some(block)) => block.value(from + at),
            (Rows::Mixed(items), block) => match (items.get(at), block) {
                (Some(row), Some(block)) if row & OVERLAY == 0 => block.value(*row as usize),
                (item, _) => self.overlay.value(in_overlay(item)),
            },
            (Rows::Plain { .. }, None) => &[],
        }
    }

    pub fn kind(&self, at: usize) -> Kind {
        match (&self.rows, &self.block) {
            (Rows::Plain { from, .. }, Some(block)) => block.kind(from + at),
            (Rows::Mixed(items), block) => match (items.get(at), block) {
                (Some(row), Some(block)) if row & OVERLAY == 0 => block.kind(*row as usize),
                (item, _) => self.overlay.kind(in_overlay(item)),
            },
            (Rows::Plain { .. }, None) => Kind::Put,
        }
    }

    /// Returns the number of rows with a key less than this one.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        match (&self.rows, &self.block) {
            (Rows::Plain { from, len }, Some(block)) => block.lower_bound(key).saturating_sub(*from).min(*len),
            _ => {
                let (mut from, mut to) = (0, self.len());
                while from < to {
                    let middle = from + (to - from) / 2;
                    if self.key(middle) < key { from = middle + 1 } else { to = middle }
                }
                from
            }
        }
    }

    /// Shows nothing from now on.
    pub fn clear(&mut self) {
        (self.is_loaded, self.has_blobs) = (false, false);
        (self.block, self.holder) = (None, None);
        self.overlay.clear();
        if let Rows::Mixed(items) = &mut self.rows {
            self.spare = std::mem::take(items);
        }
        self.rows = Rows::default();
    }

    /// Fills the page with the rows around a place, which is in the page afterwards. `keys_max`: of each memtable and run.
    pub fn load(
        &mut self,
        reader: &Reader<'_>,
        version: &TreeVersion,
        place: Place<'_>,
        keys_max: usize,
        ahead: &mut ReadAhead,
    ) -> Result<()> {
        self.clear();
        let path = Path::to(version, place);
        let mut filling = Filling { page: self, reader, version, path: &path, place, keys_max, number: next_number() };
        match path.child {
            Child::Leaf(leaf) => match filling.covering_tombstone(leaf.meta.max_seq)? {
                Some(tombstone) => {
                    sometimes!("ftree: a range tombstone hides a leaf");
                    filling.above_only(leaf.meta.max_seq, Some(&tombstone))
                }
                None => filling.block(leaf, ahead),
            },
            Child::Empty | Child::Inner(_) => {
                filling.covering_tombstone(Seq::ZERO)?;
                filling.above_only(Seq::ZERO, None)
            }
        }?;
        self.is_loaded = true;
        debug_assert!(place.is_before_all() || self.shows(place), "{place:?} is in the page that was loaded for it");
        paranoid!((1..self.len()).all(|at| self.key(at - 1) < self.key(at)), "a page has each key once, in order");
        Ok(())
    }
}

/// The row of the overlay that an item names.
#[inline]
fn in_overlay(item: Option<&u32>) -> usize {
    item.map_or(usize::MAX, |item| (item & !OVERLAY) as usize)
}

/// A page that is being filled.
struct Filling<'f> {
    page: &'f mut Page,
    reader: &'f Reader<'f>,
    version: &'f TreeVersion,
    path: &'f Path<'f>,
    place: Place<'f>,
    keys_max: usize,
    number: u32,
}

impl<'f> Filling<'f> {
    /// A range tombstone that hides all of the child around the place: its blocks need not be read. Those that do not are
    /// left with the overlay.
    fn covering_tombstone(&mut self, above: Seq) -> Result<Option<RangeTombstone>> {
        let visibility = Visibility { at: self.reader.at, above, all: false };
        let bounds = (self.path.low, self.path.high);
        let overlay = &mut self.page.overlay;
        for part in parts(self.version) {
            overlay.add_tombstones(&part.tombstones(), bounds, visibility);
        }
        for run in self.path.runs().filter(|run| run.table.meta.has_tombstones && run.table.meta.max_seq > above) {
            overlay.add_tombstones(run.table.body(self.reader.io)?.tombstones(), bounds, visibility);
        }
        let covers = |tombstone: &&RangeTombstone| self.place.is_in(&tombstone.from, tombstone.to.as_deref());
        Ok(overlay.tombstones.iter().find(covers).cloned())
    }

    /// A page without a block: there is none, or the tombstone hides it.
    fn above_only(&mut self, above: Seq, tombstone: Option<&RangeTombstone>) -> Result<()> {
        let mut bounds = (self.path.low, self.path.high);
        if let Some(tombstone) = tombstone {
            bounds = common(bounds, (&tombstone.from, tombstone.to.as_deref()));
        }
        self.above_within(above, bounds)
    }

    fn above_within(&mut self, above: Seq, bounds: Bounds<'_>) -> Result<()> {
        self.page.window.set(self.begin_at_place(bounds), self.place.is_forward());
        self.gather(above)?;
        self.mix(None, false)
    }

    fn block(&mut self, leaf: &Arc<Table>, ahead: &mut ReadAhead) -> Result<()> {
        let body = leaf.body(self.reader.io)?;
        let at = match self.place {
            Place::From(key) => body.block_of(key),
            Place::Before(key) => body.blocks_before(key).saturating_sub(1),
            Place::End => body.block_count().saturating_sub(1),
        };
        let (first, next) = body.block_bounds(at);
        let mut bounds = common((self.path.low, self.path.high), (if at == 0 { &[] } else { first }, next));
        let cached = body.cached(at);
        let known = cached.is_some() && !ahead.brought(leaf, at);
        let block = match cached {
            Some(block) => {
                self.reader.io.counters.add(Counter::LeafBlockHits, 1);
                block.settled()
            }
            None => {
                self.start_reading_runs(leaf.meta.max_seq);
                ahead.block(self.reader, leaf, &body, at, self.place.is_forward())?.settled()
            }
        };
        if let Some(reach) = block.reach() {
            if !self.place.is_in(reach.0, reach.1) {
                return self.outside_reach(leaf.meta.max_seq, bounds, reach);
            }
            bounds = common(bounds, reach);
        }
        let above = leaf.meta.max_seq.max(block.as_of());
        let clear = self.is_clear(above);
        let shown = if clear { bounds } else { self.begin_at_place(bounds) };
        self.page.window.set(shown, self.place.is_forward());
        if clear {
            // What the runs' range tombstones say is in the block.
            self.page.overlay.tombstones.clear();
        } else {
            self.gather(above)?;
        }
        let may_ripen =
            known && !self.page.overlay.has_updates && (!self.page.window.cut || self.number.is_multiple_of(RIPENED));
        if may_ripen && (self.page.overlay.runs > 0 || (!block.is_plain() && block.as_of() == Seq::ZERO)) {
            ripen::ripen(self.reader, self.path, &body, at, &block, above, bounds)?;
        }
        if block.has_blobs() {
            (self.page.has_blobs, self.page.holder) = (true, Some(leaf.clone()));
        }
        // The index shows without reading the block whether all its rows are inside.
        let inside = clear
            && bounds.0 <= first
            && bounds.1.is_none_or(|high| next.is_some_and(|next| next <= high) || body.last_key() < high);
        self.mix(Some(block), inside)
    }

    /// Starts reading the blocks of runs at the place, so that they and the leaf's block are waited for at once.
    fn start_reading_runs(&self, above: Seq) {
        let Place::From(key) = self.place else { return };
        for run in self.path.runs().filter(|run| run.table.meta.max_seq > above && run.table.meta.may_hold(key)) {
            run.table.start_reading(key, self.reader.io);
        }
    }

    /// A page of keys for which a ripened block says nothing. The leaf has no rows there: its slot grew.
    fn outside_reach(&mut self, above: Seq, bounds: Bounds<'_>, reach: Bounds<'_>) -> Result<()> {
        sometimes!("ftree: a page is outside of what a ripe block reaches");
        let outside = match reach {
            (_, Some(high)) if self.place.is_behind(high) => (high, None),
            (low, _) => (&[][..], Some(low)),
        };
        self.above_within(above, common(bounds, outside))
    }

    /// Narrower bounds, that begin at the place: entries above keys before it need not be gathered.
    fn begin_at_place<'b>(&self, bounds: Bounds<'b>) -> Bounds<'b>
    where
        'f: 'b,
    {
        match self.place {
            Place::From(key) => common(bounds, (key, None)),
            Place::Before(key) => common(bounds, (&[], Some(key))),
            Place::End => bounds,
        }
    }

    /// Neither a memtable nor a run on the path holds what the block does not.
    fn is_clear(&self, above: Seq) -> bool {
        parts(self.version).next().is_none() && !self.path.runs().any(|run| run.table.meta.max_seq > above)
    }

    /// Everything above the block that the reader sees. The tombstones are there.
    fn gather(&mut self, above: Seq) -> Result<()> {
        let visibility = Visibility { at: self.reader.at, above, all: false };
        let Page { overlay, window, .. } = &mut *self.page;
        for part in parts(self.version) {
            overlay.gather_memtable(part, window, visibility, self.keys_max);
        }
        gather_runs(self.reader, self.path, overlay, window, visibility, self.keys_max)?;
        overlay.sort(window, above);
        self.charge_read_work();
        Ok(())
    }

    /// Adds the cost of the runs to the read work, which makes it more urgent to flush them.
    fn charge_read_work(&self) {
        let overlay = &self.page.overlay;
        if overlay.merged > 0 && self.number.is_multiple_of(SAMPLED) {
            let bytes = overlay.merged as u64 * MERGED_BYTES + overlay.deletes as u64 * DELETE_BYTES;
            if let Some(slot) = self.path.slots().filter(|slot| !slot.runs.is_empty()).last() {
                slot.read_work.fetch_add(bytes * u64::from(SAMPLED), Ordering::Relaxed);
            }
        }
    }

    /// Puts the rows of the block and of the overlay together.
    ///
    /// `inside`: all rows of the block lie in the window.
    fn mix(&mut self, block: Option<BlockRef>, inside: bool) -> Result<()> {
        let Filling { page, reader, .. } = self;
        let range = match &block {
            Some(block) if inside => 0..block.len(),
            Some(block) => rows_in(block, &page.window),
            None => 0..0,
        };
        match &block {
            Some(block) if page.overlay.is_empty() && block.is_plain() => {
                page.rows = Rows::Plain { from: range.start, len: range.len() };
            }
            block => {
                let mut items = std::mem::take(&mut page.spare);
                items.clear();
                let mut mixed = Mixed { block: block.as_deref(), next: range.start, end: range.end, items };
                mixed.fill(reader, &mut page.overlay)?;
                page.rows = Rows::Mixed(mixed.items);
                page.has_blobs |= page.overlay.has_blob_rows();
            }
        }
        page.block = block;
        Ok(())
    }
}

/// `low <= key < high`.
type Bounds<'b> = (&'b [u8], Option<&'b [u8]>);

/// Returns the intersection.
fn common<'b>(a: Bounds<'b>, b: Bounds<'b>) -> Bounds<'b> {
    (a.0.max(b.0), overlay::least_end(a.1, b.1))
}

/// Number of the page among those of this thread.
fn next_number() -> u32 {
    thread_local!(static PAGES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    PAGES.set(PAGES.get().wrapping_add(1));
    PAGES.get()
}

/// The memtable parts that hold something, newest first.
fn parts(version: &TreeVersion) -> impl Iterator<Item = &MemTree> {
    let parts = std::iter::once(&version.active).chain(version.frozen.iter().rev());
    parts.map(|part| &**part).filter(|part| !part.is_empty())
}

/// Gathers the entries of a path's runs in the window, newest first.
pub fn gather_runs(
    reader: &Reader<'_>,
    path: &Path<'_>,
    overlay: &mut Overlay,
    window: &mut Window,
    visibility: Visibility,
    keys_max: usize,
) -> Result<()> {
    for run in path.runs().filter(|run| run.table.meta.max_seq > visibility.above) {
        let meta = &run.table.meta;
        if window.low <= meta.last_key && window.is_below_high(&meta.first_key) {
            overlay.gather_run(reader, &run.table, window, visibility, keys_max)?;
        }
    }
    Ok(())
}

/// The rows of the block that lie in the window.
fn rows_in(block: &Block, window: &Window) -> Range<usize> {
    let from = if window.low.as_slice() <= block.first_key() { 0 } else { block.lower_bound(&window.low) };
    let to = match window.high() {
        Some(high) if high <= block.last_key() => block.lower_bound(high),
        _ => block.len(),
    };
    from..to.max(from)
}

/// Makes a list of items.
struct Mixed<'m> {
    block: Option<&'m Block>,
    /// Rows of the block that are not in the list yet.
    next: usize,
    end: usize,
    items: Vec<u32>,
}

impl<'m> Mixed<'m> {
    fn fill(&mut self, reader: &Reader<'_>, overlay: &mut Overlay) -> Result<()> {
        let mut group = overlay.group(0);
        while !group.is_empty() {
            let base = self.pass_block_to(reader.at, overlay, group.start)?;
            overlay.resolve(reader, group.clone(), base)?;
            let row = overlay.row_count() - 1;
            if overlay.kind(row) != Kind::Delete {
                self.items.push(OVERLAY | row as u32);
            }
            group = overlay.group(group.end);
        }
        self.add_block(self.end, reader.at, &overlay.tombstones)
    }

    /// Adds the block's rows below the key of this entry. Returns what the block says of that key, and passes it.
    fn pass_block_to(&mut self, at: Seq, overlay: &Overlay, entry: usize) -> Result<Option<(Kind, &'m [u8])>> {
        let (Some(block), Some(entry)) = (self.block, overlay.found(entry)) else { return Ok(None) };
        let first = block.lower_bound(entry.key).clamp(self.next, self.end);
        self.add_block(first, at, &overlay.tombstones)?;
        while self.next < self.end && block.key(self.next) == entry.key {
            self.next += 1;
        }
        let row = visible(block, first..self.next, at, &[])?;
        Ok(row.map(|row| (block.kind(row), block.value(row))))
    }

    fn add_block(&mut self, to: usize, at: Seq, tombstones: &[RangeTombstone]) -> Result<()> {
        let Some(block) = self.block else { return Ok(()) };
        if block.is_plain() && tombstones.is_empty() {
            self.items.extend(self.next as u32..to as u32);
            self.next = to;
        }
        while self.next < to {
            let (first, key) = (self.next, block.key(self.next));
            self.next += 1;
            while self.next < to && block.key(self.next) == key {
                self.next += 1;
            }
            self.items.extend(visible(block, first..self.next, at, tombstones)?.map(|row| row as u32));
        }
        Ok(())
    }
}

/// The row that the reader sees of those of one key.
fn visible(block: &Block, mut rows: Range<usize>, at: Seq, tombstones: &[RangeTombstone]) -> Result<Option<usize>> {
    let Some(row) = rows.find(|row| block.seq(*row) <= at) else { return Ok(None) };
    match block.kind(row) {
        Kind::Put | Kind::PutBlob => {
            let (key, seq) = (block.key(row), block.seq(row));
            let hidden = tombstones.iter().any(|tombstone| seq < tombstone.seq && tombstone.covers(key));
            Ok((!hidden).then_some(row))
        }
        Kind::Delete => Ok(None),
        Kind::Update => {
            let context = "update message without a base row".to_owned();
            Err(Error::Corrupt { place: "a leaf".to_owned(), context })
        }
    }
}
