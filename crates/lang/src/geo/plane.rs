//! Boxes, circles and polygons on a plane.

use super::cover::Relation;
use crate::stop::tick;

type Xy = (f64, f64);

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Box(Frame),
    Boxes(Vec<Frame>),
    /// Points at least `near` and at most `far` from the centre.
    Circle {
        center: Xy,
        near: f64,
        far: f64,
    },
    Polygon(Vec<Xy>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    pub low: Xy,
    pub high: Xy,
}

impl Frame {
    /// Returns the frame with these two opposite corners.
    pub fn of(a: Xy, b: Xy) -> Frame {
        Frame { low: (a.0.min(b.0), a.1.min(b.1)), high: (a.0.max(b.0), a.1.max(b.1)) }
    }

    pub fn contains(&self, (x, y): Xy) -> bool {
        (self.low.0..=self.high.0).contains(&x) && (self.low.1..=self.high.1).contains(&y)
    }

    fn holds(&self, other: &Frame) -> bool {
        self.contains(other.low) && self.contains(other.high)
    }

    fn intersects(&self, other: &Frame) -> bool {
        self.low.0 <= other.high.0
            && other.low.0 <= self.high.0
            && self.low.1 <= other.high.1
            && other.low.1 <= self.high.1
    }

    fn corners(&self) -> [Xy; 4] {
        [self.low, (self.high.0, self.low.1), self.high, (self.low.0, self.high.1)]
    }

    fn distance(&self, (x, y): Xy) -> f64 {
        let beyond = |value: f64, low: f64, high: f64| (low - value).max(value - high).max(0.0);
        beyond(x, self.low.0, self.high.0).hypot(beyond(y, self.low.1, self.high.1))
    }

    fn distance_max(&self, from: Xy) -> f64 {
        self.corners().into_iter().map(|corner| distance(from, corner)).fold(0.0, f64::max)
    }
}

pub(super) fn distance(a: Xy, b: Xy) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

impl Shape {
    pub fn contains(&self, p: Xy) -> bool {
        match self {
            Shape::Box(frame) => frame.contains(p),
            Shape::Boxes(frames) => frames.iter().any(|frame| frame.contains(p)),
            Shape::Circle { center, near, far } => (*near..=*far).contains(&distance(*center, p)),
            Shape::Polygon(corners) => polygon_contains(corners, p),
        }
    }

    pub fn relation(&self, frame: &Frame) -> Relation {
        let relation = |intersects: bool, holds: bool| match (intersects, holds) {
            (false, _) => Relation::Outside,
            (true, false) => Relation::Crosses,
            (true, true) => Relation::Inside,
        };
        match self {
            Shape::Box(own) => relation(own.intersects(frame), own.holds(frame)),
            Shape::Boxes(all) => {
                relation(all.iter().any(|own| own.intersects(frame)), all.iter().any(|own| own.holds(frame)))
            }
            Shape::Circle { center, near, far } => {
                let (nearest, farthest) = (frame.distance(*center), frame.distance_max(*center));
                relation(nearest <= *far && farthest >= *near, nearest >= *near && farthest <= *far)
            }
            Shape::Polygon(corners) => {
                let crosses = edges(corners).any(|(a, b)| tick().is_ok() && segment_intersects(frame, a, b));
                let inside = || polygon_contains(corners, frame.low);
                relation(crosses || inside(), !crosses && inside())
            }
        }
    }
}

fn edges(corners: &[Xy]) -> impl Iterator<Item = (Xy, Xy)> + '_ {
    corners.iter().copied().zip(corners.iter().copied().cycle().skip(1))
}

/// Returns true if the point is inside. COMPAT: as in MongoDB, corners and edges parallel to an axis are, of the other edges those with
/// the inside to their left.
fn polygon_contains(corners: &[Xy], p: Xy) -> bool {
    let mut inside = false;
    for (a, b) in edges(corners).take_while(|_| tick().is_ok()) {
        let side = (b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0);
        let parallel = a.0 == b.0 || a.1 == b.1;
        if p == a || (parallel && side == 0.0 && Frame::of(a, b).contains(p)) {
            return true;
        }
        // an edge on or to the right of the point
        if (a.1 >= p.1) != (b.1 >= p.1) && (side == 0.0 || (side > 0.0) == (b.1 > a.1)) {
            inside = !inside;
        }
    }
    inside
}

/// Clips the segment by the sides of the frame.
fn segment_intersects(frame: &Frame, a: Xy, b: Xy) -> bool {
    let (mut first, mut last) = (0.0f64, 1.0f64);
    for (at_a, at_b) in [
        (a.0 - frame.low.0, b.0 - frame.low.0),
        (frame.high.0 - a.0, frame.high.0 - b.0),
        (a.1 - frame.low.1, b.1 - frame.low.1),
        (frame.high.1 - a.1, frame.high.1 - b.1),
    ] {
        match (at_a < 0.0, at_b < 0.0) {
            (true, true) => return false,
            (true, false) => first = first.max(at_a / (at_a - at_b)),
            (false, true) => last = last.min(at_a / (at_a - at_b)),
            (false, false) => {}
        }
    }
    first <= last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polygons_hold_parts_of_their_boundary() {
        let square = Shape::Polygon(vec![(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 2.0), (0.0, 4.0)]);
        for (p, inside) in [
            ((1.0, 1.0), true),
            ((0.0, 0.0), true),
            ((4.0, 2.0), true),
            ((2.0, 2.0), true),
            ((2.0, 3.0), false),
            ((1.0, 3.0), true),
            ((3.0, 3.0), false),
            ((3.1, 3.0), true),
            ((5.0, 0.0), false),
            ((-1.0, 4.0), false),
        ] {
            assert_eq!(square.contains(p), inside, "{p:?}");
        }
        let bow_tie = Shape::Polygon(vec![(0.0, 0.0), (10.0, 10.0), (10.0, 0.0), (0.0, 10.0)]);
        let inside = |at: f64| bow_tie.contains((at, at));
        assert_eq!([0.0, 2.0, 5.0, 8.0, 10.0].map(inside), [true, true, true, false, true]);
    }

    #[test]
    fn relations_to_frames() {
        let frame = |a: f64, b: f64| Frame::of((a, a), (b, b));
        let circle = Shape::Circle { center: (0.0, 0.0), near: 1.0, far: 10.0 };
        let polygon = Shape::Polygon(vec![(-10.0, -10.0), (10.0, -10.0), (10.0, 10.0), (-10.0, 10.0)]);
        for (shape, frame, relation) in [
            (&circle, frame(1.0, 2.0), Relation::Inside),
            (&circle, frame(0.0, 2.0), Relation::Crosses),
            (&circle, frame(0.0, 0.5), Relation::Outside),
            (&circle, frame(8.0, 9.0), Relation::Outside),
            (&polygon, frame(1.0, 2.0), Relation::Inside),
            (&polygon, frame(9.0, 12.0), Relation::Crosses),
            (&polygon, frame(11.0, 12.0), Relation::Outside),
            (&polygon, frame(-20.0, 20.0), Relation::Crosses),
        ] {
            assert_eq!(shape.relation(&frame), relation, "{shape:?} {frame:?}");
        }
    }
}
