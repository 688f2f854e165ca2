//! `$unionWith`: the documents of the pipeline, then those of another one.
//!
//! `{ $unionWith: "other" }`, `{ $unionWith: { coll: "other", pipeline: [..] } }`, or without `coll` over the documents
//! of a `$documents` stage. Both are read in the snapshot of the whole pipeline.

use arbor_bson::{ArrayBuf, ValueRef};
use arbor_lang::Code;

use super::inner::Inner;
use super::surroundings::Surroundings;
use crate::{Error, Result};

pub(super) fn parse(spec: ValueRef<'_>, around: &Surroundings<'_>) -> Result<Inner> {
    let (mut coll, mut pipeline) = (None, None);
    match spec {
        ValueRef::String(name) => coll = Some(name),
        ValueRef::Document(doc) => {
            for (name, value) in doc {
                match (name, value) {
                    ("coll", ValueRef::String(text)) => coll = Some(text),
                    ("pipeline", ValueRef::Array(stages)) => pipeline = Some(stages.to_buf()),
                    ("coll", other) => return Err(wrong_type("coll", other, "string")),
                    ("pipeline", other) => return Err(wrong_type("pipeline", other, "array")),
                    _ => {
                        let message = format!("BSON field '$unionWith.{name}' is an unknown field.");
                        return Err(Error::Lang(arbor_lang::Error::location(40415, message)));
                    }
                }
            }
        }
        other => {
            let found = arbor_lang::text::type_name(Some(other));
            let message = format!("the $unionWith stage specification must be an object or string, but found {found}");
            return Err(Error::new(Code::FAILED_TO_PARSE, message));
        }
    }
    let pipeline = pipeline.unwrap_or_else(ArrayBuf::new);
    Inner::parse("$unionWith", coll, pipeline.as_array(), around)
}

fn wrong_type(field: &str, value: ValueRef<'_>, expected: &str) -> Error {
    let found = arbor_lang::text::type_name(Some(value));
    let message = format!("BSON field '$unionWith.{field}' is the wrong type '{found}', expected type '{expected}'");
    Error::new(Code::TYPE_MISMATCH, message)
}
