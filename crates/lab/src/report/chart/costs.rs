//! Cost of a query across the first dimension: the tables of founding texts 000 and 001 as charts.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::grid::{Grid, Spread, title, with};
use crate::report::phases::{PHASE, decade_below};

/// Metrics and their titles; `{}` is the unit.
pub(crate) const COSTS: [(&str, &str); 10] = [
    ("cpu_per_unit", "(CPU_utilization / QPS) * 1,000,000"),
    ("cpu_us_per_unit", "CPU of the whole host per {}, microseconds"),
    ("context_switches_per_unit", "context switch per {}"),
    ("server_cpu_us_per_unit", "CPU of the server's process per {}, microseconds"),
    ("client_cpu_us_per_unit", "CPU of the load generator per {}, microseconds"),
    ("reads_per_unit", "read/{}"),
    ("read_kb_per_unit", "read-KB/{}"),
    ("writes_per_unit", "write/{}"),
    ("write_kb_per_unit", "write-KB/{}"),
    ("server_write_kb_per_unit", "written by the server's process, KB/{}"),
];

/// Returns a metric's title for a unit; transactions are counted in TPS.
pub(crate) fn cost_title(title: &str, unit: &str) -> String {
    let title = if unit == "transaction" { title.replace("QPS", "TPS") } else { title.to_owned() };
    title.replace("{}", unit)
}

/// Bars of one cost at a time.
pub(crate) fn costs(grid: &Grid<'_>, unit: &str) -> Option<ChartGroup> {
    let dimension = grid.dimensions().first()?;
    let at = grid.choices(dimension).pop()?;
    // operations of phases differ by orders of magnitude, and zero has no place on a logarithmic axis
    let log = dimension.name == PHASE;
    let chart = |(metric, name): &(&str, &str)| {
        let name = cost_title(name, unit);
        let x = Axis::categories(&title(&dimension.name), &dimension.values);
        let mut chart = Chart::new(Shape::Bars, &name, x, Axis::of(&name));
        let mut least = f64::INFINITY;
        for system in grid.systems() {
            let cost = |value: &String| grid.spread(system, &with(&at, dimension, value), metric);
            let costs = dimension.values.iter().enumerate().filter_map(|(n, value)| Some((n as f64, cost(value)?)));
            let shown: Vec<(f64, Spread)> = costs.filter(|(_, cost)| !log || cost.lowest > 0.0).collect();
            least = shown.iter().fold(least, |least, (_, cost)| least.min(cost.lowest));
            chart.series.push(Series::with_whiskers(system, shown));
        }
        if log && least.is_finite() {
            chart.y = Axis { start: Some(decade_below(least)), ..Axis::log(&name) };
        }
        chart
    };
    let caption = "Counted on the whole host, clients included, where it does not say otherwise.";
    ChartGroup::of("costs", &format!("Cost per {unit}"), caption, "cost", COSTS.iter().map(chart).collect())
        .map(ChartGroup::first_chosen)
}
