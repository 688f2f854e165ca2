//! `{ $sample: { size: 5 } }`.

use arbor_bson::ValueRef;

use crate::{Error, Result, number};

pub(super) fn parse(spec: ValueRef) -> Result<u64> {
    let ValueRef::Document(doc) = spec else {
        return Err(Error::location(28745, "the $sample stage specification must be an object"));
    };
    for (name, value) in doc {
        if name != "size" {
            return Err(Error::location(28748, format!("unrecognized option to $sample: {name}")));
        }
        if !number::is_number(value) {
            return Err(Error::location(28746, "size argument to $sample must be a number"));
        }
    }
    let size = doc.get("size").ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    match number::saturate_to_i64(size) {
        Some(size) if size > 0 => Ok(size as u64),
        _ => Err(Error::location(28747, "size argument to $sample must be a positive integer")),
    }
}
