//! State of operators that lasts while a batch is made, and no longer.
//!
//! Leaves own a numbered slot here for their cursor. The slot is filled on first use and vanishes with the run;
//! [`super::Operator::suspend`] lets each leaf note its place first, and the next run seeks to it.

use arbor_bson::Doc;
use arbor_store::{Collection, IndexCursor, OrderCursor, RecordCursor};
use arbor_txn::View;

use crate::plan::IndexSource;
use crate::{Error, Interrupt, Result};

/// Rows between two checks of the clock.
const TICKS_PER_CHECK: u32 = 128;

pub struct Run<'v> {
    pub view: &'v dyn View,
    /// None: the collection does not exist, and no leaf that reads it does.
    pub collection: Option<&'v Collection>,
    pub interrupt: &'v Interrupt,
    pub examined: Examined,
    cursors: Vec<Option<EntryCursor<'v>>>,
    ticks: u32,
    /// Rows that may still be read. None: any number.
    allowance: Option<u64>,
}

/// Number of keys and documents read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Examined {
    pub keys: u64,
    pub documents: u64,
}

/// Place of a leaf's cursor in a [`Run`].
#[derive(Clone, Copy, Debug)]
pub struct Slot(pub usize);

/// A cursor over the records or over a secondary index.
pub enum EntryCursor<'v> {
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
    pub fn seek(&mut self, target: &[u8]) -> Result<bool> {
        Ok(each!(self, cursor => cursor.seek(target))?)
    }

    pub fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        Ok(each!(self, cursor => cursor.seek_before(target))?)
    }

    pub fn last(&mut self) -> Result<bool> {
        Ok(each!(self, cursor => cursor.last())?)
    }

    pub fn next(&mut self) -> Result<bool> {
        Ok(each!(self, cursor => cursor.next())?)
    }

    pub fn prev(&mut self) -> Result<bool> {
        Ok(each!(self, cursor => cursor.prev())?)
    }

    /// Key of the record.
    pub fn id_key(&self) -> &[u8] {
        each!(self, cursor => cursor.id_key())
    }

    /// The whole key in its tree: finds this entry again.
    pub fn position(&self) -> &[u8] {
        match self {
            EntryCursor::Records(cursor) => cursor.id_key(),
            EntryCursor::Order(cursor) => cursor.position(),
            EntryCursor::Index(cursor) => cursor.position(),
        }
    }

    /// Returns the document, if the entry holds it.
    pub fn doc(&self) -> Option<Doc<'_>> {
        match self {
            EntryCursor::Records(cursor) => Some(cursor.doc()),
            EntryCursor::Order(cursor) => Some(cursor.doc()),
            EntryCursor::Index(_) => None,
        }
    }
}

impl<'v> Run<'v> {
    pub fn new(
        view: &'v dyn View,
        collection: Option<&'v Collection>,
        interrupt: &'v Interrupt,
        slots: usize,
    ) -> Run<'v> {
        let cursors = std::iter::repeat_with(|| None).take(slots).collect();
        Run { view, collection, interrupt, examined: Examined::default(), cursors, ticks: 0, allowance: None }
    }

    /// From now on `rows` may be read; then reading stops with [`Error::Paused`].
    pub fn allow(&mut self, rows: u64) {
        self.allowance = Some(rows);
    }

    /// Returns how much of it was used since.
    pub fn allowance_used(&self, allowed: u64) -> u64 {
        allowed - self.allowance.unwrap_or(allowed)
    }

    /// Called once per row that is read, before anything of it is.
    pub fn tick(&mut self) -> Result<()> {
        if let Some(left) = &mut self.allowance {
            *left = left.checked_sub(1).ok_or(Error::Paused)?;
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS_PER_CHECK) { self.interrupt.check() } else { Ok(()) }
    }

    pub fn collection(&self) -> Result<&'v Collection> {
        self.collection.ok_or_else(|| Error::internal("a scan of a collection that does not exist"))
    }

    /// The open cursor of a leaf.
    pub fn cursor(&mut self, slot: Slot) -> Option<&mut EntryCursor<'v>> {
        self.cursors.get_mut(slot.0)?.as_mut()
    }

    pub fn open(&mut self, slot: Slot, source: IndexSource) -> Result<&mut EntryCursor<'v>> {
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
