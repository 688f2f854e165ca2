//! Rough sizes of key ranges in a few page reads.
//!
//! Short ranges are counted. For the others both ends are looked up in the B+tree, and the entries between the two paths
//! are counted level by level: exactly in the pages on the paths, and between them with the average of a few pages (the
//! method of InnoDB's `records_in_range`).

use arbor_engine::{Cursor as _, RangeEstimate, Result};

use crate::cursor::LmdbCursor;
use crate::keys::{CHUNK_BYTES, Content, StoredKey};
use crate::raw::{Page, Pages, Txn};
use crate::readers::Reader;
use crate::records;

/// Ranges up to this many keys are counted.
const COUNTED_MAX: u64 = 128;
/// Pages per level that the average is taken of.
const SAMPLED_PAGES: usize = 8;
/// States to try: the root of one is known while it is among the newest two.
const STATES_TRIED: usize = 4;

pub(crate) fn range(reader: &Reader, content: Content, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
    let (counted, complete) = count(reader.txn(), content, from, to)?;
    if complete {
        return Ok(counted);
    }
    let bounds = (place(content, from), to.map_or_else(|| content.fence(), |to| place(content, to)));
    let keys = judge(reader, &bounds)?.entries.max(counted.keys);
    Ok(RangeEstimate { keys, bytes: keys.saturating_mul(counted.bytes) / counted.keys.max(1) })
}

/// Counts the first keys of the range; true if these are all.
fn count(txn: &Txn, content: Content, from: &[u8], to: Option<&[u8]>) -> Result<(RangeEstimate, bool)> {
    let mut cursor = LmdbCursor::new(txn, content)?;
    let mut counted = RangeEstimate::default();
    let mut more = cursor.seek(from)?;
    while more && to.is_none_or(|to| cursor.key() < to) {
        if counted.keys == COUNTED_MAX {
            return Ok((counted, false));
        }
        counted.keys += 1;
        counted.bytes += (cursor.key().len() + cursor.value().len()) as u64;
        more = cursor.next()?;
    }
    Ok((counted, true))
}

/// Returns the stored key of a key; of a long key that of its link, so that all keys of one link count as one.
fn place(content: Content, key: &[u8]) -> StoredKey {
    match key.split_at_checked(CHUNK_BYTES) {
        Some((chunk, rest)) if !rest.is_empty() => content.link(chunk),
        _ => content.row(key),
    }
}

/// Leaf pages that hold rows of a content, and overflow pages of its large values.
pub(crate) fn pages(reader: &Reader, content: Content) -> Result<u64> {
    let between = judge(reader, &(content.rows(), content.fence()))?;
    Ok(between.leaf_pages + between.overflow_pages)
}

#[derive(Default)]
struct Between {
    entries: u64,
    leaf_pages: u64,
    overflow_pages: u64,
}

/// Nothing, if the pages are not as expected.
fn judge(reader: &Reader, bounds: &(StoredKey, StoredKey)) -> Result<Between> {
    let mut newer = None;
    for _ in 0..STATES_TRIED {
        let reader = newer.as_ref().unwrap_or(reader);
        let inside = records::some_bytes(reader.txn())?;
        if let Some(pages) = reader.txn().pages(inside, reader.page_bytes()) {
            return Ok(between(&pages, bounds.0.as_slice(), bounds.1.as_slice()).unwrap_or_default());
        }
        // A state that is a little newer is as good for an estimate.
        newer = Some(reader.newer()?);
    }
    Ok(Between::default())
}

/// Counts the entries between two places, level by level. `None`: the pages are not as expected.
fn between(pages: &Pages<'_>, from: &[u8], to: &[u8]) -> Option<Between> {
    let mut leaf_pages = 1;
    let (mut left, mut right) = (pages.root()?, pages.root()?);
    // Children of the level above that lie strictly between the two paths, and some of them; none while they are one.
    let mut middle: Option<(u64, Vec<Page<'_>>)> = None;
    loop {
        let (left_slot, right_slot) = (left.slot(from), right.slot(to));
        // Entries of this level after `left_slot` (inclusive) and before `right_slot`.
        let entries = match &middle {
            None => right_slot.saturating_sub(left_slot) as u64,
            Some((count, sample)) => {
                let on_paths = left.len().saturating_sub(left_slot) + right_slot;
                let sampled: usize = sample.iter().map(Page::len).sum();
                on_paths as u64 + (count * sampled as u64).checked_div(sample.len() as u64).unwrap_or(0)
            }
        };
        if !left.is_branch() {
            let overflow_pages = match &middle {
                None => left.overflow_pages(left_slot..right_slot),
                Some((count, sample)) => {
                    let on_paths = left.overflow_pages(left_slot..left.len()) + right.overflow_pages(0..right_slot);
                    let sampled: u64 = sample.iter().map(|page| page.overflow_pages(0..page.len())).sum();
                    on_paths + (count * sampled).checked_div(sample.len() as u64).unwrap_or(0)
                }
            };
            return Some(Between { entries, leaf_pages, overflow_pages });
        }
        leaf_pages = entries + 1;
        if middle.is_some() || right_slot > left_slot {
            let one_page = middle.is_none();
            let sample = children_between(pages, &left, left_slot, &right, right_slot, one_page);
            middle = Some((entries.saturating_sub(1), sample));
        }
        left = pages.page(left.node(left_slot)?.child)?;
        right = pages.page(right.node(right_slot)?.child)?;
    }
}

/// Some of the pages strictly between two children.
fn children_between<'t>(
    pages: &Pages<'t>,
    left: &Page<'t>,
    left_slot: usize,
    right: &Page<'t>,
    right_slot: usize,
    one_page: bool,
) -> Vec<Page<'t>> {
    let left_end = if one_page { right_slot } else { left.len() };
    let behind_left = (left_slot + 1..left_end).map(|slot| left.node(slot));
    let before_right = (0..if one_page { 0 } else { right_slot }).rev().map(|slot| right.node(slot));
    let nodes = behind_left.take(SAMPLED_PAGES / 2).chain(before_right.take(SAMPLED_PAGES / 2));
    nodes.filter_map(|node| pages.page(node?.child)).collect()
}
