//! `$each`, shared by `$push` and `$addToSet`.

use arbor_bson::{Doc, ValueRef};

/// The operand as a document of clauses, if it is one: its first field is `$each`, or one is.
pub(super) fn clauses(operand: ValueRef<'_>) -> Option<Doc<'_>> {
    match operand {
        ValueRef::Document(doc) if doc.get("$each").is_some() => Some(doc),
        _ => None,
    }
}
