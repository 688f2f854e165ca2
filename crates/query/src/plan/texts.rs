//! Strings in the keys of an index.
//!
//! X1: an index with a collation holds keys in the place of strings ([`Collation::index_value`]); values in its bounds are
//! brought into that form. X2: only when a statement has the collation of the index do its comparisons of strings say
//! anything about keys.

use std::borrow::Cow;

use arbor_bson::Value;
use arbor_lang::Collation;

#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'c> {
    index: &'c Collation,
    same: bool,
}

impl<'c> Texts<'c> {
    pub(super) fn of(index: &'c Collation, statement: &Collation) -> Texts<'c> {
        Texts { index, same: index == statement }
    }

    /// Returns a value of the statement as the index stores it. None: nothing is known about it.
    pub(super) fn value<'v>(self, value: &'v Value) -> Option<Cow<'v, Value>> {
        match value.as_ref() {
            own if !Collation::touches(own) => Some(Cow::Borrowed(value)),
            _ if !self.same => None,
            _ if self.index.is_simple() => Some(Cow::Borrowed(value)),
            own => Some(Cow::Owned(self.index.index_value(own))),
        }
    }

    /// Returns true if strings with a common prefix are adjacent.
    pub(super) fn has_prefixes(self) -> bool {
        self.index.is_simple()
    }

    /// Equal predicates of two statements with these collations are true of the same strings.
    pub(super) fn is_same(self) -> bool {
        self.same
    }
}
