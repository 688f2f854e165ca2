//! Arrays as sets: values once each, in order.

use arbor_bson::ValueRef;

use super::Evaluated;
use crate::stop::{check_scratch, sort_by};
use crate::{Collation, Result};

/// Checks that there is memory for `len` values; sorting them needs half as much again. Errors: ExceededMemoryLimit.
#[inline]
pub(super) fn check_len(len: usize) -> Result<()> {
    check_scratch("a set", len * size_of::<ValueRef>() / 2 * 3)
}

pub(super) struct Set<'v> {
    values: Vec<ValueRef<'v>>,
    collation: &'v Collation,
}

impl<'v> Set<'v> {
    /// `None` when the value is no array.
    pub(super) fn of(value: &'v Evaluated, collation: &'v Collation) -> Result<Option<Set<'v>>> {
        match value.get() {
            Some(ValueRef::Array(elements)) => {
                let mut values = Vec::new();
                for element in elements.iter() {
                    values.push(element);
                    check_len(values.len())?;
                }
                Set::of_values(values, collation).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn of_values(mut values: Vec<ValueRef<'v>>, collation: &'v Collation) -> Result<Set<'v>> {
        sort_by(&mut values, |a, b| collation.compare(*a, *b))?;
        values.dedup_by(|a, b| collation.equal(*a, *b));
        Ok(Set { values, collation })
    }

    pub(super) fn contains(&self, value: ValueRef) -> bool {
        self.values.binary_search_by(|known| self.collation.compare(*known, value)).is_ok()
    }

    pub(super) fn equals(&self, other: &Set) -> bool {
        self.values.len() == other.values.len()
            && self.values.iter().zip(&other.values).all(|(a, b)| self.collation.equal(*a, *b))
    }

    pub(super) fn into_values(self) -> Vec<ValueRef<'v>> {
        self.values
    }
}
