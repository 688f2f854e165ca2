//! `$geoNear`: documents by their distance from a point, with the distance as a field.
//!
//! ```text
//! { $geoNear: { near: { type: "Point", coordinates: [0, 0] }, distanceField: "d" } }
//! before: { _id: 1, loc: [0, 1] }
//! after:  { _id: 1, loc: [0, 1], d: 111318.8 }
//! ```
//!
//! The planner finds the documents; what is left for the stage is to write what it knows about them into fields.

use std::sync::Arc;

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use crate::document::with_value;
use crate::expression::is_true;
use crate::geo::Near;
use crate::matcher::Node;
use crate::{Code, Context, Error, Expression, Filter, Input, MetaKind, Path, Result, field_path, number, text};

/// A parsed stage.
#[derive(Clone, Debug)]
pub struct GeoNear {
    /// The `$near` with the other conditions on the documents. The path of the `$near` is empty when no `key` was given.
    pub filter: Filter,
    pub fields: NearFields,
}

/// Fields that the distance and the place are written to.
#[derive(Clone, Debug)]
pub struct NearFields {
    distance: Option<Path>,
    multiplier: f64,
    place: Option<Path>,
}

impl GeoNear {
    pub fn parse(spec: ValueRef, context: &Context) -> Result<GeoNear> {
        let ValueRef::Document(spec) = spec else {
            if matches!(spec, ValueRef::Array(_)) {
                return Err(Error::location(5_860_400, "$geoNear requires a 'near' argument"));
            }
            return Err(Error::location(10_065, "invalid parameter: expected an object ($geoNear)"));
        };
        check_names(spec)?;
        let Some(near) = constant(spec, "near", context)? else {
            return Err(Error::location(5_860_400, "$geoNear requires a 'near' argument"));
        };
        if !matches!(near, Value::Array(_) | Value::Document(_)) {
            let found = text::type_name(Some(near.as_ref()));
            let message = format!("$geoNear requires near argument to be an array or document, found: {found}");
            return Err(Error::location(5_860_401, message));
        }
        let on_sphere = spec.get("spherical").is_some_and(is_true);
        let mut near = Near::of_stage(key(spec)?, near.as_ref(), on_sphere)?;
        for name in ["minDistance", "maxDistance"] {
            if let Some(distance) = constant(spec, name, context)? {
                let is_number = number::is_number(distance.as_ref());
                let mistyped = |error: Error| if is_number { error } else { Error::type_mismatch(error.message) };
                match number::to_f64(distance.as_ref()) {
                    Some(f64::INFINITY) => near.unlimited(name),
                    _ => near.limit(name, distance.as_ref()).map_err(mistyped)?,
                }
            }
        }
        let mut nodes = vec![Node::Near(Arc::new(near))];
        match spec.get("query") {
            None => {}
            Some(ValueRef::Document(query)) => {
                nodes.push(Filter::parse(query, context)?.without_text()?.root().clone())
            }
            Some(other) => return Err(wrong_type("query", "object", other)),
        }
        let flat = nodes.into_iter().flat_map(|node| if let Node::And(inner) = node { inner } else { vec![node] });
        Ok(GeoNear { filter: Filter::from_root(Node::And(flat.collect()), &context.collation), fields: fields(spec)? })
    }
}

fn check_names(spec: Doc) -> Result<()> {
    const KNOWN: &[&str] = &[
        "near",
        "distanceField",
        "spherical",
        "key",
        "query",
        "minDistance",
        "maxDistance",
        "distanceMultiplier",
        "includeLocs",
    ];
    for (name, _) in spec {
        match name {
            "limit" | "num" | "start" | "uniqueDocs" => {
                let message =
                    format!("$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead.");
                return Err(Error::location(50_858, message));
            }
            name if !KNOWN.contains(&name) => {
                return Err(Error::bad_value(format!("Unknown argument to $geoNear: {name}")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn wrong_type(name: &str, expected: &str, value: ValueRef) -> Error {
    let found = text::type_name(Some(value));
    Error::type_mismatch(format!("$geoNear parameter '{name}' must be of type {expected} but found type: {found}"))
}

/// A value that may be an expression without fields.
fn constant(spec: Doc, name: &str, context: &Context) -> Result<Option<Value>> {
    let Some(value) = spec.get(name) else { return Ok(None) };
    let expression = Expression::parse(value, context)?;
    if expression.reads_document() {
        let message = format!("$geoNear requires a constant {name} argument");
        return Err(Error::location(5_860_402, message));
    }
    expression.eval(Doc::empty())
}

fn key(spec: Doc<'_>) -> Result<&str> {
    match spec.get("key") {
        None => Ok(""),
        Some(ValueRef::String("")) => Err(Error::bad_value("$geoNear parameter 'key' cannot be the empty string")),
        Some(ValueRef::String(key)) => Ok(key),
        Some(other) => Err(wrong_type("key", "string", other)),
    }
}

fn fields(spec: Doc) -> Result<NearFields> {
    let distance = match spec.get("distanceField") {
        None => None,
        Some(ValueRef::String(path)) => Some(field_path::parse(path)?),
        _ => return Err(Error::location(16_606, "$geoNear requires a 'distanceField' option as a String")),
    };
    let place = match spec.get("includeLocs") {
        None => None,
        Some(ValueRef::String(path)) => Some(field_path::parse(path)?),
        Some(_) => return Err(Error::location(16_607, "$geoNear requires that 'includeLocs' option is a String")),
    };
    let multiplier = match spec.get("distanceMultiplier") {
        None => 1.0,
        Some(value) => match number::to_f64(value) {
            Some(multiplier) if multiplier >= 0.0 => multiplier,
            Some(_) => return Err(Error::new(Code::BAD_VALUE, "distanceMultiplier must be nonnegative")),
            None => return Err(wrong_type("distanceMultiplier", "number", value)),
        },
    };
    Ok(NearFields { distance, multiplier, place })
}

impl NearFields {
    /// Returns the document with the fields for its distance and place.
    pub fn apply(&self, input: Input) -> Result<DocBuf> {
        let distance = input.meta(MetaKind::GeoNearDistance).and_then(number::to_f64).unwrap_or(f64::NAN);
        let distance = ValueRef::Double(distance * self.multiplier);
        let document = match &self.distance {
            Some(path) => with_value(input.doc, path.components(), Some(distance)),
            None => input.doc.to_buf(),
        };
        match (&self.place, input.meta(MetaKind::GeoNearPoint)) {
            (Some(path), Some(place)) => Ok(with_value(document.as_doc(), path.components(), Some(place))),
            _ => Ok(document),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metadata;
    use crate::notation::{doc, show, value};

    #[test]
    fn writes_what_is_known() {
        let spec =
            value("{near: [0, 0], distanceField: 'd.far', distanceMultiplier: 2, includeLocs: 'd.at', query: {a: 1}}");
        let stage = GeoNear::parse(spec.as_ref(), &Context::new(0)).unwrap();
        assert!(stage.filter.near().is_some_and(|near| near.path.as_str().is_empty()));
        let place = value("[1, 2]");
        let known = Metadata::new().with(MetaKind::GeoNearDistance, 2.5).with(MetaKind::GeoNearPoint, place.as_ref());
        let own = doc("{a: 1}");
        let written = stage.fields.apply(Input::new(own.as_doc(), Some(&known))).unwrap();
        assert_eq!(show((&written).into()), show(value("{a: 1, d: {far: 5.0, at: [1, 2]}}").as_ref()));
    }

    #[test]
    fn bad_specifications_are_refused() {
        for (spec, code, reason) in [
            ("{distanceField: 'd'}", 5_860_400, "requires a 'near' argument"),
            ("{near: [0, 0], distanceField: 5}", 16_606, "requires a 'distanceField' option as a String"),
            ("{near: [0, 0], distanceField: 'd', key: 1}", 14, "must be of type string but found type: int"),
            ("{near: [0, 0], distanceField: 'd', key: ''}", 2, "cannot be the empty string"),
            ("{near: [0, 0], distanceField: 'd', x: ''}", 2, "Unknown argument to $geoNear: x"),
            ("{near: [0, 0], distanceField: 'd', limit: 5}", 50_858, "no longer supports the 'limit' parameter"),
            ("{near: [0, 0], distanceField: 'd', maxDistance: -5}", 2, "maxDistance must be non-negative"),
            ("{near: [0, 0], distanceField: 'd', includeLocs: 1}", 16_607, "'includeLocs' option is a String"),
            ("{near: [0, 0], distanceField: 'd', distanceMultiplier: -1}", 2, "must be nonnegative"),
            ("{near: [0, 0], distanceField: 'd', query: 1}", 14, "must be of type object"),
            ("{near: {type: 'Point', coordinates: [0, 99]}, distanceField: 'd'}", 2, "invalid point"),
        ] {
            let error = GeoNear::parse(value(spec).as_ref(), &Context::new(0)).expect_err(spec);
            assert_eq!(error.code.0, code, "{spec}: {error}");
            assert!(error.message.contains(reason), "{spec}: {error}");
        }
    }
}
