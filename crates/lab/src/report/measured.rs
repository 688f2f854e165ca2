//! A run with its series sorted by what they belong to, as charts ask for them.

use std::collections::BTreeMap;

use crate::results::{Event, EventKind, Run, StepRecord};

/// `(seconds, value)`, in order of time.
pub(super) type Points = Vec<(f64, f64)>;

#[derive(Debug)]
pub(super) struct Measured<'a> {
    pub run: &'a Run,
    /// System and step, then series.
    points: BTreeMap<(&'a str, &'a str), BTreeMap<&'a str, Points>>,
}

impl<'a> Measured<'a> {
    pub(super) fn of(run: &'a Run) -> Measured<'a> {
        let mut points: BTreeMap<(&str, &str), BTreeMap<&str, Points>> = BTreeMap::new();
        for point in &run.series {
            let of_step = points.entry((&point.system, &point.step)).or_default();
            of_step.entry(&point.series).or_default().push((point.t_s, point.value));
        }
        Measured { run, points }
    }

    /// The names of a step's series.
    pub(super) fn series(&self, system: &str, step: &StepRecord) -> impl Iterator<Item = &'a str> {
        let of_step =
            self.points.iter().find(|((of, name), _)| *of == system && *name == step.name).map(|(_, series)| series);
        of_step.into_iter().flat_map(|series| series.keys().copied())
    }

    /// A series of a step, with times since the step began.
    pub(super) fn points(&self, system: &str, step: &StepRecord, series: &str) -> Points {
        let of_step = self.points.get(&(system, step.name.as_str()));
        let points = of_step.and_then(|of_step| of_step.get(series));
        points.into_iter().flatten().map(|(t, value)| (t - step.begin_s, *value)).collect()
    }

    /// Units per second. Where the unit is not recorded as a kind of its own, all kinds together.
    pub(super) fn rate(&self, system: &str, step: &StepRecord) -> Points {
        let unit = self.points(system, step, &format!("ops.{}", step.unit));
        if !unit.is_empty() {
            return unit;
        }
        let mut sums: Vec<(f64, f64)> = Vec::new();
        let kinds = self.series(system, step).filter(|series| series.starts_with("ops."));
        let mut all: Points = kinds.flat_map(|series| self.points(system, step, series)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (t, value) in all {
            match sums.last_mut() {
                Some(last) if last.0 == t => last.1 += value,
                _ => sums.push((t, value)),
            }
        }
        sums
    }

    /// Returns the events of a system during a step, other than the step's begin.
    pub(super) fn events(&self, system: &str, step: &StepRecord) -> impl Iterator<Item = &'a Event> + '_ {
        let (system, begin, end) = (system.to_owned(), step.begin_s, step.end_s);
        self.run.events.iter().filter(move |event| {
            let during = event.t_s <= end && event.end_s.unwrap_or(event.t_s) >= begin;
            event.system == system && event.kind != EventKind::Phase && during
        })
    }
}

/// Aggregation of several values into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Mean,
    /// A stall must not vanish in a mean.
    Max,
}

/// More points than this cannot be distinguished on a screen.
const POINTS_MAX: usize = 1200;

/// Points of equal distance, few enough for a chart.
pub(super) fn thin(points: &Points, fold: Fold) -> Points {
    let length = points.last().map_or(0.0, |(t, _)| *t);
    if points.len() <= POINTS_MAX { points.clone() } else { bins(points, length / POINTS_MAX as f64, fold) }
}

/// One point per `width` seconds, at its end; bins without points are left out.
pub(super) fn bins(points: &Points, width: f64, fold: Fold) -> Points {
    let mut bins: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for (t, value) in points {
        // a point is at its interval's end, and belongs to the bin that ends there
        let bin = ((t / width - 1e-3).max(0.0)) as u64;
        let (sum, count) = bins.entry(bin).or_insert((0.0, 0));
        *sum = if fold == Fold::Max { sum.max(*value) } else { *sum + value };
        *count += 1;
    }
    let value = |sum: f64, count: usize| if fold == Fold::Max { sum } else { sum / count as f64 };
    bins.into_iter().map(|(bin, (sum, count))| ((bin + 1) as f64 * width, value(sum, count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_become_one_point() {
        let points: Points = (1..=25).map(|t| (f64::from(t), if t == 13 { 0.0 } else { 100.0 })).collect();
        assert_eq!(bins(&points, 10.0, Fold::Mean), [(10.0, 100.0), (20.0, 90.0), (30.0, 100.0)]);
        assert_eq!(bins(&points, 10.0, Fold::Max), [(10.0, 100.0), (20.0, 100.0), (30.0, 100.0)]);
        assert_eq!(thin(&points, Fold::Mean), points);
        let long: Points = (1..=12_000).map(|t| (f64::from(t), f64::from(t % 10))).collect();
        let thinned = thin(&long, Fold::Max);
        assert_eq!((thinned.len(), thinned[0]), (1200, (10.0, 9.0)));
    }
}
