//! `create`.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::Code;
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
            "storageEngine" => {
                let engines = field.document(value)?;
                check_engines(engines)?;
                options.append(name, engines);
            }
            "indexOptionDefaults" => drop(options.append(name, field.document(value)?)),
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

/// Engines of any build, by all their names: options for those that are not used are kept and change nothing.
const ENGINES: &[&str] = &[
    "ftree",
    "tokuft",
    "perconaft",
    "lmdb",
    "mmapv1",
    "rocksdb",
    "wiredtiger",
    "inmemory",
    "devnull",
    "ephemeralfortest",
];

fn check_engines(engines: Doc<'_>) -> Result<()> {
    for (name, options) in engines {
        if !ENGINES.contains(&name.to_ascii_lowercase().as_str()) {
            let text = format!("{name} is not a registered storage engine for this server");
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
        if !matches!(options, ValueRef::Document(_)) {
            return Err(Error::bad_value(format!("'storageEngine.{name}' has to be an embedded document.")));
        }
    }
    Ok(())
}

fn refuse_images(value: ValueRef<'_>) -> Result<()> {
    match value {
        ValueRef::Document(doc) if !matches!(doc.get("enabled"), Some(ValueRef::Bool(true))) => Ok(()),
        _ => Err(Error::not_supported("change stream images")),
    }
}
