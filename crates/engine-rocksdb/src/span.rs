//! Ranges of keys whose rows are gone.

use crate::records::Content;

/// More deleted ranges than this between two checkpoints are left to RocksDB's own compactions.
pub(crate) const SPANS_MAX: usize = 100;

/// Keys with their content's prefix, `begin <= key < end`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub begin: Vec<u8>,
    pub end: Vec<u8>,
}

impl Span {
    /// Inside a content, so that no key of a neighbour counts as part of it.
    pub(crate) fn within(content: Content) -> Span {
        Span { begin: content.row(&[0]), end: content.row(&[0xff; 16]) }
    }
}
