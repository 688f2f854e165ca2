//! Geodesics: the shortest way between two points of the unit sphere.

use s2::r3::vector::Vector;

/// Points nearer to each other than this (in radians; 64 nanometres on the earth) are the same place (G1). The rounding of
/// coordinates to doubles moves a point by some 1e-16.
pub(super) const TOLERANCE: f64 = 1e-14;

/// The point at a longitude and a latitude in degrees. Each place has one: the poles, and the antimeridian, which is
/// reached from both sides.
pub(super) fn point_at(lng: f64, lat: f64) -> Vector {
    if lat.abs() == 90.0 {
        return Vector::new(0.0, 0.0, lat.signum());
    }
    let (sin_lat, cos_lat) = lat.to_radians().sin_cos();
    if lng.abs() == 180.0 {
        return Vector::new(-cos_lat, 0.0, sin_lat);
    }
    let (sin_lng, cos_lng) = lng.to_radians().sin_cos();
    Vector::new(cos_lat * cos_lng, cos_lat * sin_lng, sin_lat)
}

/// The angle between two points, exact for small ones too.
pub(super) fn angle(a: Vector, b: Vector) -> f64 {
    a.cross(&b).norm().atan2(a.dot(&b))
}

pub(super) fn opposite(a: Vector) -> Vector {
    a * -1.0
}

/// Requires that the two are not opposite to each other.
#[derive(Clone, Copy, Debug)]
pub struct Arc {
    pub a: Vector,
    pub b: Vector,
}

impl Arc {
    pub fn new(a: Vector, b: Vector) -> Arc {
        Arc { a, b }
    }

    /// Twice the cross product of the ends, without the loss of digits when they are near to each other.
    pub fn normal(&self) -> Vector {
        (self.a - self.b).cross(&(self.a + self.b))
    }

    pub fn middle(&self) -> Vector {
        (self.a + self.b).normalize()
    }

    /// The angle from `p` to the nearest point of the arc.
    pub fn distance(&self, p: Vector) -> f64 {
        let normal = self.normal();
        let length = normal.norm();
        let foot_on_arc = length > 0.0 && normal.cross(&self.a).dot(&p) >= 0.0 && normal.cross(&self.b).dot(&p) <= 0.0;
        if foot_on_arc {
            let across = p.dot(&normal) / length;
            // near 90 degrees the foot may be on the far side of the sphere
            if across.abs() < 0.9 {
                return across.abs().asin();
            }
        }
        angle(p, self.a).min(angle(p, self.b)).min(if foot_on_arc { self.foot_angle(p, normal) } else { f64::MAX })
    }

    /// The angle to the foot of the perpendicular.
    fn foot_angle(&self, p: Vector, normal: Vector) -> f64 {
        let unit = normal.normalize();
        let foot = p - unit * p.dot(&unit);
        if foot.norm() < TOLERANCE { std::f64::consts::FRAC_PI_2 } else { angle(p, foot.normalize()) }
    }

    pub fn touches(&self, p: Vector) -> bool {
        self.distance(p) <= TOLERANCE
    }

    /// The two cross each other, at a point that is no end of either.
    pub fn crosses(&self, other: &Arc) -> bool {
        let own = self.normal();
        let (c, d) = (own.dot(&other.a), own.dot(&other.b));
        if (c > 0.0) == (d > 0.0) {
            return false;
        }
        let others = other.normal();
        let (a, b) = (others.dot(&self.a), others.dot(&self.b));
        let crossing = if c > 0.0 { b > 0.0 && a < 0.0 } else { b < 0.0 && a > 0.0 };
        crossing && !self.end_touches(other)
    }

    /// Returns true if an endpoint of one is on the other.
    fn end_touches(&self, other: &Arc) -> bool {
        self.touches(other.a) || self.touches(other.b) || other.touches(self.a) || other.touches(self.b)
    }

    /// The two have a point in common.
    pub fn intersects(&self, other: &Arc) -> bool {
        self.crosses(other) || self.end_touches(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arc(a: (f64, f64), b: (f64, f64)) -> Arc {
        Arc::new(point_at(a.0, a.1), point_at(b.0, b.1))
    }

    #[test]
    fn distances_to_an_arc() {
        let equator = arc((0.0, 0.0), (10.0, 0.0));
        for (lng, lat, degrees) in [
            (5.0, 0.0, 0.0),
            (5.0, 3.0, 3.0),
            (5.0, -3.0, 3.0),
            (12.0, 0.0, 2.0),
            (-4.0, 0.0, 4.0),
            (0.0, 90.0, 90.0),
            (-175.0, 0.0, 175.0),
            (5.0, 80.0, 80.0),
        ] {
            let found = equator.distance(point_at(lng, lat)).to_degrees();
            assert!((found - degrees).abs() < 1e-12, "{lng} {lat}: {found}");
        }
    }

    #[test]
    fn crossings() {
        let equator = arc((0.0, 0.0), (10.0, 0.0));
        for (other, crosses, intersects) in [
            (arc((5.0, -1.0), (5.0, 1.0)), true, true),
            (arc((5.0, 0.0), (5.0, 1.0)), false, true),
            (arc((5.0, 0.5), (5.0, 1.0)), false, false),
            (arc((11.0, -1.0), (11.0, 1.0)), false, false),
            (arc((-175.0, -1.0), (-175.0, 1.0)), false, false),
            (arc((10.0, 0.0), (20.0, 0.0)), false, true),
            (arc((5.0, 0.0), (20.0, 0.0)), false, true),
        ] {
            assert_eq!((equator.crosses(&other), equator.intersects(&other)), (crosses, intersects), "{other:?}");
            assert_eq!((other.crosses(&equator), other.intersects(&equator)), (crosses, intersects), "{other:?}");
        }
    }
}
