//! `$group`.

use arbor_bson::{Doc, DocBuf};

use crate::{Error, Result};

/// `{ $group: { _id: <expression>, field: { <accumulator>: <expression> }, ... } }`.
#[derive(Clone, Debug)]
pub struct Group {}

/// The groups collected so far. Feed documents with `add`, take the results with `finish`.
#[derive(Debug)]
pub struct GroupState {}

impl GroupState {
    pub fn new(_group: &Group) -> GroupState {
        GroupState {}
    }

    pub fn add(&mut self, _doc: Doc) -> Result<()> {
        Err(Error::not_implemented("$group"))
    }

    /// Memory held, estimated: for the limit and for spilling.
    pub fn size_bytes(&self) -> usize {
        0
    }

    /// One document per group, in the order the groups were first seen.
    pub fn finish(self) -> Result<impl Iterator<Item = DocBuf>> {
        Ok(std::iter::empty())
    }
}
