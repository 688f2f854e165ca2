//! The rows of one partition, in order.

use arbor_bson::{DocBuf, Number, ValueRef};

use crate::{Error, Result, SortPattern, text};

#[derive(Debug, Default)]
pub struct Rows {
    pub docs: Vec<DocBuf>,
    pub sort_by: SortPattern,
}

/// A place on the axis of `sortBy`.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Number(Number),
    /// Milliseconds since 1970.
    Date(i64),
}

impl Rows {
    pub fn len(&self) -> usize {
        self.docs.len()
    }

    pub fn get(&self, at: usize) -> Option<&DocBuf> {
        self.docs.get(at)
    }

    /// The value of the one field of `sortBy`.
    pub fn sort_value(&self, at: usize) -> ValueRef<'_> {
        match (self.docs.get(at), self.sort_by.parts().first()) {
            (Some(doc), Some(part)) => part.path.get_strict(doc.as_doc()).unwrap_or(ValueRef::Null),
            _ => ValueRef::Null,
        }
    }

    /// The same as a number or a date. None: it is neither.
    pub fn place(&self, at: usize) -> Option<Place> {
        match self.sort_value(at) {
            ValueRef::DateTime(millis) => Some(Place::Date(millis)),
            other => Number::of(other).map(Place::Number),
        }
    }

    /// The place on an axis of dates, in units of `unit_millis`, or without that on one of numbers.
    pub fn coordinate(&self, at: usize, function: &str, unit_millis: Option<i64>, code: i32) -> Result<f64> {
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
