//! `min` and `max`: a range of keys of a hinted index, lower end included.

use arbor_bson::DocBuf;
use arbor_bson::keystring::KeyBuilder;
use arbor_lang::Collation;

use super::index_shape::IndexShape;
use super::key_bounds::Span;
use crate::{Error, Result};

pub(super) fn without_hint() -> Error {
    Error::Lang(arbor_lang::Error::location(
        51173,
        "When using min()/max() a hint of which index to use must be provided",
    ))
}

/// `collation` is the statement's: strings cannot be compared with those of an index with another one.
pub(super) fn span(
    shape: &IndexShape,
    min: Option<&DocBuf>,
    max: Option<&DocBuf>,
    collation: &Collation,
) -> Result<Span> {
    let low = min.map(|min| key(shape, min, collation)).transpose()?.unwrap_or_default();
    let high = max.map(|max| key(shape, max, collation)).transpose()?;
    if high.as_ref().is_some_and(|high| *high <= low) {
        return Err(Error::Lang(arbor_lang::Error::location(
            51175,
            "The value provided for min() does not come before the value provided for max()",
        )));
    }
    Ok(Span { low, high, point: false })
}

/// Requires the fields of the index in its order.
fn key(shape: &IndexShape, values: &DocBuf, collation: &Collation) -> Result<Vec<u8>> {
    let comparable = |value| *collation == shape.collation || !Collation::touches(value);
    let mut builder = KeyBuilder::new();
    let mut parts = shape.parts.iter();
    for (name, value) in values.as_doc() {
        match parts.next() {
            Some(part) if part.path == name && comparable(value) => {
                shape.collation.push_key(&mut builder, value, part.descending);
            }
            _ => return Err(mismatch()),
        }
    }
    if parts.next().is_some() {
        return Err(mismatch());
    }
    Ok(builder.finish().bytes)
}

fn mismatch() -> Error {
    Error::Lang(arbor_lang::Error::location(51174, "requested hint does not match min/max fields"))
}
