//! The rate of a schedule over time: level, or changing evenly between points.

use serde::{Deserialize, Serialize};

/// Rates per second at seconds since the schedule began. Between two points the rate changes evenly; before the first and after the
/// last it is level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ramp(Vec<Point>);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    at_s: f64,
    rate: f64,
}

impl Ramp {
    pub fn level(rate: f64) -> Ramp {
        Ramp(vec![Point { at_s: 0.0, rate }])
    }

    /// Reads points as `RATE@SECONDS`, in the order of their times.
    pub fn parse(texts: &[String]) -> Result<Ramp, String> {
        let point = |text: &String| {
            let (rate, at) = text.split_once('@')?;
            let point = Point { rate: rate.trim().parse().ok()?, at_s: at.trim().parse().ok()? };
            let is_sound = (0.0..1e9).contains(&point.at_s) && point.rate > 0.0 && point.rate < 1e12;
            is_sound.then_some(point)
        };
        let wrong = |text: &String| format!("expected RATE@SECONDS with a rate above 0, not {text:?}");
        let points = texts.iter().map(|text| point(text).ok_or_else(|| wrong(text))).collect::<Result<Vec<_>, _>>()?;
        if points.is_empty() || !points.is_sorted_by(|a, b| a.at_s < b.at_s) {
            return Err("expected points RATE@SECONDS at times that grow".to_owned());
        }
        Ok(Ramp(points))
    }

    /// Returns the ramp with all points later.
    pub fn later(&self, seconds: f64) -> Ramp {
        Ramp(self.0.iter().map(|point| Point { at_s: point.at_s + seconds, ..*point }).collect())
    }

    /// Returns the ramp with all rates multiplied.
    pub fn times(&self, factor: f64) -> Ramp {
        Ramp(self.0.iter().map(|point| Point { rate: point.rate * factor, ..*point }).collect())
    }

    /// Returns the stretches of even change: begin, end, and the rates there.
    fn stretches(&self) -> impl Iterator<Item = (Point, Point)> + '_ {
        let first = self.0.first().map(|first| (Point { at_s: 0.0, ..*first }, *first));
        let last = self.0.last().map(|last| (*last, Point { at_s: f64::INFINITY, ..*last }));
        let between = self.0.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
        first.into_iter().chain(between).chain(last).filter(|(begin, end)| end.at_s > begin.at_s)
    }

    /// Returns the number of operations that are due until a time.
    pub(super) fn count(&self, t_s: f64) -> f64 {
        let of = |(begin, end): (Point, Point)| {
            let seconds = (t_s.min(end.at_s) - begin.at_s).max(0.0);
            seconds * (begin.rate + slope(begin, end) * seconds / 2.0)
        };
        self.stretches().map(of).sum()
    }

    /// Returns the time at which a number of operations was due.
    pub(super) fn due_s(&self, count: f64) -> f64 {
        let mut left = count;
        for (begin, end) in self.stretches() {
            let (seconds, slope) = (end.at_s - begin.at_s, slope(begin, end));
            let within = if seconds.is_finite() { seconds * (begin.rate + end.rate) / 2.0 } else { f64::INFINITY };
            if left <= within {
                // rate * t + slope * t^2 / 2 = left, in the form that is exact for a level rate
                let root = (begin.rate * begin.rate + 2.0 * slope * left).max(0.0).sqrt();
                return begin.at_s + 2.0 * left / (begin.rate + root);
            }
            left -= within;
        }
        f64::INFINITY
    }
}

fn slope(begin: Point, end: Point) -> f64 {
    if end.at_s.is_finite() { (end.rate - begin.rate) / (end.at_s - begin.at_s) } else { 0.0 }
}

impl std::fmt::Display for Ramp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let points = self.0.iter().map(|point| format!("{}@{}", point.rate, point.at_s));
        f.write_str(&points.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(text: &str) -> Result<Ramp, String> {
        Ramp::parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn rates_change_evenly_between_points() {
        let ramp = ramp("10@2,30@12,20@14").unwrap();
        // 2 s at 10, 10 s at 20 in the mean, 2 s at 25, then 20
        for (t, count) in [(0.0, 0.0), (2.0, 20.0), (7.0, 95.0), (12.0, 220.0), (14.0, 270.0), (20.0, 390.0)] {
            assert!((ramp.count(t) - count).abs() < 1e-9, "{t}: {}", ramp.count(t));
            assert!((ramp.due_s(count) - t).abs() < 1e-9, "{count}: {}", ramp.due_s(count));
        }
        assert_eq!(ramp.later(1.0).to_string(), "10@3,30@13,20@15");
        assert_eq!(ramp.times(2.0).count(2.0), 40.0);
        assert_eq!(Ramp::level(50.0).due_s(100.0), 2.0);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "10", "x@1", "10@x", "0@1", "10@5,20@5", "10@5,20@4", "10@-1", "inf@1"] {
            assert!(ramp(text).is_err(), "{text}");
        }
    }
}
