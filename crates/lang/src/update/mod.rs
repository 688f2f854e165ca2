//! Updates: operators, replacements and pipelines applied to a document.

use arbor_bson::{Doc, DocBuf, ObjectId, ValueRef};

use crate::{Context, Error, Filter, Result};

/// A parsed update. Shared freely between threads.
#[derive(Clone, Debug)]
pub struct Update {}

/// What of a document an update may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Any field (replacements and pipelines).
    Everything,
    /// Only fields below these top-level names.
    Fields(Vec<Box<str>>),
}

impl Update {
    /// `update` is a document (operators or a replacement) or an array (a pipeline).
    pub fn parse(_update: ValueRef, _array_filters: &[Doc], _context: &Context) -> Result<Update> {
        Err(Error::not_implemented("an update"))
    }

    /// The document after the update, or `None` when nothing changes. `position` is what
    /// [`Filter::matches_with_position`] told about `old`; it matters only when `needs_position`.
    pub fn apply(&self, _old: Doc, _position: Option<usize>) -> Result<Option<DocBuf>> {
        Err(Error::not_implemented("an update"))
    }

    /// The document that an upsert inserts when nothing matched `filter`. Its `_id` stands first; `generate_id` is
    /// called when neither the filter nor the update has one.
    pub fn new_document(&self, _filter: &Filter, _generate_id: impl FnOnce() -> ObjectId) -> Result<DocBuf> {
        Err(Error::not_implemented("an update"))
    }

    /// Whether the positional `$` is used.
    pub fn needs_position(&self) -> bool {
        false
    }

    /// Whether the whole document is replaced (refused with `multi`).
    pub fn is_replacement(&self) -> bool {
        false
    }

    pub fn touched_paths(&self) -> Touched {
        Touched::Everything
    }
}

impl Touched {
    /// Whether the value at a dotted path may change.
    pub fn may_change(&self, dotted: &str) -> bool {
        let head = dotted.split('.').next().unwrap_or_default();
        match self {
            Touched::Everything => true,
            Touched::Fields(fields) => fields.iter().any(|field| &**field == head),
        }
    }
}
