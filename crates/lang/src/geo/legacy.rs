//! Coordinate pairs: `[x, y]`, `{ lng: x, lat: y }` under any two names.

use arbor_bson::ValueRef;

use super::geometry::Place;
use crate::{Error, Result, number, text};

/// The first two coordinates, and how many there are.
pub(super) fn coordinates(value: ValueRef) -> Result<(f64, f64, usize)> {
    let elements = match value {
        ValueRef::Array(array) => array.as_doc(),
        ValueRef::Document(doc) => doc,
        other => {
            let ty = text::type_name(Some(other));
            return Err(Error::bad_value(format!("Point must be an array or object, instead got type {ty}")));
        }
    };
    let numeric =
        |value| number::to_f64(value).ok_or_else(|| Error::bad_value("Point must only contain numeric elements"));
    let mut values = elements.iter().map(|(_, value)| value);
    let (Some(x), Some(y)) = (values.next(), values.next()) else {
        return Err(Error::bad_value("Point must contain at least two coordinates"));
    };
    let (x, y) = (numeric(x)?, numeric(y)?);
    if !x.is_finite() || !y.is_finite() {
        return Err(Error::bad_value("Point coordinates must be finite numbers"));
    }
    Ok((x, y, 2 + values.count()))
}

/// A pair in a query: nothing may follow.
pub(super) fn exact_pair(value: ValueRef) -> Result<(f64, f64)> {
    match coordinates(value)? {
        (x, y, 2) => Ok((x, y)),
        _ => Err(Error::bad_value("Point must only contain two coordinates")),
    }
}

/// A place on the sphere.
pub(super) fn place(lng: f64, lat: f64) -> Result<Place> {
    if lng.abs() <= 180.0 && lat.abs() <= 90.0 {
        return Ok(Place::new(lng, lat));
    }
    Err(Error::bad_value(format!("longitude/latitude is out of bounds, lng: {lng} lat: {lat}")))
}
