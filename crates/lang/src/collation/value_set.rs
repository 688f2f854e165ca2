//! Values, each once.

use arbor_bson::ValueRef;
use hashbrown::HashSet;

use super::Collation;

/// Set of values that are distinct under a collation; numbers of different types are equal, as in keys.
pub(crate) struct ValueSet<'c> {
    keys: HashSet<Vec<u8>>,
    collation: &'c Collation,
}

impl<'c> ValueSet<'c> {
    pub(crate) fn new(collation: &'c Collation) -> ValueSet<'c> {
        ValueSet { keys: HashSet::new(), collation }
    }

    /// Returns whether it is a new one.
    pub(crate) fn insert(&mut self, value: ValueRef) -> bool {
        self.keys.insert(self.collation.key_of(value).bytes)
    }

    pub(crate) fn contains(&self, value: ValueRef) -> bool {
        self.keys.contains(&self.collation.key_of(value).bytes)
    }
}
