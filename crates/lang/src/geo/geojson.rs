//! GeoJSON as MongoDB reads it.

use arbor_bson::{Array, Doc, ValueRef};

use super::chain::Chain;
use super::geometry::{Geometry, Place};
use super::legacy;
use super::polygon::Polygon;
use super::ring::{Fault, Place as At, Ring, Winding};
use crate::{Error, Result, stop, text};

/// The coordinate system in which a ring encloses what is on its left.
const STRICT_WINDING: &str = "urn:x-mongodb:crs:strictwinding:EPSG:4326";

/// Returns true if a document is meant to be GeoJSON: a pair has no field of this name with a text in it.
pub(super) fn is_geojson(doc: Doc) -> bool {
    matches!(doc.get("type"), Some(ValueRef::String(_)))
}

/// A geometry as a document holds it. Big polygons are for queries only.
pub(super) fn parse(doc: Doc) -> Result<Geometry> {
    match winding(doc)? {
        Winding::Smaller => geometry(doc, Winding::Smaller),
        Winding::Left => Err(bad("can't index geometry with strict winding order", ValueRef::Document(doc))),
    }
}

/// A geometry of a query.
pub(super) fn parse_query(doc: Doc) -> Result<Geometry> {
    let winding = winding(doc)?;
    let is_polygon = matches!(doc.get("type"), Some(ValueRef::String("Polygon")));
    if winding == Winding::Left && !is_polygon {
        let message = "Strict winding order is only supported by polygon";
        return Err(bad(message, ValueRef::Document(doc)));
    }
    geometry(doc, winding)
}

fn winding(doc: Doc) -> Result<Winding> {
    let Some(crs) = doc.get("crs") else { return Ok(Winding::Smaller) };
    let ValueRef::Document(crs) = crs else { return Err(Error::bad_value("GeoJSON CRS must be an object")) };
    if !matches!(crs.get("type"), Some(ValueRef::String("name"))) {
        return Err(bad("GeoJSON CRS must have field \"type\": \"name\"", ValueRef::Document(crs)));
    }
    let Some(ValueRef::Document(properties)) = crs.get("properties") else {
        return Err(bad("CRS must have field \"properties\" which is an object", ValueRef::Document(crs)));
    };
    match properties.get("name") {
        Some(ValueRef::String("EPSG:4326" | "urn:ogc:def:crs:OGC:1.3:CRS84")) => Ok(Winding::Smaller),
        Some(ValueRef::String(STRICT_WINDING)) => Ok(Winding::Left),
        Some(ValueRef::String(name)) => Err(Error::bad_value(format!("Unknown CRS name: {name}"))),
        _ => Err(bad("In CRS, \"properties.name\" must be a string", ValueRef::Document(crs))),
    }
}

fn geometry(doc: Doc, winding: Winding) -> Result<Geometry> {
    let ty = match doc.get("type") {
        Some(ValueRef::String(ty)) => ty,
        _ => return Err(bad("unknown GeoJSON type", ValueRef::Document(doc))),
    };
    let list = |name: &str| match doc.get(name) {
        Some(ValueRef::Array(list)) => Ok(list),
        _ => Err(Error::bad_value(format!("GeoJSON {name} must be an array"))),
    };
    match ty {
        "Point" => Ok(Geometry::Point(place(doc.get("coordinates").unwrap_or(ValueRef::Null))?)),
        "LineString" => line(list("coordinates")?),
        "Polygon" => polygon(list("coordinates")?, winding),
        "MultiPoint" => several(ty, list("coordinates")?, |value| Ok(Geometry::Point(place(value)?))),
        "MultiLineString" => several(ty, list("coordinates")?, |value| line(array(value, "LineString")?)),
        "MultiPolygon" => several(ty, list("coordinates")?, |value| polygon(array(value, "Polygon")?, winding)),
        "GeometryCollection" => collection(list("geometries")?),
        _ => Err(bad("unknown GeoJSON type", ValueRef::Document(doc))),
    }
}

fn bad(problem: &str, value: ValueRef) -> Error {
    Error::bad_value(format!("{problem}: {}", text::shell(value)))
}

fn array<'a>(value: ValueRef<'a>, what: &str) -> Result<Array<'a>> {
    match value {
        ValueRef::Array(array) => Ok(array),
        _ => Err(Error::bad_value(format!("{what} coordinates must be an array"))),
    }
}

fn place(value: ValueRef) -> Result<Place> {
    let (lng, lat, _) = legacy::coordinates(value)?;
    legacy::place(lng, lat)
}

fn places(list: Array) -> Result<Vec<Place>> {
    list.iter().map(|value| stop::tick().and_then(|()| place(value))).collect()
}

/// Equal neighbours are one vertex.
fn distinct(places: &[Place]) -> Vec<Place> {
    let mut out = places.to_vec();
    out.dedup_by(|a, b| a.point == b.point);
    out
}

fn several(ty: &str, list: Array, part: impl Fn(ValueRef) -> Result<Geometry>) -> Result<Geometry> {
    if list.is_empty() {
        return Err(Error::bad_value(format!("{ty} coordinates must have at least 1 element")));
    }
    let part = |value| stop::tick().and_then(|()| part(value));
    Ok(Geometry::Collection(list.iter().map(part).collect::<Result<_>>()?))
}

fn collection(list: Array) -> Result<Geometry> {
    if list.is_empty() {
        return Err(Error::bad_value("GeometryCollection geometries must have at least 1 element"));
    }
    let mut parts = Vec::new();
    for (at, value) in list.iter().enumerate() {
        stop::tick()?;
        let ValueRef::Document(doc) = value else {
            let message = format!("Element {at} of \"geometries\" is not an object");
            return Err(Error::bad_value(message));
        };
        if matches!(doc.get("type"), Some(ValueRef::String("GeometryCollection"))) {
            let message = "GeometryCollections cannot be nested";
            return Err(bad(message, value));
        }
        match geometry(doc, Winding::Smaller)? {
            Geometry::Collection(several) => parts.extend(several),
            one => parts.push(one),
        }
    }
    Ok(Geometry::Collection(parts))
}

fn line(list: Array) -> Result<Geometry> {
    let places = distinct(&places(list)?);
    if places.len() < 2 {
        return Err(bad("GeoJSON LineString must have at least 2 vertices", ValueRef::Array(list)));
    }
    let apart =
        |pair: &[Place]| matches!(pair, [a, b] if super::arc::angle(a.point, b.point) < std::f64::consts::PI - 1e-11);
    if let Some(at) = places.windows(2).position(|pair| !apart(pair)) {
        let message = format!("Vertices {at} and {} of the LineString are antipodal", at + 1);
        return Err(bad(&message, ValueRef::Array(list)));
    }
    let chain = Chain::new(places.iter().map(|place| place.point).collect(), false);
    stop::ended()?;
    Ok(Geometry::Line(chain))
}

fn polygon(list: Array, winding: Winding) -> Result<Geometry> {
    let mut rings = list.iter().map(|value| ring(array(value, "Polygon")?, winding));
    let Some(outer) = rings.next().transpose()? else {
        return Err(bad("Polygon has no loops", ValueRef::Array(list)));
    };
    if winding == Winding::Left && list.iter().nth(1).is_some() {
        let message = "Only one simple loop is allowed in a big polygon";
        return Err(bad(message, ValueRef::Array(list)));
    }
    let holes = rings.collect::<Result<Vec<Ring>>>()?;
    check_holes(&outer, &holes, list)?;
    Ok(Geometry::Polygon(Polygon { outer, holes }))
}

/// Checks that each hole is inside of the first ring, and that no two intersect.
fn check_holes(outer: &Ring, holes: &[Ring], list: Array) -> Result<()> {
    let shown = |at: usize| list.get(at).map(text::shell).unwrap_or_default();
    for (at, hole) in holes.iter().enumerate() {
        stop::tick()?;
        let inside = hole.chain.vertices.iter().all(|vertex| outer.place(*vertex) != At::Outside)
            && !hole.chain.edges().any(|edge| outer.chain.any_near(&edge, |_, other| other.crosses(&edge)));
        if !inside {
            return Err(Error::bad_value(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be holes: {} first loop: {}",
                shown(at + 1),
                shown(0)
            )));
        }
        for (before, other) in holes.iter().enumerate().take(at) {
            stop::tick()?;
            let intersects = hole.chain.edges().any(|edge| other.chain.any_near(&edge, |_, own| own.crosses(&edge)))
                || hole.chain.vertices.iter().any(|vertex| other.place(*vertex) == At::Inside)
                || other.chain.vertices.iter().any(|vertex| hole.place(*vertex) == At::Inside);
            if intersects {
                let message = format!("Polygon isn't valid: loops {} and {} cross", before + 1, at + 1);
                return Err(bad(&message, ValueRef::Array(list)));
            }
        }
    }
    Ok(())
}

fn ring(list: Array, winding: Winding) -> Result<Ring> {
    let shown = ValueRef::Array(list);
    let mut places = places(list)?;
    if places.is_empty() {
        return Err(bad("Loop has no vertices", shown));
    }
    let is_closed = matches!((places.first(), places.last()), (Some(a), Some(b)) if a.point == b.point);
    if !is_closed {
        return Err(bad("Loop is not closed", shown));
    }
    places = distinct(&places);
    places.pop();
    if places.len() < 3 {
        return Err(bad("Loop must have at least 3 different vertices", shown));
    }
    let ring = Ring::new(places.iter().map(|place| place.point).collect(), winding);
    stop::ended()?;
    ring.map_err(|fault| bad("Loop is not valid", shown).followed_by(&described(&fault, &places)))
}

/// As MongoDB says it; edges by latitude and longitude.
fn described(fault: &Fault, places: &[Place]) -> String {
    let spot =
        |at: usize| places.get(at % places.len()).map_or_else(String::new, |p| format!("[{}, {}]", p.lat, p.lng));
    let edge = |at: usize| format!("{}-{}", spot(at), spot(at + 1));
    match fault {
        Fault::Duplicate(a, b) => format!("Duplicate vertices: {a} and {b}"),
        Fault::Opposite(a, b) => format!("Vertices {a} and {b} are antipodal"),
        Fault::Crossing(a, b) => {
            format!("Edges {a} and {b} cross. Edge locations in degrees: {} and {}", edge(*a), edge(*b))
        }
        Fault::TooComplex => "Its edges are too close to each other to be checked".to_owned(),
    }
}

impl Error {
    fn followed_by(mut self, more: &str) -> Error {
        self.message.push(' ');
        self.message.push_str(more);
        self
    }
}
