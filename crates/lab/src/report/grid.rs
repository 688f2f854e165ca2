//! The measured steps of a run by what distinguishes them: the number of clients, and every setting that takes more than
//! one value (cache size, workload, checkpoint interval).
//!
//! A chart or table has one dimension across; the others are held at a `Choice` each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::results::{Phase, Record, StepRecord};

/// Name of the dimension of client counts.
pub(super) const CLIENTS: &str = "clients";

/// One thing that differs between steps, with its values in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dimension {
    pub name: String,
    pub values: Vec<String>,
}

/// Values of all dimensions but one.
pub(super) type Choice = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(super) struct Grid<'a> {
    /// Systems that have steps, in the order of the run.
    systems: Vec<(&'a str, Vec<&'a StepRecord>)>,
    dimensions: Vec<Dimension>,
}

impl<'a> Grid<'a> {
    /// The steps of one phase.
    pub(super) fn of(record: &'a Record, phase: Phase) -> Grid<'a> {
        let systems: Vec<(&str, Vec<&StepRecord>)> = record
            .systems
            .iter()
            .map(|system| (system.name.as_str(), system.steps.iter().filter(|step| step.phase == phase).collect()))
            .filter(|(_, steps): &(_, Vec<_>)| !steps.is_empty())
            .collect();
        let steps = || systems.iter().flat_map(|(_, steps)| steps.iter().copied());
        let mut names: Vec<String> = steps().flat_map(|step| step.settings.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        let dimensions = [CLIENTS.to_owned()].into_iter().chain(names).map(|name| {
            let values = in_order(steps().filter_map(|step| value(step, &name)).collect());
            Dimension { name, values }
        });
        Grid { dimensions: dimensions.filter(|dimension| dimension.values.len() > 1).collect(), systems }
    }

    pub(super) fn systems(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.systems.iter().map(|(name, _)| *name)
    }

    /// Returns the dimensions with more than one value; clients first.
    pub(super) fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// All combinations of values of the dimensions other than `across`, the last one of each first: the largest.
    pub(super) fn choices(&self, across: &Dimension) -> Vec<Choice> {
        let mut choices = vec![Choice::new()];
        for dimension in self.dimensions.iter().filter(|dimension| *dimension != across) {
            let with = |choice: &Choice, value: &String| {
                choice
                    .iter()
                    .chain([(&dimension.name, value)])
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            };
            choices =
                choices.iter().flat_map(|choice| dimension.values.iter().map(|value| with(choice, value))).collect();
        }
        let some = |choice: &Choice| self.systems().any(|system| !self.steps(system, choice).is_empty());
        choices.into_iter().filter(some).collect()
    }

    /// A system's steps at `at`, several where a step was repeated.
    pub(super) fn steps(&self, system: &str, at: &Choice) -> Vec<&'a StepRecord> {
        let is_at =
            |step: &&&StepRecord| at.iter().all(|(name, expected)| value(step, name).as_ref() == Some(expected));
        let steps = self.systems.iter().filter(|(name, _)| *name == system).flat_map(|(_, steps)| steps);
        steps.filter(is_at).copied().collect()
    }

    /// Returns the median of a metric over the repeats.
    pub(super) fn metric(&self, system: &str, at: &Choice, name: &str) -> Option<f64> {
        Some(self.spread(system, at, name)?.median)
    }

    /// Returns a metric over the repeats.
    pub(super) fn spread(&self, system: &str, at: &Choice, name: &str) -> Option<Spread> {
        Spread::of(self.steps(system, at).iter().filter_map(|step| step.metric(name)))
    }
}

/// A value that was measured several times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub lowest: f64,
    pub median: f64,
    pub highest: f64,
}

impl Spread {
    /// The median of an even number of values is the mean of the middle two. None without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        let median = if lower == upper { lower } else { f64::midpoint(lower, upper) };
        debug_assert!(!(median < lowest || median > highest), "{values:?}");
        Some(Spread { lowest, median, highest })
    }

    /// Half the distance between the lowest and the highest value; 0 of one.
    pub(crate) fn half(self) -> f64 {
        (self.highest - self.lowest) / 2.0
    }

    /// Returns `12.3`, or `12.3 \u{b1}0.4` where the values differ in what is shown.
    pub(crate) fn shown(self, show: impl Fn(f64) -> String) -> String {
        let (median, half) = (show(self.median), show(self.half()));
        match half.parse::<f64>() {
            Ok(0.0) => median,
            _ => format!("{median} \u{b1}{half}"),
        }
    }
}

/// `at` with one more dimension held.
pub(super) fn with(at: &Choice, dimension: &Dimension, value: &str) -> Choice {
    let mut at = at.clone();
    at.insert(dimension.name.clone(), value.to_owned());
    at
}

/// `cache_mb 64, 16 clients`; empty when nothing is held.
pub(super) fn label(choice: &Choice) -> String {
    let one = |(name, value): (&String, &String)| match name.as_str() {
        CLIENTS if value == "1" => "1 client".to_owned(),
        CLIENTS => format!("{value} clients"),
        _ => match name.rsplit_once('_') {
            Some((name, unit)) if is_unit(unit) => format!("{} {value} {}", words(name), unit_text(unit)),
            _ => format!("{} {value}", words(name)),
        },
    };
    choice.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A step's settings, without the number of clients.
pub(super) fn settings(step: &StepRecord) -> Choice {
    step.settings.keys().filter_map(|name| Some((name.clone(), value(step, name)?))).collect()
}

/// Returns a readable label that distinguishes a step from others.
pub(super) fn label_of_step(step: &StepRecord) -> String {
    let mut held = settings(step);
    held.insert(CLIENTS.to_owned(), step.clients.to_string());
    let phase = if step.phase == Phase::Run { String::new() } else { format!("{}, ", step.phase.name()) };
    let repeat = if step.repeat > 1 { format!(", repeat {}", step.repeat) } else { String::new() };
    format!("{phase}{}{repeat}", label(&held))
}

/// A dimension as an axis or a table's corner names it.
pub(super) fn title(name: &str) -> String {
    match name.rsplit_once('_') {
        Some((name, unit)) if is_unit(unit) => format!("{}, {}", words(name), unit_text(unit)),
        _ => words(name),
    }
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

fn is_unit(unit: &str) -> bool {
    ["mb", "gb", "kb", "s", "ms", "us", "bytes"].contains(&unit)
}

fn unit_text(unit: &str) -> &str {
    match unit {
        "mb" => "MB",
        "gb" => "GB",
        "kb" => "KB",
        "us" => "\u{b5}s",
        unit => unit,
    }
}

fn value(step: &StepRecord, dimension: &str) -> Option<String> {
    match dimension {
        CLIENTS => Some(step.clients.to_string()),
        _ => match step.settings.get(dimension)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
    }
}

/// Numbers by size; texts in the order of the run.
fn in_order(values: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut values: Vec<String> = values.into_iter().filter(|value| seen.insert(value.clone())).collect();
    let number = |value: &String| value.parse::<f64>().ok();
    if values.iter().all(|value| number(value).is_some()) {
        values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    values
}
