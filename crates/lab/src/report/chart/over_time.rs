//! Lines over the time of a step, one per system, with what happened meanwhile as marks.

use super::{Axis, Chart, Figure, Mark, Series, Shape};
use crate::report::founding::plural;
use crate::report::grid::label_of_step;
use crate::report::measured::{Fold, Measured, thin};
use crate::results::{Phase, StepRecord};

/// The steps of one name: the same place in the plan of each system.
pub struct Place<'a> {
    pub name: &'a str,
    pub label: String,
    pub phase: Phase,
    pub steps: Vec<(&'a str, &'a StepRecord)>,
}

/// All places in the order of the run.
pub fn places<'a>(measured: &Measured<'a>) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = Vec::new();
    for system in &measured.run.record.systems {
        for step in &system.steps {
            let of_system = (system.name.as_str(), step);
            match places.iter_mut().find(|place| place.name == step.name) {
                Some(place) => place.steps.push(of_system),
                None => places.push(Place {
                    name: &step.name,
                    label: label_of_step(step),
                    phase: step.phase,
                    steps: vec![of_system],
                }),
            }
        }
    }
    places
}

/// Throughput in each interval.
pub fn throughput(measured: &Measured<'_>) -> Option<Figure> {
    let charts = places(measured).iter().map(|place| chart(measured, place)).collect();
    let caption = "Mean of each interval. Marks: what happened to the system of that colour; areas are stalls and \
                   events with a length.";
    Figure::of("throughput", "Throughput over time", caption, "step", charts)
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

/// What happened during a step, in seconds since it began.
pub fn marks(measured: &Measured<'_>, system: &str, step: &StepRecord) -> Vec<Mark> {
    let mark = |event: &crate::results::Event| Mark {
        begin: event.t_s - step.begin_s,
        end: event.end_s.map(|end| end - step.begin_s),
        kind: event.kind.name(),
        system: system.to_owned(),
        text: event.text.clone(),
    };
    measured.events(system, step).map(mark).collect()
}

/// What the machine and the server did: a chart per series.
pub fn resources(measured: &Measured<'_>) -> Option<Figure> {
    let place = places(measured).into_iter().rfind(|place| place.phase == Phase::Run)?;
    let mut names: Vec<&str> = place
        .steps
        .iter()
        .flat_map(|(system, step)| measured.series(system, step))
        .filter(|name| is_resource(name))
        .collect();
    names.sort_unstable_by_key(|name| (name.starts_with("server."), *name));
    names.dedup();
    let chart = |name: &&str| {
        let (title, scale) = titled(name);
        let mut chart = Chart::new(Shape::Lines, title.clone(), Axis::of("seconds"), Axis::of(&title));
        for (system, step) in &place.steps {
            let points = thin(&measured.points(system, step, name), Fold::Mean);
            if points.iter().any(|(_, value)| *value != 0.0) {
                chart.series.push(Series::of(system, points.into_iter().map(|(t, value)| (t, value * scale))));
                chart.marks.extend(marks(measured, system, step));
            }
        }
        chart
    };
    let charts = names.iter().map(chart).collect();
    let title = format!("Machine and server over time, {}", place.label);
    Figure::of(
        "resources",
        &title,
        "From /proc and from what the server says of itself, on the same clock.",
        "figure",
        charts,
    )
    .map(Figure::first_chosen)
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
