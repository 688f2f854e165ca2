//! The documents of the snapshot, their keys sorted into the trees.

use std::path::Path;

use arbor_base::memory::{self, Class};
use arbor_bson::Doc;
use arbor_txn::View;
use arbor_txn::record::Load;

use super::Build;
use super::carry::KeyChanges;
use super::target::Target;
use crate::follow::{Pace, Phase, Throttle, Watch, bulk_load};
use crate::sort::sorter::{Merge, Row, Sorter};
use crate::write::entry_of;
use crate::{Collection, Index, RecordCursor, Result};

/// Calls `each` with every document and its record's key.
pub(super) fn each_document(
    view: &impl View,
    collection: &Collection,
    mut each: impl FnMut(&[u8], Doc<'_>) -> Result<()>,
) -> Result<()> {
    let mut cursor = RecordCursor::new(view, collection)?;
    let mut valid = cursor.first()?;
    while valid {
        each(cursor.id_key(), cursor.doc())?;
        valid = cursor.next()?;
    }
    Ok(())
}

impl Build<'_> {
    /// Step 2 without its checkpoint; returns the filled trees. They hold the keys of the documents that the view of `changes` shows.
    pub(super) fn fill(
        &self,
        changes: &mut KeyChanges<'_>,
        watch: &dyn Watch,
        throttle: &mut Throttle,
    ) -> Result<Vec<Load>> {
        let scratch = &self.store.options.scratch;
        let bytes_max = self.settings.memory_bytes / changes.targets.len().max(1);
        let sorter = || Sorter::new(scratch, memory::process().allowance(Class::Build, bytes_max));
        let mut sorters: Vec<Sorter> = changes.targets.iter().map(|_| sorter()).collect();
        let transactions = self.transactions();
        let documents = crate::count(&changes.base, self.collection)?;
        let keys = {
            let mut pace = Pace::new(transactions, watch, throttle, Phase::Scanning, documents);
            scan(changes, &mut sorters, &mut pace)?
        };
        let mut pace = Pace::new(transactions, watch, throttle, Phase::Loading, keys);
        let mut loads = Vec::new();
        for (target, sorter) in changes.targets.iter_mut().zip(sorters) {
            load(target, sorter.finish()?, &mut pace, scratch, bytes_max / 8, &mut loads)?;
        }
        pace.check().map(|()| loads)
    }
}

/// Returns the number of keys.
fn scan(changes: &mut KeyChanges<'_>, sorters: &mut [Sorter], pace: &mut Pace<'_>) -> Result<u64> {
    let KeyChanges { collection, targets, base, unindexable, .. } = changes;
    assert!(targets.len() == sorters.len(), "{} indexes, {} sorters", targets.len(), sorters.len());
    let mut count = 0;
    each_document(base, collection, |id_key, doc| {
        for (target, sorter) in targets.iter().zip(&mut *sorters) {
            let Some(keys) = unindexable.keys_of(&target.index, id_key, doc)? else { continue };
            target.index.multikey.expect(&keys.multikey);
            count += keys.keys.len() as u64;
            let entries = keys.keys.iter().map(|key| entry_of(&target.index, key, id_key, doc));
            entries.into_iter().try_for_each(|entry| sorter.push(placed(&target.index, id_key, entry)))?;
        }
        pace.count(doc.as_bytes().len() + 64)
    })?;
    pace.check()?;
    Ok(count)
}

/// The row in the order in which the trees of an index are filled: one partition after the other.
fn placed(index: &Index, id_key: &[u8], (key, value): Row) -> Row {
    match index.part_at(id_key) {
        Some(at) => ([&place_bytes(at)[..], &key].concat(), value),
        None => (key, value),
    }
}

fn place_bytes(at: usize) -> [u8; PLACE_BYTES] {
    (at as u32).to_be_bytes()
}

const PLACE_BYTES: usize = 4;

/// Fills the trees of an index of a partitioned collection.
fn load_parts(index: &Index, mut merge: Merge, pace: &mut Pace<'_>, loads: &mut Vec<Load>) -> Result<()> {
    let transactions = pace.transactions;
    let mut ahead = merge.next()?;
    for (at, part) in index.parts.iter().enumerate() {
        let place = place_bytes(at);
        loads.push(bulk_load(transactions, part.tree, || {
            let Some((mut key, value)) = ahead.take_if(|(key, _)| key.starts_with(&place)) else { return Ok(None) };
            pace.count(key.len() + value.len() + 16)?;
            ahead = merge.next()?;
            key.drain(..PLACE_BYTES);
            Ok(Some((key, value)))
        })?);
    }
    assert!(ahead.is_none(), "I1: every entry of {} is in a partition", index.name);
    Ok(())
}

/// Fills the tree of an index; keys with several documents go into the contended tree.
fn load(
    target: &mut Target,
    merge: Merge,
    pace: &mut Pace<'_>,
    scratch: &Path,
    bytes_max: usize,
    loads: &mut Vec<Load>,
) -> Result<()> {
    if !target.index.parts.is_empty() {
        return load_parts(&target.index, merge, pace, loads);
    }
    let transactions = pace.transactions;
    let mut rows = UniqueRows { merge, ahead: None, last_shared: None };
    let mut shared = Sorter::new(scratch, memory::process().allowance(Class::Build, bytes_max));
    let mut any_shared = false;
    loads.push(bulk_load(transactions, target.index.tree, || {
        loop {
            let next = match target.index.unique {
                true => rows.next()?,
                false => rows.merge.next()?.map(|row| (row, false)),
            };
            let Some((row, is_shared)) = next else { return Ok(None) };
            pace.count(row.0.len() + row.1.len() + 16)?;
            if !is_shared {
                return Ok(Some(row));
            }
            any_shared = true;
            shared.push(target.contended_row(&row)?)?;
        }
    })?);
    if !any_shared {
        return Ok(());
    }
    let mut merge = shared.finish()?;
    target.load_contended(|tree| {
        loads.push(bulk_load(transactions, tree, || {
            let row = merge.next()?;
            row.iter().try_for_each(|row| pace.count(row.0.len() + row.1.len() + 16))?;
            Ok(row)
        })?);
        Ok(())
    })
}

/// Sorted rows, each with whether another one has the same key.
struct UniqueRows {
    merge: Merge,
    ahead: Option<Row>,
    last_shared: Option<Vec<u8>>,
}

impl UniqueRows {
    fn next(&mut self) -> Result<Option<(Row, bool)>> {
        let row = match self.ahead.take() {
            Some(row) => row,
            None => match self.merge.next()? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        self.ahead = self.merge.next()?;
        debug_assert!(self.ahead.as_ref().is_none_or(|ahead| row.0 <= ahead.0), "equal keys follow each other");
        let like_next = self.ahead.as_ref().is_some_and(|ahead| ahead.0 == row.0);
        let like_last = self.last_shared.as_ref().is_some_and(|last| *last == row.0);
        if like_next && !like_last {
            self.last_shared = Some(row.0.clone());
        }
        Ok(Some((row, like_next || like_last)))
    }
}
