//! Places on the earth and on a plane: what a document may hold, what a query may ask, and the cells that an index keeps.
//!
//! | file | holds |
//! |---|---|
//! | `geojson.rs`, `legacy.rs`, `stored.rs` | GeoJSON and coordinate pairs, parsed and checked; what a field of a document holds |
//! | `geometry.rs` | [`Geometry`]: points, lines and polygons on the sphere, and collections of them |
//! | `arc.rs`, `chain.rs`, `edge_index.rs` | geodesics; rows of them; which of them are in which part of the sphere |
//! | `ring.rs`, `polygon.rs` | rings and what they enclose; polygons with holes |
//! | `cap.rs`, `relate.rs` | circles; whether one geometry is within another or intersects it |
//! | `cell.rs`, `cover.rs` | S2 cells, and covers of regions by cells |
//! | `plane.rs`, `grid.rs` | boxes, circles and polygons on a plane; the grid of a `2d` index |
//! | `within.rs`, `near.rs` | `$geoWithin`, `$geoIntersects`; `$near`, `$nearSphere` |
//!
//! G1: everything is closed. What is nearer to a boundary than [`arc::TOLERANCE`] is on it, and belongs to the region.
//! G2: a cover holds the leaf cell of every point of its region, also of points on an edge of a cell: cells
//! count as larger by [`cell::MARGIN`]. So two geometries that intersect have covers of which one cell contains another.
//! G3: the sides of an edge are computed with plain doubles. That is enough, since callers have excluded points on the
//! boundary (G1), and since one vertex is tested once for both of its edges.

mod arc;
mod cap;
mod cell;
mod chain;
mod cover;
mod edge_index;
mod geojson;
mod geometry;
mod grid;
mod legacy;
mod near;
mod plane;
mod polygon;
mod relate;
mod ring;
mod stored;
#[cfg(test)]
mod tests;
mod within;

pub use cap::{Annulus, Cap, EARTH_RADIUS_METRES};
pub use cover::{COVER_CELLS_MAX, cell_range, cells_of, cells_of_region, enclosing_cells};
pub use geometry::Geometry;
pub use grid::{Grid, GridRange};
pub use near::{Found, Near, NearFrom};
pub use plane::Shape;
pub use stored::Stored;
pub use within::{GeoTest, Target};
