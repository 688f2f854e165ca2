//! Bars of one metric across a dimension: clients (founding text 001), cache sizes, workloads.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::Table;
use crate::report::grid::{CLIENTS, Choice, Dimension, Grid, label, title, with};

const WHOLE_STEPS: &str =
    "The mean of the whole step; of repeats the median, with a line from the lowest to the highest.";

/// Returns a chart group with bars of `per_second` for each dimension.
pub(crate) fn ladders(grid: &Grid<'_>, unit: &str) -> Vec<ChartGroup> {
    let of = |dimension: &Dimension| {
        let chart = |at: &_| {
            let x = Axis::categories(&title(&dimension.name), &dimension.values);
            let mut chart = Chart::new(Shape::Bars, label(at), x, Axis::of(&format!("{unit} per second")));
            for system in grid.systems() {
                let at_value = |value: &String| grid.spread(system, &with(at, dimension, value), "per_second");
                let bars = dimension.values.iter().enumerate();
                let points = bars.filter_map(|(n, value)| Some((n as f64, at_value(value)?)));
                chart.series.push(Series::with_whiskers(system, points));
            }
            chart
        };
        let charts = grid.choices(dimension).iter().map(chart).collect();
        let name = if dimension.name == CLIENTS { "clients".to_owned() } else { dimension.name.replace('_', " ") };
        ChartGroup::of(
            &format!("ladder-{}", dimension.name),
            &format!("{unit} per second by {name}"),
            WHOLE_STEPS,
            "at",
            charts,
        )
    };
    if grid.dimensions().is_empty() {
        return alone(grid, unit).into_iter().collect();
    }
    grid.dimensions().iter().filter_map(of).collect()
}

/// One bar per system, where nothing differs between steps.
fn alone(grid: &Grid<'_>, unit: &str) -> Option<ChartGroup> {
    let x = Axis::categories("", &[String::new()]);
    let mut chart = Chart::new(Shape::Bars, "", x, Axis::of(&format!("{unit} per second")));
    for system in grid.systems() {
        let bar = grid.spread(system, &Choice::new(), "per_second").map(|rate| (0.0, rate));
        chart.series.push(Series::with_whiskers(system, bar));
    }
    ChartGroup::of("ladder", &format!("{unit} per second"), WHOLE_STEPS, "", vec![chart])
}

/// The founding text's own bars: a table whose columns are client counts.
pub(crate) fn published_ladder(table: &Table) -> Option<ChartGroup> {
    let x = Axis::categories(&table.legend, &table.columns);
    let mut chart = Chart::new(Shape::Bars, "", x, Axis::of(&table.title));
    for row in &table.rows {
        let points = (0..table.columns.len()).filter_map(|column| Some((column as f64, row.number(column)?)));
        chart.series.push(Series { published: true, ..Series::of(&row.name, points) });
    }
    let group = ChartGroup::of(&format!("published-{}", table.about), &table.title, "", "", vec![chart])?;
    Some(ChartGroup { published: true, ..group })
}
