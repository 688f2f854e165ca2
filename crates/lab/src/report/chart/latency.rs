//! Latencies over time and as a whole.

use super::over_time::{Place, marks, places};
use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::measured::{Fold, Measured, thin};
use crate::results::{Clock, Phase};

/// The percentiles of an interval that are drawn; the higher dashed.
const OVER_TIME: [(&str, &str, bool); 2] = [("p50_us", "p50", false), ("p99_us", "p99", true)];

/// p50 and p99 of each interval: for each kind at the largest step, for the unit at every step.
pub(crate) fn latency_over_time(measured: &Measured<'_>) -> Option<ChartGroup> {
    let places: Vec<Place<'_>> = places(measured).into_iter().filter(|place| place.phase == Phase::Run).collect();
    let (last, others) = places.split_last()?;
    let kinds = kinds(measured, last);
    let headline = kinds.first()?;
    let mut charts: Vec<Chart> = kinds.iter().map(|kind| over_time(measured, last, kind)).collect();
    charts.extend(others.iter().map(|place| over_time(measured, place, headline)));
    let caption = "Response times count from when an operation was due, where a schedule says so; others from sending.";
    ChartGroup::of("latency", "Latency over time", caption, "operation", charts).map(ChartGroup::first_chosen)
}

/// The kinds of a step, the headline first: the unit, or the most frequent.
fn kinds(measured: &Measured<'_>, place: &Place<'_>) -> Vec<String> {
    let Some((_, step)) = place.steps.first() else { return Vec::new() };
    let mut rows: Vec<(&str, u64)> = Vec::new();
    for row in place.steps.iter().flat_map(|(_, step)| &step.latencies).filter(|row| row.clock == Clock::Service) {
        match rows.iter_mut().find(|(kind, _)| *kind == row.kind) {
            Some((_, count)) => *count += row.count,
            None => rows.push((&row.kind, row.count)),
        }
    }
    if rows.is_empty() {
        rows.extend(measured.run.record.kinds.iter().map(|kind| (kind.as_str(), 0)));
    }
    rows.sort_by_key(|(kind, count)| (*kind != step.unit, std::cmp::Reverse(*count)));
    rows.into_iter().map(|(kind, _)| kind.to_owned()).collect()
}

fn over_time(measured: &Measured<'_>, place: &Place<'_>, kind: &str) -> Chart {
    let label = format!("{kind}, {}", place.label);
    let mut chart = Chart::new(Shape::Lines, label, Axis::of("seconds"), Axis::log("microseconds"));
    for (system, step) in &place.steps {
        let response = format!("response_p99_us.{kind}");
        let scheduled = measured.series(system, step).any(|series| series == response);
        let prefix = if scheduled { "response_" } else { "" };
        for (series, name, dashed) in OVER_TIME {
            let points = measured.points(system, step, &format!("{prefix}{series}.{kind}"));
            // zero has no place on a logarithmic axis
            let points = thin(&points, Fold::Max).into_iter().filter(|(_, value)| *value > 0.0);
            let name = format!("{system} {name}");
            chart.series.push(Series { dashed, ..Series::of(system, points) }.named(name));
        }
        chart.marks.extend(marks(measured, system, step));
    }
    chart
}

/// Quantiles read off the histograms.
const QUANTILES: [f64; 14] =
    [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999, 0.999999];

/// The whole distribution of each kind at the largest step.
pub(crate) fn percentiles(measured: &Measured<'_>) -> Option<ChartGroup> {
    let place = places(measured).into_iter().rfind(|place| place.phase == Phase::Run)?;
    let charts = kinds(measured, &place).iter().map(|kind| distribution(measured, &place, kind)).collect();
    let caption = "How slow the slowest part is: nine in ten operations are faster than the line at 90 %. The scale \
                   stretches towards 100 %.";
    let title = format!("Latency by percentile, {}", place.label);
    ChartGroup::of("percentiles", &title, caption, "operation", charts).map(ChartGroup::first_chosen)
}

fn distribution(measured: &Measured<'_>, place: &Place<'_>, kind: &str) -> Chart {
    let x = Axis { scale: "percentile", ..Axis::of("percentile") };
    let mut chart = Chart::new(Shape::Lines, kind, x, Axis::log("microseconds"));
    for (system, step) in &place.steps {
        for (clock, name) in [(Clock::Service, ""), (Clock::Response, " response")] {
            let Some(histogram) = measured.run.histogram(system, &step.name, kind, clock) else { continue };
            // beyond one in the number of values there is nothing to see
            let seen = |quantile: &&f64| (1.0 - **quantile) * histogram.len() as f64 >= 0.999;
            let point = |quantile: &f64| {
                let micros = histogram.value_at_quantile(*quantile) as f64 / 1000.0;
                (-(1.0 - quantile).log10(), micros.max(0.001))
            };
            let points: Vec<(f64, f64)> = QUANTILES.iter().filter(seen).map(point).collect();
            let dashed = clock == Clock::Response;
            chart.series.push(Series { dashed, ..Series::of(system, points) }.named(format!("{system}{name}")));
        }
    }
    chart
}
