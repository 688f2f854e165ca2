//! Replacements: the whole document but its `_id`. A `Timestamp(0, 0)` at the top is now.

use arbor_bson::{Doc, DocBuf, Timestamp, ValueRef, compare};

use super::{op, path::dollar_prefixed};
use crate::{Code, Context, Error, Result, text};

pub(super) fn parse(replacement: Doc, context: &Context) -> Result<DocBuf> {
    if let Some((name, _)) = replacement.iter().find(|(name, _)| name.starts_with('$')) {
        return Err(dollar_prefixed(name, name));
    }
    let stamped = |(name, value)| match value {
        ValueRef::Timestamp(Timestamp { seconds: 0, increment: 0 }) if name != "_id" => {
            (name, ValueRef::Timestamp(op::timestamp(context)))
        }
        _ => (name, value),
    };
    Ok(replacement.iter().map(stamped).collect())
}

/// The replacement with the `_id` of the old document.
pub(super) fn apply(replacement: Doc, old: Doc) -> Result<DocBuf> {
    match (old.get("_id"), replacement.get("_id")) {
        (Some(old), None) => Ok(with_id(old, replacement)),
        (Some(old), Some(new)) if !compare(old, new).is_eq() => Err(id_altered(new)),
        (_, Some(new)) => Ok(with_id(new, replacement)),
        (None, None) => Ok(replacement.to_buf()),
    }
}

pub(super) fn id_altered(new: ValueRef) -> Error {
    let new = text::field("_id", new);
    let message =
        format!("After applying the update, the (immutable) field '_id' was found to have been altered to {new}");
    Error::new(Code::IMMUTABLE_FIELD, message)
}

/// The document with this `_id`, and in the first place.
pub(super) fn with_id(id: ValueRef, doc: Doc) -> DocBuf {
    let others = doc.iter().filter(|(name, _)| *name != "_id");
    std::iter::once(("_id", id)).chain(others).collect()
}
