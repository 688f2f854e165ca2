//! Projections: `find`'s projection and `$project`.
//!
//! A projection is a selection (fields kept or dropped, in the order of the document) followed by [`Computed`] fields
//! (expressions and `$elemMatch`, appended). `$addFields` is the computed part alone.

mod computed;
mod parse;
mod paths;
mod selection;

use arbor_bson::{Doc, DocBuf};

use crate::{Context, Filter, Input, Path, Result};

pub use computed::{Computed, Source};
pub use paths::Paths;
use selection::Selection;

/// Origin of the projection. `find` has the positional `$`, `$slice` and `$elemMatch` of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectionKind {
    Find,
    Aggregate,
}

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {
    selection: Selection,
    computed: Computed,
    /// `a.b.$`: the path before the `$`.
    positional: Option<Path>,
}

impl Projection {
    /// `filter` is the query that a positional `$` refers to. An empty `spec` shows everything.
    pub fn parse(spec: Doc, kind: ProjectionKind, filter: Option<&Filter>, context: &Context) -> Result<Projection> {
        parse::parse(spec, kind, filter, context)
    }

    /// `position` is the result of [`Filter::matches_with_position`]; it matters only when `needs_position`.
    pub fn apply<'d>(&self, input: impl Into<Input<'d>>, position: Option<usize>) -> Result<DocBuf> {
        let input = input.into();
        let doc = input.doc;
        let cut = match &self.positional {
            Some(path) => Some(selection::cut_to_position(doc, path.components(), position)?),
            None => None,
        };
        let selected = self.selection.apply(cut.as_ref().map_or(doc, DocBuf::as_doc))?;
        if self.computed.is_empty() { Ok(selected) } else { self.computed.apply(selected.as_doc(), input) }
    }

    /// Returns true if the positional `$` is used.
    pub fn needs_position(&self) -> bool {
        self.positional.is_some()
    }

    /// Returns true if documents pass unchanged (`{}`).
    pub fn is_identity(&self) -> bool {
        self.selection.is_identity() && self.computed.is_empty()
    }

    /// Returns true if it names the fields to show, rather than those to hide.
    pub fn is_inclusion(&self) -> bool {
        self.selection.inclusive
    }

    /// The plain paths of an inclusion that shows nothing else, with `_id` if it is shown: what an index must hold to
    /// answer alone. `None` when whole documents are needed.
    pub fn covered_by(&self) -> Option<Vec<Path>> {
        let plain = self.computed.is_empty() && self.positional.is_none();
        if plain && self.selection.inclusive { self.selection.plain_paths() } else { None }
    }
}

#[cfg(test)]
mod tests;
