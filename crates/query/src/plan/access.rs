//! The ways to the documents of a collection.

use arbor_lang::Filter;

use super::index_shape::IndexShape;
use super::interval::Intervals;
use super::key_bounds::{KeyBounds, Span};
use super::sort_order::Direction;

#[derive(Clone, Debug)]
pub enum Access {
    /// Nothing can match.
    Nothing,
    /// The record with this key.
    Record {
        id_key: Vec<u8>,
    },
    Collection(Direction),
    Index(IndexAccess),
    /// Union of index scans.
    Or(Vec<Branch>),
}

/// One branch of an `$or`.
#[derive(Clone, Debug)]
pub struct Branch {
    pub access: IndexAccess,
    pub residual: Option<Filter>,
}

/// A scan of one index.
#[derive(Clone, Debug)]
pub struct IndexAccess {
    pub shape: IndexShape,
    pub range: ScanRange,
    /// Bounds of each component, as explain shows them.
    pub intervals: Vec<Intervals>,
    pub direction: Direction,
}

#[derive(Clone, Debug)]
pub enum ScanRange {
    Components(KeyBounds),
    /// `min` and `max` of the client.
    Keys(Span),
}

/// One complete way to the documents of a query, in its order.
#[derive(Clone, Debug)]
pub struct Solution {
    pub access: Access,
    /// What the access does not make sure of.
    pub residual: Option<Filter>,
    /// The access does not give the order that is asked for.
    pub sorts: bool,
    /// Fields of a projection that the index holds, with their components: no document is read.
    pub covered: Option<Vec<(String, usize)>>,
}

impl Solution {
    pub fn unsorted(access: Access, residual: Option<Filter>) -> Solution {
        Solution { access, residual, sorts: false, covered: None }
    }
}

/// What the planner came to.
#[derive(Clone, Debug)]
pub struct Plans {
    pub winner: Solution,
    pub rejected: Vec<Solution>,
}

impl Plans {
    pub fn only(winner: Solution) -> Plans {
        Plans { winner, rejected: Vec::new() }
    }
}
