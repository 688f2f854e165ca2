//! `changeStreamPreAndPostImages` of `create` and `collMod`: the history keeps what documents were like before a change.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, present};
use arbor_store::Namespace;

use crate::{Error, Result};

pub(crate) const NAME: &str = "changeStreamPreAndPostImages";

/// `{enabled: true}` as `listCollections` shows it. None: no images are kept.
pub(crate) fn read(namespace: &Namespace, field: Field<'_>, value: ValueRef<'_>) -> Result<Option<DocBuf>> {
    let mut enabled = None;
    for (name, value) in present(field.document(value)?) {
        let field = Field::new(NAME, name);
        match name {
            "enabled" => enabled = Some(field.bool(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let enabled = enabled.ok_or_else(|| Field::new(NAME, "enabled").missing())?;
    if enabled && matches!(namespace.db(), "admin" | "config" | "local") {
        let text = format!("'{NAME}' collection option is not supported on admin, local or config databases");
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    }
    Ok(enabled.then(|| DocBuf::new().with("enabled", true)))
}
