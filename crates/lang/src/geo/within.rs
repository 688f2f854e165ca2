//! `$geoWithin` and `$geoIntersects`.
//!
//! | operand | geometry | matches |
//! |---|---|---|
//! | `$geometry` | sphere | pairs and GeoJSON |
//! | `$centerSphere` | sphere | pairs and GeoJSON |
//! | `$box`, `$center`, `$polygon` | plane | pairs and GeoJSON points |

use std::f64::consts::{FRAC_PI_2, PI};

use arbor_bson::{Doc, DocBuf, ValueRef};

use super::cap::Cap;
use super::cover::{COVER_CELLS_MAX, cells_of_region};
use super::geometry::Geometry;
use super::grid::{Grid, GridRange};
use super::plane::{Frame, Shape};
use super::relate::{intersects, is_within};
use super::stored::Stored;
use super::{geojson, legacy};
use crate::{Error, Result, number, stop, text};

/// Ranges of a `2d` index that one query reads.
const GRID_RANGES_MAX: usize = 32;

/// Predicate on the geometry of a field.
#[derive(Debug)]
pub struct GeoTest {
    pub target: Target,
    /// Operator and operand, as written.
    pub source: DocBuf,
    /// A cover of the target, when it is one on the sphere.
    cells: Option<Vec<i64>>,
}

#[derive(Debug)]
pub enum Target {
    Within(Geometry),
    Intersects(Geometry),
    WithinCap(Cap),
    WithinShape(Shape),
}

impl GeoTest {
    /// `$geoWithin`, or its old name `$within`.
    pub fn within(name: &str, operand: ValueRef) -> Result<GeoTest> {
        let target = parse_within(name, operand)?;
        GeoTest::new(name, operand, target)
    }

    /// `$geoIntersects`.
    pub fn intersects(name: &str, operand: ValueRef) -> Result<GeoTest> {
        let unsupported = || not_supported(name, operand);
        let ValueRef::Document(doc) = operand else { return Err(unsupported()) };
        let target = match doc.first() {
            Some(("$geometry", ValueRef::Document(geometry))) => Target::Intersects(geojson::parse_query(geometry)?),
            // a pair of coordinates
            Some(("$geometry", pair @ ValueRef::Array(_))) => {
                let (lng, lat) = legacy::exact_pair(pair)?;
                Target::Intersects(Geometry::Point(legacy::place(lng, lat)?))
            }
            _ => return Err(unsupported()),
        };
        GeoTest::new(name, operand, target)
    }

    fn new(name: &str, operand: ValueRef, target: Target) -> Result<GeoTest> {
        let cells = match &target {
            Target::Within(region) | Target::Intersects(region) => Some(cells_of_region(region, COVER_CELLS_MAX)),
            Target::WithinCap(cap) => Some(cells_of_region(cap, COVER_CELLS_MAX)),
            Target::WithinShape(_) => None,
        };
        stop::ended()?;
        Ok(GeoTest { target, source: DocBuf::new().with(name, operand), cells })
    }

    /// Returns true if the value of a field, or an element of it, satisfies the predicate.
    pub fn matches(&self, value: ValueRef) -> bool {
        Stored::values(value).into_iter().any(|value| Stored::read(value).is_ok_and(|stored| self.holds(stored)))
    }

    fn holds(&self, stored: Stored) -> bool {
        match &self.target {
            Target::WithinShape(shape) => stored.flat().is_some_and(|p| shape.contains(p)),
            on_sphere => stored.on_sphere().is_ok_and(|geometry| match on_sphere {
                Target::Within(region) => is_within(&geometry, region),
                Target::Intersects(region) => intersects(&geometry, region),
                Target::WithinCap(cap) => cap.contains(&geometry),
                Target::WithinShape(_) => false,
            }),
        }
    }

    /// The cells of a `2dsphere` index that may hold matches. None: such an index does not help.
    pub fn cells(&self) -> Option<&[i64]> {
        self.cells.as_deref()
    }

    /// The ranges of a `2d` index.
    pub fn grid_ranges(&self, grid: &Grid) -> Option<Vec<GridRange>> {
        match &self.target {
            Target::WithinShape(shape) => Some(grid.cover(shape, GRID_RANGES_MAX)),
            Target::WithinCap(cap) => Some(grid.cover(&frames_of(cap), GRID_RANGES_MAX)),
            Target::Within(_) | Target::Intersects(_) => None,
        }
    }
}

fn not_supported(name: &str, operand: ValueRef) -> Error {
    Error::bad_value(format!("{name} not supported with provided geometry: {}", text::field(name, operand)))
}

fn parse_within(name: &str, operand: ValueRef) -> Result<Target> {
    let ValueRef::Document(doc) = operand else {
        return Err(Error::bad_value("geometry must be an object"));
    };
    let Some((kind, value)) = doc.first() else { return Err(not_supported(name, operand)) };
    if doc.iter().any(|(name, _)| matches!(name, "$minDistance" | "$maxDistance")) {
        return Err(not_supported(name, operand));
    }
    let shapes = ["$geometry", "$box", "$polygon", "$center", "$centerSphere"];
    if doc.iter().filter(|(name, _)| shapes.contains(name)).count() > 1 {
        return Err(Error::bad_value(format!("{name} takes one shape: {}", text::shell(operand))));
    }
    match (kind, value) {
        ("$geometry", ValueRef::Document(geometry)) => match geojson::parse_query(geometry)? {
            region if region.parts().iter().all(|part| matches!(part, Geometry::Polygon(_))) => {
                Ok(Target::Within(region))
            }
            _ => Err(not_supported(name, operand)),
        },
        ("$box", value) => Ok(Target::WithinShape(parse_box(value)?)),
        ("$polygon", value) => Ok(Target::WithinShape(parse_polygon(value)?)),
        ("$center", value) => {
            let (center, far) = parse_circle(kind, value)?;
            Ok(Target::WithinShape(Shape::Circle { center, near: 0.0, far }))
        }
        ("$centerSphere", value) => {
            let ((lng, lat), radius) = parse_circle(kind, value)?;
            Ok(Target::WithinCap(Cap { center: legacy::place(lng, lat)?.point, radius }))
        }
        _ => Err(Error::bad_value(format!("unknown geo specifier: {}", text::field(kind, value)))),
    }
}

/// The elements of an array, or the values of a document in their place.
fn elements<'a>(kind: &str, value: ValueRef<'a>) -> Result<Vec<ValueRef<'a>>> {
    let values = |doc: Doc<'a>| doc.iter().map(|(_, value)| value).collect();
    match value {
        ValueRef::Array(array) => Ok(values(array.as_doc())),
        ValueRef::Document(doc) => Ok(values(doc)),
        _ => Err(Error::bad_value(format!("{kind} needs an array or an object"))),
    }
}

fn parse_box(value: ValueRef) -> Result<Shape> {
    match elements("$box", value)?.as_slice() {
        [low, high] => Ok(Shape::Box(Frame::of(legacy::exact_pair(*low)?, legacy::exact_pair(*high)?))),
        _ => Err(Error::bad_value("Box must contain exactly two corners")),
    }
}

fn parse_polygon(value: ValueRef) -> Result<Shape> {
    let corners: Vec<_> = elements("$polygon", value)?
        .into_iter()
        .map(|pair| stop::tick().and_then(|()| legacy::exact_pair(pair)))
        .collect::<Result<_>>()?;
    if corners.len() < 3 {
        return Err(Error::bad_value("Polygon must have at least 3 points"));
    }
    Ok(Shape::Polygon(corners))
}

fn parse_circle(kind: &str, value: ValueRef) -> Result<((f64, f64), f64)> {
    let values = elements(kind, value)?;
    let [center, radius] = values.as_slice() else {
        return Err(Error::bad_value("Only 2 fields allowed for circular region: center and radius"));
    };
    let center = legacy::exact_pair(*center)?;
    match number::to_f64(*radius) {
        Some(radius) if radius >= 0.0 => Ok((center, radius)),
        _ => Err(Error::bad_value("radius must be a non-negative number")),
    }
}

/// Longitudes and latitudes around a circle.
pub(super) fn frames_of(cap: &Cap) -> Shape {
    let (lat, lng) = (cap.center.z.clamp(-1.0, 1.0).asin(), cap.center.y.atan2(cap.center.x));
    let radius = cap.radius.min(PI) + 1e-12;
    let (low, high) = (lat - radius, lat + radius);
    let degrees = f64::to_degrees;
    let frame = |west: f64, east: f64| Frame {
        low: (degrees(west), degrees(low).max(-90.0)),
        high: (degrees(east), degrees(high).min(90.0)),
    };
    let full_turn = 2.0 * PI;
    if low <= -FRAC_PI_2 || high >= FRAC_PI_2 {
        return Shape::Box(frame(-PI - 1e-9, PI + 1e-9));
    }
    let reach = (radius.sin() / lat.cos()).clamp(-1.0, 1.0).asin() + 1e-9;
    let middle = frame(lng - reach, lng + reach);
    Shape::Boxes(vec![
        middle,
        frame(lng - reach - full_turn, lng + reach - full_turn),
        frame(lng - reach + full_turn, lng + reach + full_turn),
    ])
}
