//! The rows of one partition, in order.

use std::collections::VecDeque;

use arbor_bson::{DocBuf, Number, ValueRef};

use crate::{Error, Result, SortPattern, text};

/// Rows are counted from the begin of the partition; the first ones may be forgotten already.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    docs: VecDeque<DocBuf>,
    forgotten: usize,
    bytes: usize,
    pub sort_by: SortPattern,
}

/// A place on the axis of `sortBy`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Number(Number),
    /// Milliseconds since 1970.
    Date(i64),
}

impl Rows {
    pub(crate) fn new(sort_by: SortPattern) -> Rows {
        Rows { sort_by, ..Rows::default() }
    }

    pub(crate) fn push(&mut self, doc: DocBuf) {
        self.bytes += doc_bytes(&doc);
        self.docs.push_back(doc);
    }

    /// For the next partition.
    pub(crate) fn clear(&mut self) {
        self.docs.clear();
        (self.forgotten, self.bytes) = (0, 0);
    }

    /// Forgets all but the last rows.
    pub(crate) fn keep_last(&mut self, count: usize) {
        while self.docs.len() > count
            && let Some(doc) = self.docs.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(doc_bytes(&doc));
            self.forgotten += 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.forgotten + self.docs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, at: usize) -> Option<&DocBuf> {
        self.docs.get(at.checked_sub(self.forgotten)?)
    }

    /// Memory held, estimated.
    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// The value of the one field of `sortBy`.
    pub(crate) fn sort_value(&self, at: usize) -> ValueRef<'_> {
        match (self.get(at), self.sort_by.parts().first()) {
            (Some(doc), Some(part)) => part.path.get_strict(doc.as_doc()).unwrap_or(ValueRef::Null),
            _ => ValueRef::Null,
        }
    }

    /// Returns the sort value as a number or a date. None: it is neither.
    pub(crate) fn place(&self, at: usize) -> Option<Place> {
        match self.sort_value(at) {
            ValueRef::DateTime(millis) => Some(Place::Date(millis)),
            other => Number::of(other).map(Place::Number),
        }
    }

    /// The place on an axis of dates, in units of `unit_millis`, or without that on one of numbers.
    pub(crate) fn coordinate(&self, at: usize, function: &str, unit_millis: Option<i64>, code: i32) -> Result<f64> {
        match (self.place(at), unit_millis) {
            (Some(Place::Number(number)), None) => Ok(number.to_f64()),
            (Some(Place::Date(millis)), Some(unit)) => Ok(millis as f64 / unit as f64),
            (_, unit) => {
                let found = text::type_name(Some(self.sort_value(at)));
                let (with, expected) = if unit.is_some() { ("with", "a Date") } else { ("with no", "numeric") };
                let message =
                    format!("{function} ({with} 'unit') expects the sortBy field to be {expected}, but it was {found}");
                Err(Error::location(code, message))
            }
        }
    }
}

fn doc_bytes(doc: &DocBuf) -> usize {
    doc.as_bytes().len() + size_of::<DocBuf>()
}
