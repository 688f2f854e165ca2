//! Rate of inserts over the rows that are there: iiBench's own chart.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::founding::plural;
use crate::report::measured::{Fold, Measured, thin};
use crate::report::published::Published;
use crate::report::repeats::last_steps;

/// The unit of a workload whose data grows while it is measured.
const INSERT: &str = "insert";

/// None: the run is not about inserts. The published exit rates are level lines.
pub(crate) fn over_rows(measured: &Measured<'_>, published: Option<&Published>) -> Option<ChartGroup> {
    if measured.run.record.unit != INSERT {
        return None;
    }
    let y = Axis::of(&format!("{} per second", plural(INSERT)));
    let mut chart = Chart::new(Shape::Lines, "", Axis::of("rows inserted since the step began"), y);
    let mut most = 0.0_f64;
    for last in last_steps(measured.run) {
        let (mut rows, mut before) = (0.0, 0.0);
        let point = |(t, rate): (f64, f64)| {
            rows += rate * (t - before);
            before = t;
            (rows, rate)
        };
        let points: Vec<(f64, f64)> =
            thin(&measured.rate(&last.system.name, last.median), Fold::Mean).into_iter().map(point).collect();
        most = points.last().map_or(most, |(rows, _)| most.max(*rows));
        chart.series.push(Series::of(&last.system.name, points));
    }
    if chart.is_empty() {
        return None;
    }
    let exits = published.and_then(|text| text.table("exit"));
    for row in exits.iter().flat_map(|exits| &exits.rows) {
        let rate = exits.and_then(|exits| row.number(exits.columns.len().checked_sub(1)?));
        let line = rate.into_iter().flat_map(|rate| [(0.0, rate), (most, rate)]);
        let name = format!("{}, exit rate published", row.name);
        chart.series.push(Series { published: true, ..Series::of(&row.name, line) }.named(name));
    }
    let title = format!("{} per second over the rows inserted", plural(INSERT));
    let caption = "The published rates are those at the end of runs with other sizes on other machines.";
    ChartGroup::of("rows", &title, caption, "", vec![chart])
}
