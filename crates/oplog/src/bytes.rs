//! Decoding the fields of a note.

use arbor_base::Fields;
use arbor_bson::{Doc, INTERNAL_SIZE_MAX, Limits, validate};

/// A delta nests deeper than its documents, and those of versions before the limit nest deeper still.
const LIMITS: Limits = Limits { depth_max: 1000, size_max: INTERNAL_SIZE_MAX };

/// Bytes of a note that no build of Arbor wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt change entry in the log: {0}")]
pub struct Malformed(pub &'static str);

pub(crate) type Decoded<T> = Result<T, Malformed>;

impl Malformed {
    pub(crate) const SHORT: Malformed = Malformed("it ends too early");
}

/// Takes the document at the front.
pub(crate) fn take_doc<'a>(fields: &mut Fields<'a>) -> Decoded<Doc<'a>> {
    let length = fields.rest().first_chunk().map(|head| u32::from_le_bytes(*head) as usize).ok_or(Malformed::SHORT)?;
    let bytes = fields.bytes(length).ok_or(Malformed::SHORT)?;
    validate(bytes, LIMITS).map_err(|_| Malformed("a document in it is invalid"))
}

/// Checks that nothing is left.
pub(crate) fn end(fields: Fields<'_>) -> Decoded<()> {
    if fields.is_at_end() { Ok(()) } else { Err(Malformed("bytes after its end")) }
}
