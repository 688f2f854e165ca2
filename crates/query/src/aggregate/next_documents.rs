//! The documents of a pipeline that ends in a collection, as many as one transaction writes.

use arbor_bson::{DocBuf, ValueRef};

use crate::{BatchLimit, Cursor, Interrupt, Result, Scope};

/// The next documents that one transaction takes. None at the end.
pub(super) fn next_documents(
    scope: &Scope<'_>,
    cursor: &mut Cursor,
    interrupt: &Interrupt,
) -> Result<Option<Vec<DocBuf>>> {
    let settings = &scope.settings;
    let limit = BatchLimit { docs: settings.write_docs_max, bytes: settings.write_bytes_max };
    loop {
        interrupt.check()?;
        let batch = cursor.next_batch(limit, interrupt)?;
        let documents: Vec<DocBuf> = batch
            .docs
            .as_array()
            .iter()
            .filter_map(|value| match value {
                ValueRef::Document(doc) => Some(doc.to_buf()),
                _ => None,
            })
            .collect();
        if !documents.is_empty() {
            return Ok(Some(documents));
        }
        if batch.exhausted {
            return Ok(None);
        }
    }
}
