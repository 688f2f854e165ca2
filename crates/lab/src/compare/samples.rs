//! The samples of a run that are compared.

use std::collections::BTreeMap;

use super::statistics::mean;
use crate::results::{Clock, Phase, Run, StepRecord};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// More is better.
    Up,
    Down,
}

/// Samples of one metric of one step.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    pub system: String,
    /// Name without the repeat.
    pub step: String,
    pub metric: String,
    pub direction: Direction,
    pub values: Vec<f64>,
}

impl Samples {
    pub(super) fn is_same_as(&self, other: &Samples) -> bool {
        (&self.system, &self.step, &self.metric) == (&other.system, &other.step, &other.metric)
    }
}

/// From this many repeats on, each repeat is a sample.
const REPEATS_MIN: usize = 5;
/// Means of batches of intervals, when they are not.
const BATCHES: usize = 10;

/// Returns the samples of all steps of a run, in its order; loads too.
pub(super) fn samples(run: &Run) -> Vec<Samples> {
    let mut all = Vec::new();
    for system in &run.record.systems {
        let mut groups: Vec<(String, Vec<&StepRecord>)> = Vec::new();
        for step in &system.steps {
            let name = without_repeat(&step.name);
            match groups.iter_mut().find(|(each, _)| *each == name) {
                Some((_, steps)) => steps.push(step),
                None => groups.push((name, vec![step])),
            }
        }
        for (name, steps) in groups {
            all.extend(of_group(run, &system.name, &name, &steps));
        }
    }
    all
}

/// `c16-r2` without its `-r2`.
fn without_repeat(name: &str) -> String {
    let repeat = |end: &str| end.strip_prefix('r').is_some_and(|digits| digits.parse::<u32>().is_ok());
    match name.rsplit_once('-') {
        Some((name, end)) if repeat(end) => name.to_owned(),
        _ => name.to_owned(),
    }
}

fn of_group(run: &Run, system: &str, step: &str, steps: &[&StepRecord]) -> Vec<Samples> {
    let Some(first) = steps.first() else { return Vec::new() };
    let sample = |metric: &str, direction, values| Samples {
        system: system.to_owned(),
        step: step.to_owned(),
        metric: metric.to_owned(),
        direction,
        values,
    };
    if first.phase == Phase::Recovery {
        let seconds = steps.iter().filter_map(|step| step.metric("serve_s")).collect();
        return vec![sample("seconds to serve", Direction::Down, seconds)];
    }
    let mut all = Vec::new();
    let rates: Vec<f64> = steps.iter().filter_map(|step| step.per_second()).collect();
    let rates = if rates.len() >= REPEATS_MIN { rates } else { batches(run, system, steps, "ops") };
    all.push(sample(&format!("{}/s", first.unit), Direction::Up, rates));
    let p99: Vec<f64> =
        steps.iter().filter_map(|step| step.latency(&step.unit, Clock::Service)).map(|row| row.p99).collect();
    let p99 = if p99.len() >= REPEATS_MIN { p99 } else { batches(run, system, steps, "p99_us") };
    if !p99.is_empty() {
        all.push(sample("p99 us", Direction::Down, p99));
    }
    all
}

/// The steady intervals of a few repeats, in batches.
fn batches(run: &Run, system: &str, steps: &[&StepRecord], series: &str) -> Vec<f64> {
    let mut values = Vec::new();
    for step in steps {
        let steady = step.begin_s + step.metric("steady_from_s").unwrap_or(0.0);
        // Sums of all kinds where the unit is none of them (any operation counts).
        let mut by_time: BTreeMap<u64, f64> = BTreeMap::new();
        let named = format!("{series}.{}", step.unit);
        let exact = run.points(system, &step.name, &named).next().is_some();
        let points = run.series.iter().filter(|point| point.system == system && point.step == step.name);
        let selected = points.filter(|point| {
            let fits = if exact { point.series == named } else { series == "ops" && point.series.starts_with("ops.") };
            fits && point.t_s > steady
        });
        for point in selected {
            *by_time.entry((point.t_s * 1000.0) as u64).or_default() += point.value;
        }
        values.extend(by_time.into_values());
    }
    // The last interval of a step may be a sliver; a batch swallows it.
    let size = values.len().div_ceil(BATCHES).max(1);
    if values.len() < BATCHES { values } else { values.chunks(size).map(mean).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_one_step() {
        for (name, expect) in
            [("c16-r2", "c16"), ("cache64-c1", "cache64-c1"), ("round2", "round2"), ("c4-rx", "c4-rx")]
        {
            assert_eq!(without_repeat(name), expect);
        }
    }
}
