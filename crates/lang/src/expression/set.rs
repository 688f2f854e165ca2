//! Arrays as sets: values once each, in order.

use arbor_bson::{ValueRef, compare};

use super::Evaluated;

pub struct Set<'v>(Vec<ValueRef<'v>>);

impl<'v> Set<'v> {
    /// `None` when the value is no array.
    pub fn of(value: &'v Evaluated) -> Option<Set<'v>> {
        match value.get() {
            Some(ValueRef::Array(elements)) => Some(Set::of_values(elements.iter().collect())),
            _ => None,
        }
    }

    pub fn of_values(mut values: Vec<ValueRef<'v>>) -> Set<'v> {
        values.sort_by(|a, b| compare(*a, *b));
        values.dedup_by(|a, b| compare(*a, *b).is_eq());
        Set(values)
    }

    pub fn contains(&self, value: ValueRef) -> bool {
        self.0.binary_search_by(|known| compare(*known, value)).is_ok()
    }

    pub fn equals(&self, other: &Set) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| compare(*a, *b).is_eq())
    }

    pub fn into_values(self) -> Vec<ValueRef<'v>> {
        self.0
    }
}
