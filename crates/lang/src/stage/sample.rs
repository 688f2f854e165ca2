//! `{ $sample: { size: 5 } }`.

use arbor_bson::ValueRef;

use crate::{Error, Result, number};

pub fn parse(spec: ValueRef) -> Result<u64> {
    let ValueRef::Document(doc) = spec else {
        return Err(Error::location(28745, "the $sample stage specification must be an object"));
    };
    if let Some((unknown, _)) = doc.iter().find(|(name, _)| *name != "size") {
        return Err(Error::location(28748, format!("unrecognized option to $sample: {unknown}")));
    }
    let size = doc.get("size").ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    if !number::is_number(size) {
        return Err(Error::location(28746, "size argument to $sample must be a number"));
    }
    match number::truncate_to_i64(size) {
        Some(size) if size > 0 => Ok(size as u64),
        _ => Err(Error::location(28747, "size argument to $sample must be a positive integer")),
    }
}
