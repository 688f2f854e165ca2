//! Bounds that a run has to keep, as `p99<5`: the exit status says whether it did.

use crate::results::{Clock, LatencyRow, Record, StepRecord};

/// A metric of a step and its bound.
#[derive(Clone, Debug)]
pub struct Threshold {
    text: String,
    metric: Metric,
    /// The kind of operation; `None`: the unit.
    kind: Option<String>,
    comparison: Comparison,
    bound: f64,
}

#[derive(Clone, Copy, Debug)]
enum Metric {
    /// Milliseconds; counted from when an operation was due, where there is a schedule.
    Latency(fn(&LatencyRow) -> f64),
    /// A metric of the step's record.
    Named(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Names of metrics, longer ones first where one begins another.
const METRICS: [(&str, Metric); 12] = [
    ("p99.9", Metric::Latency(|row| row.p999)),
    ("p999", Metric::Latency(|row| row.p999)),
    ("p99", Metric::Latency(|row| row.p99)),
    ("p95", Metric::Latency(|row| row.p95)),
    ("p90", Metric::Latency(|row| row.p90)),
    ("p50", Metric::Latency(|row| row.p50)),
    ("mean", Metric::Latency(|row| row.mean)),
    ("max", Metric::Latency(|row| row.max)),
    ("rate", Metric::Named("per_second")),
    ("errors", Metric::Named("errors")),
    ("misses", Metric::Named("misses")),
    ("backlog", Metric::Named("backlog")),
];

/// Comparisons, longer ones first.
const COMPARISONS: [(&str, Comparison); 4] =
    [("<=", Comparison::AtMost), (">=", Comparison::AtLeast), ("<", Comparison::Below), (">", Comparison::Above)];

/// A threshold on one system.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub threshold: String,
    pub system: String,
    /// The value that is farthest on the wrong side, and its step; `None`: it was not measured.
    pub worst: Option<(f64, StepRecord)>,
    pub is_kept: bool,
}

impl Threshold {
    /// Reads `METRIC[.KIND]<NUMBER`, with `<`, `<=`, `>` or `>=`.
    pub fn parse(text: &str) -> Result<Threshold, String> {
        let wrong = || {
            let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
            format!("expected METRIC[.KIND]<NUMBER, not {text:?}; metrics are {}", names.join(", "))
        };
        let found = COMPARISONS.iter().find_map(|(sign, comparison)| Some((text.split_once(sign)?, *comparison)));
        let ((left, right), comparison) = found.ok_or_else(wrong)?;
        let bound: f64 = right.trim().parse().map_err(|_| wrong())?;
        let of_metric = |(name, metric): &(&str, Metric)| {
            let rest = left.trim().strip_prefix(name)?;
            let kind = if rest.is_empty() { None } else { Some(rest.strip_prefix('.')?.to_owned()) };
            Some((*metric, kind))
        };
        let (metric, kind) = METRICS.iter().find_map(of_metric).ok_or_else(wrong)?;
        let is_of_step = matches!(metric, Metric::Named(_)) && kind.is_some();
        if !bound.is_finite() || is_of_step {
            return Err(wrong());
        }
        Ok(Threshold { text: text.to_owned(), metric, kind, comparison, bound })
    }

    fn value(&self, step: &StepRecord) -> Option<f64> {
        let kind = self.kind.as_deref().unwrap_or(&step.unit);
        match self.metric {
            Metric::Named(name) => step.metric(name),
            Metric::Latency(of) => {
                let row = step.latency(kind, Clock::Response).or_else(|| step.latency(kind, Clock::Service))?;
                Some(of(row) / 1000.0)
            }
        }
    }

    /// Returns by how much a value is on the wrong side; below 0: on the right one.
    fn excess(&self, value: f64) -> f64 {
        match self.comparison {
            Comparison::Below | Comparison::AtMost => value - self.bound,
            Comparison::Above | Comparison::AtLeast => self.bound - value,
        }
    }

    fn is_kept(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Below => value < self.bound,
            Comparison::AtMost => value <= self.bound,
            Comparison::Above => value > self.bound,
            Comparison::AtLeast => value >= self.bound,
        }
    }
}

/// Judges all thresholds of a run on each system. One that was never measured is not kept; the bare echo is no system.
pub fn judged(record: &Record) -> Vec<Judged> {
    let texts = record.parameters.get("thresholds").and_then(serde_json::Value::as_array);
    let texts = texts.into_iter().flatten().filter_map(serde_json::Value::as_str);
    // they were checked before the run
    let thresholds: Vec<Threshold> = texts.filter_map(|text| Threshold::parse(text).ok()).collect();
    let systems = record.systems.iter().filter(|system| system.name != crate::target::echo::NAME);
    systems
        .flat_map(|system| {
            thresholds.iter().map(|threshold| {
                let steps = system.steps.iter().filter(|step| step.phase == crate::results::Phase::Run);
                let values = steps.filter_map(|step| Some((threshold.value(step)?, step)));
                let worst = values.max_by(|a, b| threshold.excess(a.0).total_cmp(&threshold.excess(b.0)));
                Judged {
                    threshold: threshold.text.clone(),
                    system: system.name.clone(),
                    is_kept: worst.is_some_and(|(value, _)| threshold.is_kept(value)),
                    worst: worst.map(|(value, step)| (value, step.clone())),
                }
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn step(rate: f64, p99_us: f64) -> StepRecord {
        let row = |clock, p99| LatencyRow { kind: "query".to_owned(), clock, p99, ..LatencyRow::default() };
        StepRecord {
            unit: "query".to_owned(),
            metrics: BTreeMap::from([("per_second".to_owned(), rate)]),
            latencies: vec![row(Clock::Service, 1.0), row(Clock::Response, p99_us)],
            ..StepRecord::default()
        }
    }

    #[test]
    fn thresholds_are_read_and_judged() {
        for (text, value, is_kept) in [
            ("p99<5", Some(4.0), true),
            ("p99 <= 4", Some(4.0), true),
            ("p99<4", Some(4.0), false),
            ("p99.query < 5", Some(4.0), true),
            ("p99.insert < 5", None, false),
            ("p99.9 < 5", Some(0.0), true),
            ("rate>=100", Some(100.0), true),
            ("rate > 100", Some(100.0), false),
        ] {
            let threshold = Threshold::parse(text).unwrap();
            let found = threshold.value(&step(100.0, 4000.0));
            assert_eq!((found, found.is_some_and(|value| threshold.is_kept(value))), (value, is_kept), "{text}");
        }
        for text in ["", "p99", "p98<1", "p99<x", "p99<inf", "rate.query<1", "p99x<1"] {
            assert!(Threshold::parse(text).is_err(), "{text}");
        }
    }
}
