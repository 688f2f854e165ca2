//! `$near`, `$nearSphere` and `$geoNear`: documents by their distance from a point.

use std::f64::consts::PI;

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use super::cap::{Annulus, EARTH_RADIUS_METRES};
use super::cell::leaf;
use super::cover::{COVER_CELLS_MAX, cell_around, cells_of_region};
use super::geometry::{Geometry, Place};
use super::grid::{Grid, GridRange};
use super::plane::{Shape, distance};
use super::stored::Stored;
use super::within::frames_of;
use super::{Cap, geojson, legacy};
use crate::path::Leaf;
use crate::{Error, Path, Result, number, text};

/// Ranges of a `2d` index that one ring reads.
const GRID_RANGES_MAX: usize = 24;
/// Rings are a little wider than requested, so that no rounding loses points at their edge.
const SLACK: f64 = 1e-12;

#[derive(Clone, Debug)]
pub struct Near {
    pub path: Path,
    pub from: NearFrom,
    /// In the unit of `from`.
    pub min: f64,
    /// Infinite: there is none.
    pub max: f64,
    /// Operators and operands, as written.
    pub source: DocBuf,
}

/// Point that distances are measured from, with their unit.
#[derive(Clone, Copy, Debug)]
pub enum NearFrom {
    /// On the sphere, in metres: the point was GeoJSON.
    Metres(Place),
    /// On the sphere, in radians.
    Radians(Place),
    Plane(f64, f64),
}

/// The nearest place of a document.
#[derive(Clone, Debug)]
pub struct Found {
    pub distance: f64,
    /// As the document has it.
    pub place: Value,
}

impl Near {
    /// Parses `{ $near: .., $maxDistance: .. }`: `name` is one of `operators`, which may also hold the distances.
    pub fn parse(field: &str, name: &str, operators: Doc) -> Result<Near> {
        let operand = operators.get(name).unwrap_or(ValueRef::Null);
        let on_sphere = name == "$nearSphere";
        let mut source = DocBuf::new().with(name, operand);
        let mut near = match operand {
            ValueRef::Document(doc) if doc.get("$geometry").is_some() => of_geometry(doc)?,
            ValueRef::Document(doc) if geojson::is_geojson(doc) => Near::from(NearFrom::Metres(geojson_point(doc)?)),
            other => of_pair(other, on_sphere)?,
        };
        near.path = Path::of_input(field)?;
        for (name, value) in operators {
            if matches!(name, "$minDistance" | "$maxDistance") {
                match near.from {
                    NearFrom::Metres(_) => near.limit(name, value)?,
                    _ => near.limit_of_pair(name, value)?,
                }
                source.append(name, value);
            }
        }
        Ok(Near { source, ..near })
    }

    /// Builds the predicate of a `$geoNear` stage.
    pub fn of_stage(field: &str, near: ValueRef, on_sphere: bool) -> Result<Near> {
        let from = match near {
            ValueRef::Document(doc) if geojson::is_geojson(doc) || doc.get("coordinates").is_some() => {
                NearFrom::Metres(geojson_point(doc)?)
            }
            ValueRef::Array(pair) if pair.len() > 3 => {
                return Err(Error::bad_value("Point must only contain two coordinates"));
            }
            other => of_pair(other, on_sphere)?.from,
        };
        let source = DocBuf::new().with("$geoNear", near);
        Ok(Near { path: Path::of_input(field)?, source, ..Near::from(from) })
    }

    fn from(from: NearFrom) -> Near {
        Near { path: Path::new(""), from, min: 0.0, max: f64::INFINITY, source: DocBuf::new() }
    }

    /// Sets `$minDistance` or `$maxDistance`.
    pub fn limit(&mut self, name: &str, value: ValueRef) -> Result<()> {
        let bare = name.trim_start_matches('$');
        let distance = match number::to_f64(value) {
            None => return Err(Error::bad_value(format!("{bare} must be a number"))),
            Some(distance) if distance >= 0.0 && distance.is_finite() => distance,
            Some(_) => return Err(Error::bad_value(format!("{bare} must be non-negative"))),
        };
        match bare {
            "minDistance" => self.min = distance,
            _ => self.max = distance,
        }
        Ok(())
    }

    /// Sets an infinite distance: no maximum, or a minimum that nothing reaches.
    pub fn unlimited(&mut self, name: &str) {
        match name.trim_start_matches('$') {
            "minDistance" => self.min = f64::INFINITY,
            _ => self.max = f64::INFINITY,
        }
    }

    /// Sets a distance that is written with a pair of coordinates, which has codes of its own and may be infinite.
    fn limit_of_pair(&mut self, name: &str, value: ValueRef) -> Result<()> {
        let (not_a_number, negative) = if name == "$minDistance" { (16893, 16894) } else { (16895, 16896) };
        let unlimited = number::to_f64(value) == Some(f64::INFINITY);
        match self.limit(name, value) {
            Err(_) if unlimited => {
                self.unlimited(name);
                Ok(())
            }
            Err(error) => {
                let code = if number::is_number(value) { negative } else { not_a_number };
                Err(Error::location(code, error.message))
            }
            Ok(()) => Ok(()),
        }
    }

    /// The farthest that anything can be.
    pub fn farthest(&self, grid: Option<&Grid>) -> f64 {
        let all = match (self.from, grid) {
            (NearFrom::Metres(_), _) => PI * EARTH_RADIUS_METRES,
            (NearFrom::Radians(_), _) => PI,
            (NearFrom::Plane(x, y), Some(grid)) => {
                let side = grid.max - grid.min;
                (2.0 * side).max(2.0 * (x.abs() + y.abs() + grid.min.abs() + grid.max.abs()))
            }
            (NearFrom::Plane(..), None) => f64::MAX,
        };
        self.max.min(all * 1.000_001)
    }

    /// The nearest place of the document at the path, if it is within the limits.
    pub fn find(&self, doc: Doc) -> Option<Found> {
        let mut best: Option<Found> = None;
        self.path.visit(doc, Leaf::Whole, &mut |visit| {
            for value in visit.value.map(Stored::values).unwrap_or_default() {
                let distance = Stored::read(value).ok().and_then(|stored| self.distance(stored));
                if let Some(distance) = distance
                    && best.as_ref().is_none_or(|best| distance < best.distance)
                {
                    best = Some(Found { distance, place: value.to_value() });
                }
            }
            false
        });
        best.filter(|best| best.distance >= self.min && best.distance <= self.max)
    }

    /// As a predicate: whether the value is within the limits.
    pub fn matches(&self, value: ValueRef) -> bool {
        let within = |distance: f64| distance >= self.min && distance <= self.max;
        let near = |value| Stored::read(value).ok().and_then(|stored| self.distance(stored)).is_some_and(within);
        Stored::values(value).into_iter().any(near)
    }

    fn distance(&self, stored: Stored) -> Option<f64> {
        match self.from {
            NearFrom::Plane(x, y) => stored.flat().map(|p| distance((x, y), p)),
            NearFrom::Radians(place) => Some(stored.on_sphere().ok()?.distance(place.point)),
            NearFrom::Metres(place) => Some(stored.on_sphere().ok()?.distance(place.point) * EARTH_RADIUS_METRES),
        }
    }

    /// The cells of a `2dsphere` index between two distances. None: it is not measured on the sphere.
    pub fn cells(&self, near: f64, far: f64) -> Option<Vec<i64>> {
        let (place, unit) = match self.from {
            NearFrom::Metres(place) => (place, EARTH_RADIUS_METRES),
            NearFrom::Radians(place) => (place, 1.0),
            NearFrom::Plane(..) => return None,
        };
        let annulus = Annulus { center: place.point, near: near / unit - SLACK, far: far / unit + SLACK };
        Some(cells_of_region(&annulus, COVER_CELLS_MAX))
    }

    /// The ranges of a `2d` index between two distances. None: the point is GeoJSON.
    pub fn grid_ranges(&self, grid: &Grid, near: f64, far: f64) -> Option<Vec<GridRange>> {
        let shape = match self.from {
            NearFrom::Plane(x, y) => {
                let slack = SLACK * (1.0 + far);
                Shape::Circle { center: (x, y), near: near - slack, far: far + slack }
            }
            NearFrom::Radians(place) => frames_of(&Cap { center: place.point, radius: far }),
            NearFrom::Metres(_) => return None,
        };
        Some(grid.cover(&shape, GRID_RANGES_MAX))
    }

    /// The cell of a level around the point, and about how far it reaches.
    pub fn cell_around(&self, level: u64) -> Option<(i64, f64)> {
        let (place, unit) = match self.from {
            NearFrom::Metres(place) => (place, EARTH_RADIUS_METRES),
            NearFrom::Radians(place) => (place, 1.0),
            NearFrom::Plane(..) => return None,
        };
        let cell = super::cell::Cell::new(leaf(place.point).parent(level));
        Some((cell_around(place.point, level), cell.radius() * unit))
    }
}

fn of_pair(value: ValueRef, on_sphere: bool) -> Result<Near> {
    if !matches!(value, ValueRef::Array(_) | ValueRef::Document(_)) {
        let given = text::shell(value);
        return Err(Error::bad_value(format!("$near requires a point, given {given}")));
    }
    let (x, y, count) = legacy::coordinates(value)?;
    let from = if on_sphere { NearFrom::Radians(legacy::place(x, y)?) } else { NearFrom::Plane(x, y) };
    let mut near = Near::from(from);
    if count > 2 {
        let third = match value {
            ValueRef::Array(array) => array.get(2),
            ValueRef::Document(doc) => doc.iter().nth(2).map(|(_, value)| value),
            _ => None,
        };
        near.limit("$maxDistance", third.unwrap_or(ValueRef::Null))?;
    }
    Ok(near)
}

fn of_geometry(doc: Doc) -> Result<Near> {
    let mut near = None;
    for (name, value) in doc {
        match (name, value) {
            ("$geometry", ValueRef::Document(point)) => {
                near = Some(Near::from(NearFrom::Metres(geojson_point(point)?)))
            }
            ("$geometry", _) => return Err(Error::bad_value("$geometry must be an object")),
            ("$minDistance" | "$maxDistance", _) => {}
            _ => return Err(Error::bad_value(format!("invalid argument in geo near query: {name}"))),
        }
    }
    let Some(mut near) = near else { return Err(Error::bad_value("$near requires a point")) };
    for name in ["$minDistance", "$maxDistance"] {
        if let Some(value) = doc.get(name) {
            near.limit(name, value)?;
        }
    }
    Ok(near)
}

fn geojson_point(doc: Doc) -> Result<Place> {
    let invalid = |reason: String| {
        let given = text::shell(ValueRef::Document(doc));
        Error::bad_value(format!("invalid point in geo near query $geometry argument: {given}  {reason}"))
    };
    match doc.get("type") {
        Some(ValueRef::String("Point")) => match geojson::parse_query(doc).map_err(|error| invalid(error.message))? {
            Geometry::Point(place) => Ok(place),
            _ => Err(invalid("it is no point".to_owned())),
        },
        None if matches!(doc.get("coordinates"), Some(ValueRef::Array(_))) => {
            let point = DocBuf::new()
                .with("type", "Point")
                .with("coordinates", doc.get("coordinates").unwrap_or(ValueRef::Null));
            geojson_point(point.as_doc())
        }
        // a pair is taken as one on the sphere
        None => {
            let (lng, lat) = legacy::exact_pair(ValueRef::Document(doc)).map_err(|error| invalid(error.message))?;
            legacy::place(lng, lat)
        }
        Some(_) => Err(Error::bad_value(format!(
            "$near requires geojson point, given {}",
            text::shell(ValueRef::Document(doc))
        ))),
    }
}
