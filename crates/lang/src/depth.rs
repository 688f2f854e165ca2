//! Values that nest too deeply are refused where they are built: by an expression, a stage or an update.

use arbor_bson::{DEPTH_MAX, Doc, DocBuf, ValueRef};

use crate::{Code, Error, Result};

/// Checks a value that was computed.
pub fn check_value(value: ValueRef) -> Result<()> {
    if value.is_deeper_than(DEPTH_MAX) { Err(too_deep()) } else { Ok(()) }
}

/// Checks a document that was computed.
pub fn check_doc(doc: Doc) -> Result<()> {
    check_value(ValueRef::Document(doc))
}

/// The document, if it nests no deeper than any may.
pub fn checked(doc: DocBuf) -> Result<DocBuf> {
    check_doc(doc.as_doc()).map(|()| doc)
}

/// For recursion into a document: the levels that are left below one of `levels`. Errors: none are.
pub(crate) fn below(levels: usize) -> Result<usize> {
    levels.checked_sub(1).ok_or_else(too_deep)
}

#[cold]
fn too_deep() -> Error {
    let message =
        format!("cannot convert document to BSON because it exceeds the limit of {DEPTH_MAX} levels of nesting");
    Error::new(Code::OVERFLOW, message)
}
