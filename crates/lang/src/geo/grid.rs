//! The grid of a `2d` index: both coordinates cut into `2^bits` steps, and their bits taken by turns, so that each square
//! of the grid is one range of keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arbor_bson::Value;

use super::cover::Relation;
use super::plane::{Frame, Shape};
use crate::stop;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Bits of one coordinate, at most 32.
    pub bits: u32,
    pub min: f64,
    pub max: f64,
}

/// Keys from `low` to `high`, both included.
#[derive(Clone, Debug)]
pub struct GridRange {
    pub low: Value,
    pub high: Value,
}

/// A square: its level (0 is the whole grid) and its place among those of the level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Square {
    level: Reverse<u32>,
    x: u32,
    y: u32,
}

/// Its numbers are finite.
impl Eq for Grid {}

impl Grid {
    pub fn contains(&self, (x, y): (f64, f64)) -> bool {
        (self.min..=self.max).contains(&x) && (self.min..=self.max).contains(&y)
    }

    /// The key of a point of the grid.
    pub fn key(&self, (x, y): (f64, f64)) -> Value {
        key(interleaved(self.step(x), self.step(y)) << (64 - 2 * self.bits))
    }

    /// The width of one step.
    pub fn step_width(&self) -> f64 {
        (self.max - self.min) / 2f64.powi(self.bits as i32)
    }

    fn step(&self, value: f64) -> u32 {
        let last = ((1u64 << self.bits) - 1) as f64;
        ((value - self.min) / self.step_width()).floor().clamp(0.0, last) as u32
    }

    /// Ranges that hold the keys of all points of the shape, about `ranges_max` at most.
    pub fn cover(&self, shape: &Shape, ranges_max: usize) -> Vec<GridRange> {
        let mut done: Vec<(u64, u64)> = Vec::new();
        let mut open = BinaryHeap::from([Square { level: Reverse(0), x: 0, y: 0 }]);
        // cut short when the statement is to stop
        while let Some(square) = open.pop().filter(|_| stop::tick().is_ok()) {
            if square.level.0 == self.bits {
                done.push(self.range(square));
                continue;
            }
            let parts: Vec<(Square, Relation)> = square
                .quarters()
                .map(|quarter| (quarter, shape.relation(&self.frame(quarter))))
                .filter(|(_, relation)| *relation != Relation::Outside)
                .collect();
            if parts.len() > 1 && done.len() + open.len() + parts.len() > ranges_max {
                done.push(self.range(square));
                continue;
            }
            for (part, relation) in parts {
                match relation {
                    Relation::Inside => done.push(self.range(part)),
                    _ => open.push(part),
                }
            }
        }
        done.sort_unstable();
        done.dedup_by(|next, last| {
            let adjacent = last.1.checked_add(1) == Some(next.0);
            if adjacent {
                last.1 = next.1;
            }
            adjacent
        });
        done.into_iter().map(|(low, high)| GridRange { low: key(low), high: key(high) }).collect()
    }

    /// The square on the plane, larger by one step, so that no rounding matters.
    fn frame(&self, square: Square) -> Frame {
        let (size, step) = ((self.max - self.min) / 2f64.powi(square.level.0 as i32), self.step_width());
        let low = |at: u32| self.min + f64::from(at) * size - step;
        let high = |at: u32| self.min + (f64::from(at) + 1.0) * size + step;
        Frame { low: (low(square.x), low(square.y)), high: (high(square.x), high(square.y)) }
    }

    fn range(&self, square: Square) -> (u64, u64) {
        let below = 64 - 2 * square.level.0;
        let first = interleaved(square.x, square.y).checked_shl(below).unwrap_or(0);
        let rest = 1u64.checked_shl(below).map_or(u64::MAX, |count| count - 1);
        (first, first | rest)
    }
}

impl Square {
    fn quarters(self) -> impl Iterator<Item = Square> {
        let quarter =
            move |dx: u32, dy: u32| Square { level: Reverse(self.level.0 + 1), x: self.x * 2 + dx, y: self.y * 2 + dy };
        [quarter(0, 0), quarter(0, 1), quarter(1, 0), quarter(1, 1)].into_iter()
    }
}

/// Bits of `x` and `y` by turns, that of `x` first.
fn interleaved(x: u32, y: u32) -> u64 {
    (0..32).fold(0, |all, bit| all | u64::from(x >> bit & 1) << (2 * bit + 1) | u64::from(y >> bit & 1) << (2 * bit))
}

/// As MongoDB keeps it: eight bytes of a binary type of their own, the highest first.
fn key(hash: u64) -> Value {
    Value::Binary { subtype: 0x80, bytes: hash.to_be_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &Value) -> Vec<u8> {
        match value {
            Value::Binary { bytes, .. } => bytes.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn covers_hold_every_point_of_the_shape() {
        for bits in [1, 5, 26, 32] {
            let grid = Grid { bits, min: -180.0, max: 180.0 };
            let shapes = [
                Shape::Box(Frame::of((0.0, 0.0), (10.0, 5.0))),
                Shape::Box(Frame::of((180.0, 180.0), (180.0, 180.0))),
                Shape::Circle { center: (-20.0, 30.0), near: 2.0, far: 3.0 },
                Shape::Polygon(vec![(0.0, 0.0), (50.0, 10.0), (20.0, 40.0)]),
            ];
            for shape in shapes {
                let ranges = grid.cover(&shape, 20);
                assert!((1..=20).contains(&ranges.len()));
                for step in 0..10_000 {
                    let p = (f64::from(step % 100) * 0.9 - 30.0, f64::from(step / 100) * 0.9 - 30.0);
                    let own = bytes(&grid.key(p));
                    let held = ranges.iter().any(|r| bytes(&r.low) <= own && own <= bytes(&r.high));
                    assert!(held || !shape.contains(p), "{bits} {shape:?} {p:?}");
                }
                let corner = bytes(&grid.key((180.0, 180.0)));
                assert!(!shape.contains((180.0, 180.0)) || ranges.iter().any(|r| corner <= bytes(&r.high)));
            }
        }
    }
}
