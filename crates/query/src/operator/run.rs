//! State of operators that lasts while a batch is made, and no longer.
//!
//! Leaves own a numbered slot here for their cursor. The slot is filled on first use and vanishes with the run;
//! [`super::Operator::suspend`] lets each leaf note its place first, and the next run seeks to it.

use arbor_base::work;
use arbor_bson::Doc;
use arbor_store::{Collection, IndexCursor, OrderCursor, RecordCursor};
use arbor_txn::View;

use crate::plan::{IndexSource, summary};
use crate::{Error, Interrupt, Result};

/// Rows between two checks of the clock.
const TICKS_PER_CHECK: u32 = 128;

/// Rows from this size on count by their bytes.
const LARGE_ROW_BYTES: usize = 16 << 10;

/// Bytes of large rows between two checks of the clock: about 1 ms to read and copy.
const LARGE_BYTES_PER_CHECK: usize = 1 << 20;

pub(crate) struct Run<'v> {
    pub view: &'v dyn View,
    /// None: the collection does not exist, and no leaf that reads it does.
    pub collection: Option<&'v Collection>,
    pub interrupt: &'v Interrupt,
    pub examined: Examined,
    cursors: Vec<Option<EntryCursor<'v>>>,
    ticks: Ticks,
    /// Rows that may still be read. None: any number.
    allowance: Option<u64>,
}

/// Number of keys and documents read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Examined {
    pub keys: u64,
    pub documents: u64,
}

/// Work since the last check of the clock.
#[derive(Debug, Default)]
struct Ticks {
    rows: u32,
    /// Bytes of large rows.
    bytes: usize,
}

impl Ticks {
    /// Returns true if a check is due.
    #[inline]
    fn count_row(&mut self) -> bool {
        self.rows = self.rows.wrapping_add(1);
        self.rows.is_multiple_of(TICKS_PER_CHECK)
    }

    /// Returns true if a check is due.
    #[inline]
    fn count_bytes(&mut self, bytes: usize) -> bool {
        bytes >= LARGE_ROW_BYTES && self.count_large(bytes)
    }

    #[cold]
    fn count_large(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let is_due = self.bytes >= LARGE_BYTES_PER_CHECK;
        if is_due {
            self.bytes = 0;
        }
        is_due
    }
}

/// Place of a leaf's cursor in a [`Run`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(pub usize);

/// A cursor over the records or over a secondary index.
pub(crate) enum EntryCursor<'v> {
    Records(RecordCursor<'v>),
    /// Cursor over a capped collection.
    Order(OrderCursor<'v>),
    Index(IndexCursor<'v>),
}

macro_rules! each {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            EntryCursor::Records($cursor) => $call,
            EntryCursor::Order($cursor) => $call,
            EntryCursor::Index($cursor) => $call,
        }
    };
}

impl EntryCursor<'_> {
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<bool> {
        Ok(each!(self, cursor => cursor.seek(target))?)
    }

    pub(crate) fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        Ok(each!(self, cursor => cursor.seek_before(target))?)
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        Ok(each!(self, cursor => cursor.last())?)
    }

    pub(crate) fn next(&mut self) -> Result<bool> {
        Ok(each!(self, cursor => cursor.next())?)
    }

    pub(crate) fn prev(&mut self) -> Result<bool> {
        Ok(each!(self, cursor => cursor.prev())?)
    }

    pub(crate) fn expect_rows(&mut self, rows: u64, end: &[u8]) {
        each!(self, cursor => cursor.expect_rows(rows, end));
    }

    /// Key of the record.
    pub(crate) fn id_key(&self) -> &[u8] {
        each!(self, cursor => cursor.id_key())
    }

    /// The whole key in its tree: finds this entry again.
    pub(crate) fn position(&self) -> &[u8] {
        match self {
            EntryCursor::Records(cursor) => cursor.id_key(),
            EntryCursor::Order(cursor) => cursor.position(),
            EntryCursor::Index(cursor) => cursor.position(),
        }
    }

    /// Returns the document, if the entry holds it.
    pub(crate) fn doc(&self) -> Option<Doc<'_>> {
        match self {
            EntryCursor::Records(cursor) => Some(cursor.doc()),
            EntryCursor::Order(cursor) => Some(cursor.doc()),
            EntryCursor::Index(_) => None,
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let Examined { keys, documents } = self.examined;
        work::note(|work| {
            work.keys_examined += keys;
            work.documents_examined += documents;
        });
    }
}

impl<'v> Run<'v> {
    pub(crate) fn new(
        view: &'v dyn View,
        collection: Option<&'v Collection>,
        interrupt: &'v Interrupt,
        slots: usize,
    ) -> Run<'v> {
        let cursors = std::iter::repeat_with(|| None).take(slots).collect();
        Run {
            view,
            collection,
            interrupt,
            examined: Examined::default(),
            cursors,
            ticks: Ticks::default(),
            allowance: None,
        }
    }

    /// From now on `rows` may be read; then reading stops with [`Error::Paused`].
    pub(crate) fn allow(&mut self, rows: u64) {
        self.allowance = Some(rows);
    }

    /// Returns how much of it was used since.
    pub(crate) fn allowance_used(&self, allowed: u64) -> u64 {
        allowed - self.allowance.unwrap_or(allowed)
    }

    /// Called once per row that is read, before anything of it is.
    pub(crate) fn tick(&mut self) -> Result<()> {
        if let Some(left) = &mut self.allowance {
            *left = left.checked_sub(1).ok_or(Error::Paused)?;
        }
        if self.ticks.count_row() { self.look_around() } else { Ok(()) }
    }

    /// Counts the bytes of a row that was read or made: a few of 16 MB are as much work as many thousands of others.
    #[inline]
    pub(crate) fn tick_for(&mut self, bytes: usize) -> Result<()> {
        if self.ticks.count_bytes(bytes) { self.look_around() } else { Ok(()) }
    }

    /// Shows how far the statement is, and checks if it is to end.
    #[cold]
    fn look_around(&self) -> Result<()> {
        work::show(self.examined.keys, self.examined.documents, summary::line);
        self.interrupt.check()
    }

    pub(crate) fn collection(&self) -> Result<&'v Collection> {
        self.collection.ok_or_else(|| Error::internal("a scan of a collection that does not exist"))
    }

    /// Adds what another run examined, which counts as this one's alone from then on.
    pub(crate) fn take_examined(&mut self, other: &mut Run<'_>) {
        let Examined { keys, documents } = std::mem::take(&mut other.examined);
        self.examined.keys += keys;
        self.examined.documents += documents;
    }

    /// The open cursor of a leaf.
    pub(crate) fn cursor(&mut self, slot: Slot) -> Option<&mut EntryCursor<'v>> {
        self.cursors.get_mut(slot.0)?.as_mut()
    }

    pub(crate) fn open(&mut self, slot: Slot, source: IndexSource) -> Result<&mut EntryCursor<'v>> {
        let collection = self.collection()?;
        let cursor = match source {
            IndexSource::Natural if collection.order.is_some() => {
                EntryCursor::Order(OrderCursor::new(self.view, collection)?)
            }
            IndexSource::Records | IndexSource::Natural => {
                EntryCursor::Records(RecordCursor::new(self.view, collection)?)
            }
            IndexSource::Secondary(at) => {
                let missing = || Error::internal("a scan of an index that does not exist");
                EntryCursor::Index(IndexCursor::new(self.view, collection.indexes.get(at).ok_or_else(missing)?)?)
            }
        };
        let slot = self.cursors.get_mut(slot.0).ok_or_else(|| Error::internal("a leaf without a slot"))?;
        Ok(slot.insert(cursor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_due_after_many_rows_and_after_few_large_ones() {
        let mut ticks = Ticks::default();
        let due = (0..TICKS_PER_CHECK * 10).filter(|_| ticks.count_row()).count();
        assert_eq!(due, 10);
        let mut due = |bytes, rows| (0..rows).filter(|_| ticks.count_bytes(bytes)).count();
        assert_eq!(due(LARGE_ROW_BYTES - 1, 1000), 0);
        assert_eq!(due(14 << 20, 5), 5);
        assert_eq!(due(LARGE_BYTES_PER_CHECK / 4, 40), 10);
    }
}
