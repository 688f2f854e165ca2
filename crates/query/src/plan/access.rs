//! Access paths to the documents of a collection.

use arbor_lang::Filter;

use super::cost::Cost;
use super::index_shape::IndexShape;
use super::interval::Intervals;
use super::key_bounds::{KeyBounds, Span};
use super::near::NearAccess;
use super::sort_order::Direction;
use super::text::TextAccess;

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
    /// Index scans in the requested order, merged.
    Merge(Merge),
    /// By distance, through an index of places.
    Near(Box<NearAccess>),
    /// A text search.
    Text(Box<TextAccess>),
    /// Union of a text search, with what it does not make sure of, and index scans.
    TextOr(Box<TextAccess>, Option<Filter>, Vec<Branch>),
}

/// Index scans that each give the requested order.
#[derive(Clone, Debug)]
pub struct Merge {
    pub scans: Vec<IndexAccess>,
    /// No document is in two of them.
    pub distinct: bool,
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

/// One complete candidate plan of a query, in its order.
#[derive(Clone, Debug)]
pub struct Solution {
    pub access: Access,
    /// Filter of the conditions that the access does not guarantee.
    pub residual: Option<Filter>,
    /// The access does not give the requested order.
    pub sorts: bool,
    /// Fields of a projection that the index holds, with their components: no document is read.
    pub covered: Option<Vec<(String, usize)>>,
}

impl Solution {
    pub fn unsorted(access: Access, residual: Option<Filter>) -> Solution {
        Solution { access, residual, sorts: false, covered: None }
    }

    /// Returns a name that is unique among the candidate plans of a query.
    pub fn name(&self) -> String {
        let scans = |all: &mut dyn Iterator<Item = &IndexAccess>| -> String {
            all.map(|access| format!(" {} {}", access.shape.name, access.direction.name())).collect()
        };
        match &self.access {
            Access::Nothing => "EOF".to_owned(),
            Access::Record { .. } => "IDHACK".to_owned(),
            Access::Collection(direction) => format!("COLLSCAN {}", direction.name()),
            Access::Index(access) => format!("IXSCAN{}", scans(&mut std::iter::once(access))),
            Access::Near(near) => format!("GEO_NEAR {}", near.shape.name),
            Access::Or(branches) => format!("OR{}", scans(&mut branches.iter().map(|branch| &branch.access))),
            Access::Text(_) | Access::TextOr(..) => "TEXT_MATCH".to_owned(),
            // one index is scanned for each of several values, however many there are
            Access::Merge(merge) if merge.distinct => format!("SORT_MERGE{}", scans(&mut merge.scans.iter().take(1))),
            Access::Merge(merge) => format!("SORT_MERGE{}", scans(&mut merge.scans.iter())),
        }
    }
}

/// Result of planning.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    pub winner: Solution,
    pub rejected: Vec<Solution>,
    /// Costs of all, the winner first. Empty: there was nothing to compare.
    pub costs: Vec<Cost>,
}

impl Plans {
    pub(crate) fn only(winner: Solution) -> Plans {
        Plans { winner, rejected: Vec::new(), costs: Vec::new() }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Solution> {
        std::iter::once(&self.winner).chain(&self.rejected)
    }
}
