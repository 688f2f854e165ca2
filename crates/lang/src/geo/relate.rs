//! Tests whether one shape is within another, or intersects it. Neither, when the statement is to stop.

use s2::r3::vector::Vector;

use super::arc::{Arc, TOLERANCE, angle};
use super::chain::{Bound, Chain};
use super::geometry::Geometry;
use super::polygon::Polygon;
use super::ring::Place;
use crate::stop::tick;

/// Every part of `value` is in one of the polygons of `region`.
pub(super) fn is_within(value: &Geometry, region: &Geometry) -> bool {
    let polygons =
        || region.parts().iter().filter_map(|part| if let Geometry::Polygon(p) = part { Some(p) } else { None });
    value.parts().iter().all(|part| polygons().any(|polygon| tick().is_ok() && part_is_within(part, polygon)))
}

fn part_is_within(part: &Geometry, region: &Polygon) -> bool {
    match part {
        Geometry::Point(place) => region.contains(place.point),
        Geometry::Line(chain) => chain.edges().all(|edge| tick().is_ok() && arc_is_within(&edge, region)),
        Geometry::Polygon(polygon) => polygon_is_within(polygon, region),
        Geometry::Collection(parts) => parts.iter().all(|part| part_is_within(part, region)),
    }
}

/// Cut where it touches the boundary, each piece is inside or outside as its middle is.
fn arc_is_within(arc: &Arc, region: &Polygon) -> bool {
    if !region.contains(arc.a) || !region.contains(arc.b) {
        return false;
    }
    let mut cuts: Vec<Vector> = vec![arc.a, arc.b];
    for ring in region.rings() {
        let crosses = ring.chain.any_near(arc, |_, edge| {
            if arc.touches(edge.a) {
                cuts.push(edge.a);
            }
            arc.crosses(edge)
        });
        if crosses {
            return false;
        }
    }
    cuts.sort_by(|a, b| angle(arc.a, *a).total_cmp(&angle(arc.a, *b)));
    cuts.windows(2).all(|pair| match pair {
        [a, b] => angle(*a, *b) <= 2.0 * TOLERANCE || region.contains(Arc::new(*a, *b).middle()),
        _ => true,
    })
}

/// The boundary is within, and nothing that the region lacks is enclosed by it.
fn polygon_is_within(polygon: &Polygon, region: &Polygon) -> bool {
    let encloses = |p: Option<Vector>| p.is_some_and(|p| polygon.place(p) == Place::Inside);
    polygon.arcs().all(|edge| tick().is_ok() && arc_is_within(&edge, region))
        && !region.holes.iter().any(|hole| encloses(hole.point_at(Place::Inside)))
        && !encloses(region.outer.point_at(Place::Outside))
}

/// The two have a point in common.
pub(super) fn intersects(a: &Geometry, b: &Geometry) -> bool {
    a.parts().iter().any(|a| b.parts().iter().any(|b| tick().is_ok() && parts_intersect(a, b)))
}

fn parts_intersect(a: &Geometry, b: &Geometry) -> bool {
    use Geometry::{Collection, Line, Point, Polygon};
    match (a, b) {
        (Point(a), Point(b)) => angle(a.point, b.point) <= TOLERANCE,
        (Point(p), Line(chain)) | (Line(chain), Point(p)) => chain.touches(p.point),
        (Point(p), Polygon(polygon)) | (Polygon(polygon), Point(p)) => polygon.contains(p.point),
        (Line(a), Line(b)) => chains_intersect(a, b),
        (Line(chain), Polygon(polygon)) | (Polygon(polygon), Line(chain)) => {
            !apart(chain.bound(), polygon.bound())
                && (chain.vertices.first().is_some_and(|p| polygon.contains(*p))
                    || polygon.rings().any(|ring| chains_intersect(chain, &ring.chain)))
        }
        (Polygon(a), Polygon(b)) => polygons_intersect(a, b),
        (Collection(_), _) | (_, Collection(_)) => intersects(a, b),
    }
}

/// Returns true if the boundaries intersect, or one contains the other, or a ring of it.
fn polygons_intersect(a: &Polygon, b: &Polygon) -> bool {
    if apart(a.bound(), b.bound()) {
        return false;
    }
    let holds_a_ring = |a: &Polygon, b: &Polygon| {
        b.rings().any(|ring| ring.chain.vertices.first().is_some_and(|vertex| a.contains(*vertex)))
    };
    holds_a_ring(a, b)
        || holds_a_ring(b, a)
        || a.rings().any(|own| b.rings().any(|other| chains_intersect(&own.chain, &other.chain)))
}

fn chains_intersect(a: &Chain, b: &Chain) -> bool {
    if apart(a.bound(), b.bound()) {
        return false;
    }
    let (few, many) = if a.edge_count() <= b.edge_count() { (a, b) } else { (b, a) };
    few.edges().any(|edge| tick().is_ok() && many.intersects(&edge))
}

fn apart(a: Bound, b: Bound) -> bool {
    angle(a.center, b.center) > a.radius + b.radius
}
