//! Messages from a run to its live page, as JSON; `assets/live.js` reads them.

use serde_json::{Value, json};

use super::Estimate;
use crate::results::{Event, Point, StepRecord};

/// One interval of a step or of a load.
#[derive(Debug)]
pub struct Moment<'a> {
    pub system: &'a str,
    pub step: &'a str,
    pub clients: usize,
    pub phase: &'a str,
    pub unit: &'a str,
    /// Seconds since the step's measured part began.
    pub elapsed_s: f64,
    /// The interval's metrics as series.csv has them.
    pub points: &'a [Point],
}

#[derive(Debug)]
pub enum News<'a> {
    /// A run begins: a page that shows another one forgets it.
    Begin {
        experiment: &'a str,
        about: &'a str,
    },
    Interval(&'a Moment<'a>, &'a Estimate),
    Event(&'a Event),
    Step {
        system: &'a str,
        step: &'a StepRecord,
    },
    /// The run is over; where its report is.
    End {
        ending: &'a str,
        report: &'a str,
    },
}

impl News<'_> {
    pub(super) fn is_interval(&self) -> bool {
        matches!(self, News::Interval(..))
    }

    /// One line of JSON.
    pub(super) fn line(&self) -> String {
        match self {
            News::Begin { experiment, about } => json!({ "kind": "begin", "experiment": experiment, "about": about }),
            News::Interval(interval, estimate) => of_interval(interval, estimate),
            News::Event(event) => json!({
                "kind": "event", "t": event.t_s, "end": event.end_s, "system": event.system,
                "what": event.kind.name(), "text": event.text,
            }),
            News::Step { system, step } => of_step(system, step),
            News::End { ending, report } => json!({ "kind": "end", "ending": ending, "report": report }),
        }
        .to_string()
    }
}

fn of_interval(interval: &Moment<'_>, estimate: &Estimate) -> Value {
    let value = |series: &str| interval.points.iter().find(|point| point.series == series).map(|point| point.value);
    let of_unit = |series: &str| {
        value(&format!("response_{series}.{}", interval.unit)).or(value(&format!("{series}.{}", interval.unit)))
    };
    let kinds = || interval.points.iter().filter(|point| point.series.starts_with("ops."));
    let of_unit_or_largest = |series: &str| {
        let largest =
            kinds().max_by(|a, b| a.value.total_cmp(&b.value)).and_then(|point| point.series.strip_prefix("ops."));
        of_unit(series).or_else(|| value(&format!("{series}.{}", largest?)))
    };
    let rate = value(&format!("ops.{}", interval.unit)).unwrap_or_else(|| kinds().map(|point| point.value).sum());
    json!({
        "kind": "interval", "system": interval.system, "step": interval.step, "clients": interval.clients,
        "phase": interval.phase, "unit": interval.unit, "elapsed": interval.elapsed_s, "rate": rate,
        "p50": of_unit_or_largest("p50_us"), "p99": of_unit_or_largest("p99_us"), "max": of_unit_or_largest("max_us"),
        "errors": value("errors"), "cpu": value("cpu_percent"), "backlog": value("backlog"),
        "done": estimate.done(), "left": estimate.left().map(|left| left.as_secs_f64()),
    })
}

fn of_step(system: &str, step: &StepRecord) -> Value {
    let latency = step.latencies.iter().find(|row| row.kind == step.unit).or(step.latencies.first());
    json!({
        "kind": "step", "system": system, "step": step.name, "phase": step.phase.name(), "clients": step.clients,
        "unit": step.unit, "rate": step.per_second(), "seconds": step.end_s - step.begin_s,
        "p50": latency.map(|row| row.p50), "p99": latency.map(|row| row.p99), "marks": step.marks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Phase;

    #[test]
    fn an_interval_shows_its_unit() {
        let point = |series: &str, value| Point {
            system: "ftree".to_owned(),
            step: "c4".to_owned(),
            clients: 4,
            phase: Phase::Run,
            t_s: 9.0,
            series: series.to_owned(),
            value,
        };
        let points = [
            point("ops.read", 30.0),
            point("ops.update", 12.0),
            point("p99_us.read", 7.0),
            point("p99_us.update", 9.0),
        ];
        let line = |unit| {
            let interval =
                Moment { system: "ftree", step: "c4", clients: 4, phase: "run", unit, elapsed_s: 1.0, points: &points };
            serde_json::from_str::<Value>(
                &News::Interval(&interval, &Estimate::new(1, std::time::Duration::ZERO)).line(),
            )
            .unwrap()
        };
        assert_eq!((line("update")["rate"].as_f64(), line("update")["p99"].as_f64()), (Some(12.0), Some(9.0)));
        // a unit that is no kind: all together, and the latency of the most frequent
        assert_eq!((line("operation")["rate"].as_f64(), line("operation")["p99"].as_f64()), (Some(42.0), Some(7.0)));
        assert_eq!(line("update")["left"], Value::Null);
    }
}
