//! `create`.

use arbor_bson::{DocBuf, ValueRef};
use arbor_store::Created;

use super::cursor_reply::{collation, refuse_if_given};
use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let mut options = DocBuf::new();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "capped" => refuse_if_given(field, value, "a capped collection")?,
            "timeseries" => refuse_if_given(field, value, "a time series collection")?,
            "clusteredIndex" => refuse_if_given(field, value, "a clustered collection")?,
            "viewOn" | "pipeline" => refuse_if_given(field, value, "a view")?,
            "validator" => refuse_if_given(field, value, "a validator")?,
            "encryptedFields" => refuse_if_given(field, value, "queryable encryption")?,
            "expireAfterSeconds" => refuse_if_given(field, value, "a time to live of a collection")?,
            "changeStreamPreAndPostImages" => refuse_images(value)?,
            "collation" => collation(field, value)?,
            "storageEngine" | "indexOptionDefaults" => drop(options.append(name, field.document(value)?)),
            // TokuMX took the settings of its trees beside the other options.
            "compression" | "pageSize" | "readPageSize" | "fanout" => drop(options.append(name, value)),
            "validationLevel" | "validationAction" => drop(field.string(value)?),
            "size" | "max" | "flags" => drop(field.integer(value)?),
            "autoIndexId" | "temp" => drop(field.bool(value)?),
            "idIndex" => drop(field.document(value)?),
            "writeConcern" => {}
            _ => return Err(field.unknown()),
        }
    }
    match call.database().store.create_collection(&namespace, &options)? {
        Created::Now | Created::Before => Ok(()),
    }
}

fn refuse_images(value: ValueRef<'_>) -> Result<()> {
    match value {
        ValueRef::Document(doc) if !matches!(doc.get("enabled"), Some(ValueRef::Bool(true))) => Ok(()),
        _ => Err(Error::not_supported("change stream images")),
    }
}
