//! Lines over the time of a step, one per system, with what happened meanwhile as marks.

use super::{Axis, Chart, ChartGroup, Mark, Series, Shape};
use crate::report::founding::plural;
use crate::report::measured::{Fold, Measured, Points, thin};
use crate::report::repeats::Repeats;
use crate::results::{Phase, StepRecord};

/// A place in the plan with the step of each system there; of repeats the one with the median rate.
pub(super) struct Place<'a> {
    name: &'a str,
    pub label: String,
    pub phase: Phase,
    pub steps: Vec<(&'a str, &'a StepRecord)>,
}

/// All places in the order of the plan.
pub(super) fn places<'a>(measured: &Measured<'a>) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = Vec::new();
    for system in &measured.run.record.systems {
        for repeats in Repeats::of(system) {
            let (name, of_system) = (repeats.name(), (system.name.as_str(), repeats.median));
            match places.iter_mut().find(|place| place.name == name) {
                Some(place) => place.steps.push(of_system),
                None => places.push(Place {
                    name,
                    label: repeats.place(),
                    phase: repeats.median.phase,
                    steps: vec![of_system],
                }),
            }
        }
    }
    places
}

/// Throughput in each interval.
pub(crate) fn throughput(measured: &Measured<'_>) -> Option<ChartGroup> {
    let charts = places(measured).iter().map(|place| chart(measured, place)).collect();
    let caption = "Mean of each interval. Marks: what happened to the system of that colour; areas are stalls and \
                   events with a length.";
    ChartGroup::of("throughput", "Throughput over time", caption, "step", charts)
}

fn chart(measured: &Measured<'_>, place: &Place<'_>) -> Chart {
    let unit = place.steps.first().map_or("", |(_, step)| step.unit.as_str());
    let y = Axis::of(&format!("{} per second", plural(unit)));
    let mut chart = Chart::new(Shape::Lines, &place.label, Axis::of("seconds"), y);
    for (system, step) in &place.steps {
        chart.series.push(Series::of(system, thin(&measured.rate(system, step), Fold::Mean)));
        chart.marks.extend(marks(measured, system, step));
    }
    chart
}

/// Returns the events during a step, in seconds since it began.
pub(super) fn marks(measured: &Measured<'_>, system: &str, step: &StepRecord) -> Vec<Mark> {
    let mark = |event: &crate::results::Event| Mark {
        begin: event.t_s - step.begin_s,
        end: event.end_s.map(|end| end - step.begin_s),
        kind: event.kind.name(),
        system: system.to_owned(),
        text: event.text.clone(),
    };
    measured.events(system, step).map(mark).collect()
}

/// Returns the resource usage of machine and server: a chart per series.
pub(crate) fn resources(measured: &Measured<'_>) -> Option<ChartGroup> {
    let place = places(measured).into_iter().rfind(|place| place.phase == Phase::Run)?;
    let mut names: Vec<&str> = place
        .steps
        .iter()
        .flat_map(|(system, step)| measured.series(system, step))
        .filter(|name| is_resource(name))
        .collect();
    names.sort_unstable_by_key(|name| (name.starts_with("server."), *name));
    names.dedup();
    let charts = names.iter().filter_map(|name| resource(measured, &place, name)).collect();
    let title = format!("Machine and server over time, {}", place.label);
    ChartGroup::of(
        "resources",
        &title,
        "From /proc and from what the server says of itself, on the same clock.",
        "metric",
        charts,
    )
    .map(ChartGroup::first_chosen)
}

/// Returns one series of all systems. Series that never change are left out, and counters are shown as rates.
fn resource(measured: &Measured<'_>, place: &Place<'_>, name: &str) -> Option<Chart> {
    let of = place.steps.iter().map(|(system, step)| (*system, *step, measured.points(system, step, name)));
    let mut all: Vec<(&str, &StepRecord, Points)> = of.collect();
    let varies = |points: &Points| points.windows(2).any(|pair| matches!(pair, [a, b] if a.1 != b.1));
    if !all.iter().any(|(_, _, points)| varies(points)) {
        return None;
    }
    let (mut title, scale) = titled(name);
    if name.starts_with("server.") && all.iter().all(|(_, _, points)| points.windows(2).all(grows)) {
        all.iter_mut().for_each(|(_, _, points)| *points = growth(points));
        title.push_str(", growth per second");
    }
    let mut chart = Chart::new(Shape::Lines, title.clone(), Axis::of("seconds"), Axis::of(&title));
    for (system, step, points) in all.iter().filter(|(_, _, points)| !points.is_empty()) {
        let points = thin(points, Fold::Mean).into_iter().map(|(t, value)| (t, value * scale));
        chart.series.push(Series::of(system, points));
        chart.marks.extend(marks(measured, system, step));
    }
    Some(chart)
}

fn grows(pair: &[(f64, f64)]) -> bool {
    matches!(pair, [a, b] if a.1 <= b.1)
}

/// A counter's increase per second in each interval.
fn growth(points: &Points) -> Points {
    let of = |pair: &[(f64, f64)]| match pair {
        [a, b] if b.0 > a.0 => Some((b.0, (b.1 - a.1) / (b.0 - a.0))),
        _ => None,
    };
    points.windows(2).filter_map(of).collect()
}

fn is_resource(series: &str) -> bool {
    let latency =
        ["ops.", "p50_us.", "p90_us.", "p95_us.", "p99_us.", "p999_us.", "max_us.", "mean_us.", "response_", "errors."];
    !latency.iter().any(|prefix| series.starts_with(prefix))
}

/// A series' name for people, and what its values are multiplied by.
fn titled(series: &str) -> (String, f64) {
    let (title, scale) = match series {
        "cpu_percent" => ("CPU of the host, percent", 1.0),
        "server_cores" => ("CPU of the server, cores", 1.0),
        "client_cores" => ("CPU of the load generator, cores", 1.0),
        "ctx" => ("context switches per second", 1.0),
        "rss_bytes" => ("resident memory of the server, MB", 1e-6),
        "open_files" => ("files that the server has open", 1.0),
        "reads" => ("reads of the device per second", 1.0),
        "writes" => ("writes of the device per second", 1.0),
        "read_bytes" => ("read from the device, MB/s", 1e-6),
        "write_bytes" => ("written to the device, MB/s", 1e-6),
        "server_read_bytes" => ("read by the server, MB/s", 1e-6),
        "server_write_bytes" => ("written by the server, MB/s", 1e-6),
        "backlog" => ("operations due and not begun", 1.0),
        "errors" => ("errors per second", 1.0),
        other => (other, 1.0),
    };
    (title.to_owned(), scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_shown_by_their_growth() {
        let points = vec![(1.0, 10.0), (3.0, 30.0), (3.0, 30.0), (4.0, 30.0)];
        assert!(points.windows(2).all(grows) && !grows(&[(1.0, 2.0), (2.0, 1.0)]));
        assert_eq!(growth(&points), [(3.0, 10.0), (4.0, 0.0)]);
    }
}
