//! `collectionUUID`: the identity that a command expects its collection to have.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_store::Namespace;
use uuid::Uuid;

use crate::call::Call;
use crate::{Error, Result};

/// Errors: no UUID.
pub(crate) fn read(call: &Call<'_>, value: ValueRef<'_>) -> Result<Uuid> {
    let field = call.field("collectionUUID");
    let ValueRef::Binary { subtype: 4, bytes } = value else { return Err(field.wrong_type(value, "UUID").into()) };
    let wrong = |_| Error::new(Code(207), "uuid must be a 16-byte binary field with UUID (4) subtype");
    Uuid::from_slice(bytes).map_err(wrong)
}

/// Errors: the collection has another identity; no UUID.
pub(crate) fn check(call: &Call<'_>, namespace: &Namespace, value: ValueRef<'_>) -> Result<()> {
    let uuid = read(call, value)?;
    let store = &call.database().store;
    if store.collection(namespace).is_some_and(|own| own.uuid == uuid) {
        return Ok(());
    }
    let named = store.list_collections(namespace.db()).into_iter().find(|own| own.uuid == uuid);
    let mut details = DocBuf::new()
        .with("db", namespace.db())
        .with("collectionUUID", ValueRef::Binary { subtype: 4, bytes: uuid.as_bytes() })
        .with("expectedCollection", namespace.collection());
    match &named {
        Some(named) => details.append("actualCollection", named.namespace.collection()),
        None => details.append("actualCollection", ValueRef::Null),
    };
    Err(Error::new(Code(361), "Collection UUID does not match that specified").with_details(details))
}
