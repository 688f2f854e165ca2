//! Arrays as sets: values once each, in order.

use arbor_bson::ValueRef;

use super::Evaluated;
use crate::Collation;

pub struct Set<'v> {
    values: Vec<ValueRef<'v>>,
    collation: &'v Collation,
}

impl<'v> Set<'v> {
    /// `None` when the value is no array.
    pub fn of(value: &'v Evaluated, collation: &'v Collation) -> Option<Set<'v>> {
        match value.get() {
            Some(ValueRef::Array(elements)) => Some(Set::of_values(elements.iter().collect(), collation)),
            _ => None,
        }
    }

    pub fn of_values(mut values: Vec<ValueRef<'v>>, collation: &'v Collation) -> Set<'v> {
        values.sort_by(|a, b| collation.compare(*a, *b));
        values.dedup_by(|a, b| collation.equal(*a, *b));
        Set { values, collation }
    }

    pub fn contains(&self, value: ValueRef) -> bool {
        self.values.binary_search_by(|known| self.collation.compare(*known, value)).is_ok()
    }

    pub fn equals(&self, other: &Set) -> bool {
        self.values.len() == other.values.len()
            && self.values.iter().zip(&other.values).all(|(a, b)| self.collation.equal(*a, *b))
    }

    pub fn into_values(self) -> Vec<ValueRef<'v>> {
        self.values
    }
}
