//! Geo value of a field of a document: GeoJSON, a pair, or an array of such.

use arbor_bson::ValueRef;

use super::geometry::Geometry;
use super::{geojson, legacy};
use crate::{Result, number};

#[derive(Debug)]
pub enum Stored {
    /// Good for the plane; on the sphere only when it is a longitude and a latitude.
    Pair(f64, f64),
    Shape(Geometry),
}

impl Stored {
    /// One thing, not an array of things.
    pub fn read(value: ValueRef) -> Result<Stored> {
        match value {
            ValueRef::Document(doc) if geojson::is_geojson(doc) => Ok(Stored::Shape(geojson::parse(doc)?)),
            other => {
                let (x, y, _) = legacy::coordinates(other)?;
                Ok(Stored::Pair(x, y))
            }
        }
    }

    /// The values of a field, each one thing. None: it holds nothing that has a place.
    pub fn values(value: ValueRef) -> Vec<ValueRef> {
        match value {
            ValueRef::Null | ValueRef::Undefined => Vec::new(),
            ValueRef::Array(array) if !array.get(0).is_some_and(number::is_number) => array.iter().collect(),
            other => vec![other],
        }
    }

    /// A point as the plane has it.
    pub fn flat(&self) -> Option<(f64, f64)> {
        match self {
            Stored::Pair(x, y) => Some((*x, *y)),
            Stored::Shape(Geometry::Point(place)) => Some((place.lng, place.lat)),
            Stored::Shape(_) => None,
        }
    }

    pub fn on_sphere(self) -> Result<Geometry> {
        match self {
            Stored::Pair(lng, lat) => Ok(Geometry::Point(legacy::place(lng, lat)?)),
            Stored::Shape(geometry) => Ok(geometry),
        }
    }
}
