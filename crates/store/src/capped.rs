//! Capped collections: bounded in bytes and perhaps in documents, read in the order of insertion, the oldest documents
//! making room for new ones in the transaction that inserts these.
//!
//! The records are stored by their `_id` as everywhere. A tree of its own keeps the order:
//!
//! | key | value |
//! |---|---|
//! | `0`, position (u64 big-endian) | KeyString(`_id`) |
//! | `1`, KeyString(`_id`) | position (u64 big-endian) |
//! | `2` | the last position that was given, whether its record is still there or not |
//!
//! The next position is one more than the last, read in the transaction that writes it: of two that insert at the same
//! time one gets a conflict and runs again, so positions are in the order of the commits, and a reader up to a
//! position misses nothing before it.

use std::time::Duration;

use arbor_base::{TreeId, paranoid};
use arbor_bson::{Doc, ValueRef};
use arbor_txn::{Cursor, Transaction, View};
use parking_lot::{Condvar, Mutex};

use crate::noting::Emit;
use crate::{Collection, Error, RecordCursor, Result};

const POSITIONS: u8 = 0;
const IDS: u8 = 1;
const LAST: u8 = 2;

/// The bounds of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedBounds {
    pub bytes_max: u64,
    pub docs_max: Option<u64>,
}

impl Collection {
    /// `None`: it is not capped.
    pub fn capped(&self) -> Option<CappedBounds> {
        self.order?;
        let number = |name| match self.options.get(name) {
            Some(ValueRef::Int32(value)) => u64::try_from(value).ok(),
            Some(ValueRef::Int64(value)) => u64::try_from(value).ok(),
            Some(ValueRef::Double(value)) => Some(value.max(0.0) as u64),
            _ => None,
        };
        let docs_max = number("max").filter(|max| *max > 0);
        Some(CappedBounds { bytes_max: number("size").unwrap_or(u64::MAX), docs_max })
    }
}

/// Returns true if `options` are those of a capped collection.
pub(crate) fn is_capped(options: Doc<'_>) -> bool {
    matches!(options.get("capped"), Some(ValueRef::Bool(true)))
}

fn position_key(position: u64) -> Vec<u8> {
    [&[POSITIONS], position.to_be_bytes().as_slice()].concat()
}

fn id_row_key(id_key: &[u8]) -> Vec<u8> {
    [&[IDS], id_key].concat()
}

/// Refuses documents that would not fit into the empty collection.
pub(crate) fn check_fits(collection: &Collection, doc: Doc<'_>) -> Result<()> {
    match collection.capped() {
        Some(bounds) if doc.as_bytes().len() as u64 > bounds.bytes_max => Err(Error::LargerThanCapped),
        _ => Ok(()),
    }
}

/// Notes the position of a record that was just put, and removes the oldest ones beyond the bounds.
pub(crate) fn inserted(txn: &mut Transaction, collection: &Collection, id_key: &[u8]) -> Result<()> {
    let (Some(order), Some(bounds)) = (collection.order, collection.capped()) else { return Ok(()) };
    let position = last_position(txn, order)? + 1;
    paranoid!(!matches!(txn.get(order, &position_key(position)), Ok(Some(_))), "position {position} was given before");
    txn.put(order, [LAST], position.to_be_bytes());
    txn.put(order, position_key(position), id_key);
    txn.put(order, id_row_key(id_key), position.to_be_bytes());
    make_room(txn, collection, bounds)
}

/// Returns the position of a record in the order of insertion. None: the collection is not capped, or has no such record.
pub fn capped_position(view: &(impl View + ?Sized), collection: &Collection, id_key: &[u8]) -> Result<Option<u64>> {
    let Some(order) = collection.order else { return Ok(None) };
    let Some(position) = view.get(order, &id_row_key(id_key))? else { return Ok(None) };
    let position = position.as_ref().try_into().map_err(|_| corrupt(collection, "a position is not of 8 bytes"))?;
    Ok(Some(u64::from_be_bytes(position)))
}

/// Notes the positions of records, in their order, in an order tree that is empty.
pub(crate) fn place_all<'k>(txn: &mut Transaction, order: TreeId, id_keys: impl Iterator<Item = &'k [u8]>) {
    debug_assert!(last_position(txn, order).is_ok_and(|last| last == 0), "positions begin in a tree that is empty");
    let mut last = 0u64;
    for id_key in id_keys {
        last += 1;
        txn.put(order, position_key(last), id_key);
        txn.put(order, id_row_key(id_key), last.to_be_bytes());
    }
    txn.put(order, [LAST], last.to_be_bytes());
}

/// Removes the oldest records until the others are within bounds.
pub(crate) fn make_room(txn: &mut Transaction, collection: &Collection, bounds: CappedBounds) -> Result<()> {
    loop {
        let (count, bytes) = (crate::count(txn, collection)?, crate::data_size(txn, collection)?);
        if bytes <= bounds.bytes_max && bounds.docs_max.is_none_or(|max| count <= max) {
            return Ok(());
        }
        let mut oldest = OrderCursor::new(&*txn, collection)?;
        if !oldest.seek(&[])? {
            return Ok(());
        }
        let doc = oldest.doc().to_buf();
        drop(oldest);
        // COMPAT: MongoDB's oplog has no entries of it either: every member makes room by itself
        crate::write::delete_with(txn, collection, doc.as_doc(), Emit::Nothing)?;
        debug_assert!(crate::count(txn, collection)? < count, "room is made document by document");
    }
}

/// Removes the position of a record that was deleted.
pub(crate) fn deleted(txn: &mut Transaction, collection: &Collection, id_key: &[u8]) -> Result<()> {
    let Some(order) = collection.order else { return Ok(()) };
    let row = id_row_key(id_key);
    if let Some(position) = txn.get(order, &row)?.map(|position| position.into_owned()) {
        txn.delete(order, [&[POSITIONS], position.as_slice()].concat());
    }
    txn.delete(order, row);
    Ok(())
}

fn last_position(view: &(impl View + ?Sized), order: TreeId) -> Result<u64> {
    let last = view.get(order, &[LAST])?;
    Ok(last.and_then(|last| <[u8; 8]>::try_from(&*last).ok()).map_or(0, u64::from_be_bytes))
}

/// Statistics of the tree of the order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    is_capped: bool,
    positions: u64,
    ids: u64,
    /// Positions whose record is missing, or whose id has another position.
    astray: u64,
}

impl Places {
    /// Requires the number of records.
    pub(crate) fn problem(&self, records: u64) -> Option<String> {
        let Places { is_capped, positions, ids, astray } = *self;
        let sound = !is_capped || (positions == records && ids == records && astray == 0);
        (!sound).then(|| format!("order: {positions} positions, {ids} ids, {astray} astray for {records} documents"))
    }
}

pub(crate) fn places(view: &(impl View + ?Sized), collection: &Collection) -> Result<Places> {
    let Some(order) = collection.order else { return Ok(Places::default()) };
    let mut found = Places { is_capped: true, ..Places::default() };
    let mut cursor = view.cursor(order)?;
    let mut valid = cursor.first()?;
    while valid {
        match cursor.key().split_first() {
            Some((&POSITIONS, position)) => {
                let id_key = cursor.value();
                let back = view.get(order, &id_row_key(id_key))?;
                let is_record = view.get(collection.tree, id_key)?.is_some();
                found.positions += 1;
                found.astray += u64::from(!is_record || back.as_deref() != Some(position));
            }
            Some((&IDS, _)) => found.ids += 1,
            _ => {}
        }
        valid = cursor.next()?;
    }
    Ok(found)
}

/// Records of a capped collection in the order of insertion. Every move returns true if the cursor is at a record
/// afterwards.
pub struct OrderCursor<'v> {
    order: Box<dyn Cursor + 'v>,
    records: RecordCursor<'v>,
}

impl<'v> OrderCursor<'v> {
    /// Requires a capped collection.
    pub fn new(view: &'v (impl View + ?Sized), collection: &Collection) -> Result<OrderCursor<'v>> {
        let order = collection.order.ok_or_else(|| corrupt(collection, "it has no order"))?;
        Ok(OrderCursor { order: view.cursor(order)?, records: RecordCursor::new(view, collection)? })
    }

    /// Moves to the first record at or after a position; an empty target is the oldest one.
    pub fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let valid = self.order.seek(target)?;
        self.moved(valid)
    }

    /// Hints which records are likely read ([`Cursor::expect_rows`]).
    pub fn expect_rows(&mut self, rows: u64, end: &[u8]) {
        self.order.expect_rows(rows, end);
    }

    pub fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        let valid = self.order.seek_before(target)?;
        self.moved(valid)
    }

    pub fn last(&mut self) -> Result<bool> {
        let valid = self.order.seek_before(&[IDS])?;
        self.moved(valid)
    }

    #[expect(clippy::should_implement_trait, reason = "moves, and lends the row")]
    pub fn next(&mut self) -> Result<bool> {
        let valid = self.order.next()?;
        self.moved(valid)
    }

    pub fn prev(&mut self) -> Result<bool> {
        let valid = self.order.prev()?;
        self.moved(valid)
    }

    fn moved(&mut self, valid: bool) -> Result<bool> {
        if !valid || self.order.key().first() != Some(&POSITIONS) {
            return Ok(false);
        }
        let id_key = self.order.value().to_vec();
        if self.records.seek(&id_key)? && self.records.id_key() == id_key {
            return Ok(true);
        }
        Err(Error::Corrupt { place: "the order of a capped collection".into(), reason: "a record is missing".into() })
    }

    /// Returns true for what [`OrderCursor::position`] returns, and not a key of anything else.
    pub fn is_position(&self, bytes: &[u8]) -> bool {
        bytes.first() == Some(&POSITIONS)
    }

    /// Finds this record again, as long as it is there.
    pub fn position(&self) -> &[u8] {
        self.order.key()
    }

    pub fn id_key(&self) -> &[u8] {
        self.records.id_key()
    }

    pub fn doc(&self) -> Doc<'_> {
        self.records.doc()
    }
}

fn corrupt(collection: &Collection, reason: &str) -> Error {
    Error::Corrupt { place: format!("capped collection {}", collection.namespace), reason: reason.into() }
}

/// Wakes readers that wait for new documents of a capped collection.
#[derive(Debug, Default)]
pub struct Arrivals {
    writes: Mutex<u64>,
    changed: Condvar,
}

impl Arrivals {
    /// Writers that are done. To be read before the snapshot is taken.
    pub fn writes(&self) -> u64 {
        *self.writes.lock()
    }

    /// Waits until more than `seen` writers are done, or for `patience`.
    pub fn wait_beyond(&self, seen: u64, patience: Duration) {
        self.changed.wait_while_for(&mut self.writes.lock(), |writes| *writes <= seen, patience);
    }

    pub(crate) fn note(&self) {
        *self.writes.lock() += 1;
        self.changed.notify_all();
    }
}
