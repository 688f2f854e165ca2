//! What of a document is shown: `find`'s projection and `$project`.

use arbor_bson::{Doc, DocBuf};

use crate::{Context, Error, Filter, Path, Result};

/// Who asks. `find` has the positional `$`, `$slice` and `$elemMatch` of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectionKind {
    Find,
    Aggregate,
}

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {}

impl Projection {
    /// `filter` is the query that a positional `$` refers to.
    pub fn parse(
        _spec: Doc,
        _kind: ProjectionKind,
        _filter: Option<&Filter>,
        _context: &Context,
    ) -> Result<Projection> {
        Err(Error::not_implemented("a projection"))
    }

    /// `position` is what [`Filter::matches_with_position`] told; it matters only when `needs_position`.
    pub fn apply(&self, _doc: Doc, _position: Option<usize>) -> Result<DocBuf> {
        Err(Error::not_implemented("a projection"))
    }

    /// Whether the positional `$` is used.
    pub fn needs_position(&self) -> bool {
        false
    }

    /// Whether documents pass unchanged (`{}`).
    pub fn is_identity(&self) -> bool {
        false
    }

    /// The plain paths of an inclusion that shows nothing else, with `_id` if it is shown: what an index must hold to
    /// answer alone. `None` when whole documents are needed.
    pub fn covered_by(&self) -> Option<Vec<Path>> {
        None
    }
}
