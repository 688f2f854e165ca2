//! Ripening: a leaf's cached block takes in what the runs above it say of its keys.
//!
//! The second scan that has to merge runs into a block leaves the result in the block's place in the cache, with the
//! greatest number that was merged as its `as_of`. From then on the block is read as if the runs were not there (R1), until
//! new runs arrive. It is never written: the leaf job that consumes the runs makes the same rows again.
//!
//! Why every reader may use a ripened block, whichever thread made it:
//!
//! - *It is complete up to `as_of`.* For its keys everything with a number up to `as_of` was in the leaf or in the runs of the
//!   path that were merged: by I1 and I2 the entries above those runs are newer than each of them. So a reader that ignores
//!   entries up to `as_of` elsewhere, and skips runs that end there, misses nothing.
//! - *A reader with an older registered number.* The stripes are listed after the runs were found. A number that was
//!   registered before is among them, and the fold keeps what it sees. A number that is registered after is that of
//!   a visible batch not older than any run, because only visible batches are absorbed (A2), so it sees the newest versions,
//!   which the fold keeps always.
//! - *A reader with an older version of the tree* finds the block through the same leaf. What its memtables and runs hold up to
//!   `as_of` is in the block, what they hold above counts; numbers, not places, decide.
//! - *A reader with a newer version* has the same leaf, so no leaf job came between (one that leaves a leaf as it is renews
//!   it, see [`Table::renewed`](crate::table::Table::renewed)): the merged runs are still above it, perhaps pushed or merged
//!   into others, and what came since is newer than `as_of`.
//! - *Two that ripen at once*: each result is right; the later one stays.
//!
//! All this is said of the keys for which the runs were merged, the block's *reach*. A leaf's slot may grow later, when a
//! neighbour that holds nothing is joined to it, but runs higher up may hold something for the added keys: there the block
//! counts as one that was never ripened. A leaf in slots of narrower bounds than the block is not ripened.
//!
//! Updates are not taken in: when such a message joins a newer one on its way down it gets the newer one's number, and would
//! count once more over a block that holds it.
//!
//! Values in extents of their own are not taken in: the runs keep those extents and the block would not.

use std::ops::Range;
use std::sync::atomic::Ordering;

use arbor_base::{paranoid, sometimes};

use super::Reader;
use super::overlay::{KEYS_MAX, Overlay, Visibility, Window};
use super::page::gather_runs;
use super::path::Path;
use crate::block::{Block, BlockBuilder};
use crate::counters::Counter;
use crate::merge::{Fold, RetainedVersion, Versions};
use crate::table::TableBody;
use crate::{Kind, Result, Seq, blob};

/// A block is not ripened when that makes it longer than this many times its size.
const GROWTH_MAX: usize = 4;
/// Nor by values longer than this many blocks.
const VALUE_BLOCKS_MAX: usize = 2;

/// Puts a ripened block in the place of `block`, number `at` of a leaf. `above`: what it holds already. `bounds`: its keys.
pub fn ripen(
    reader: &Reader<'_>,
    path: &Path<'_>,
    body: &TableBody,
    at: usize,
    block: &Block,
    above: Seq,
    bounds: (&[u8], Option<&[u8]>),
) -> Result<()> {
    let (low, high) = bounds;
    let inside = low <= block.first_key() && high.is_none_or(|high| block.last_key() < high);
    let mut window = Window::default();
    window.set(bounds, true);
    let mut overlay = Overlay::default();
    let visibility = Visibility { at: Seq(u64::MAX), above, all: true };
    gather_runs(reader, path, &mut overlay, &mut window, visibility, KEYS_MAX)?;
    overlay.sort(&window, above);
    let bytes = block.memory_bytes();
    let is_update = |at| overlay.found(at).is_some_and(|entry| entry.kind == Kind::Update);
    let has_updates = (0..overlay.found_len()).any(is_update);
    if !inside || window.cut || has_updates || overlay.has_blob_or_longer(VALUE_BLOCKS_MAX * bytes) {
        return Ok(());
    }
    for run in path.runs().filter(|run| run.table.meta.has_tombstones && run.table.meta.max_seq > above) {
        overlay.add_tombstones(run.table.body(reader.io)?.tombstones(), bounds, visibility);
    }
    let as_of = path.runs().map(|run| run.table.meta.max_seq).max().unwrap_or(above);
    let stripes = reader.snapshots.stripes(reader.visible);
    debug_assert!(as_of.0 <= reader.visible.load(Ordering::Acquire), "A2: only what is visible is absorbed");
    if let Some(ripe) = merge(reader, &stripes, block, &overlay, GROWTH_MAX * bytes)? {
        sometimes!("ftree: a block ripens");
        let (first, next) = body.block_bounds(at);
        let mut ripe = ripe.with_as_of(as_of.max(above));
        if low != (if at == 0 { &[] } else { first }) || high != next {
            ripe = ripe.with_reach(low, high);
        }
        paranoid!(ripe.is_ordered(), "T3: a ripe block is ordered as every block");
        body.put_ripe(at, ripe, reader.io);
        reader.io.counters.add(Counter::BlocksRipened, 1);
    }
    Ok(())
}

/// The rows of the block and what was gathered above it; `None` when that grows too long.
fn merge(
    reader: &Reader<'_>,
    stripes: &[Seq],
    block: &Block,
    overlay: &Overlay,
    bytes_max: usize,
) -> Result<Option<Block>> {
    let load_blob = |value: &[u8]| blob::load(reader.io, value);
    let fold = Fold { stripes, bottom: true, updates: reader.updates, load_blob: &load_blob };
    let builder = BlockBuilder::default();
    let mut merging = Merging { fold, block, overlay, builder, versions: Versions::default(), kept: Vec::new() };
    let mut group = overlay.group(0);
    let mut next = 0;
    while let Some(entry) = overlay.found(group.start) {
        let first = block.lower_bound(entry.key).max(next);
        merging.untouched(next..first)?;
        next = block.upper_bound(entry.key).max(first);
        merging.key(entry.key, group.clone(), first..next)?;
        if merging.builder.raw_bytes() > bytes_max {
            return Ok(None);
        }
        group = overlay.group(group.end);
    }
    merging.untouched(next..block.len())?;
    Ok(Some(merging.builder.finish_block()))
}

struct Merging<'m> {
    fold: Fold<'m>,
    block: &'m Block,
    overlay: &'m Overlay,
    builder: BlockBuilder,
    versions: Versions,
    kept: Vec<RetainedVersion>,
}

impl Merging<'_> {
    /// Rows whose keys no entry above has.
    fn untouched(&mut self, rows: Range<usize>) -> Result<()> {
        if self.block.is_plain() && self.overlay.tombstones.is_empty() {
            self.builder.push_rows(self.block, rows);
            return Ok(());
        }
        let mut next = rows.start;
        while next < rows.end {
            let key = self.block.key(next);
            let same = (next..rows.end).take_while(|row| self.block.key(*row) == key).count();
            self.key(key, 0..0, next..next + same)?;
            next += same;
        }
        Ok(())
    }

    /// One key with its entries above and in the block.
    fn key(&mut self, key: &[u8], above: Range<usize>, rows: Range<usize>) -> Result<()> {
        self.versions.begin(key);
        above.filter_map(|at| self.overlay.found(at)).for_each(|entry| self.versions.push(entry));
        rows.for_each(|row| self.versions.push(self.block.entry(row)));
        let covering = self.overlay.tombstones.iter().filter(|tombstone| tombstone.covers(key));
        let seqs: Vec<Seq> = covering.map(|tombstone| tombstone.seq).collect();
        self.versions.push_tombstones(&seqs);
        self.fold.fold(&self.versions, &mut self.kept)?;
        self.kept.iter().for_each(|kept| self.builder.push(kept.entry(&self.versions)));
        Ok(())
    }
}
