//! The trend over equal rounds: founding text 000 repeats an hour twelve times and shows the mean of each.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::Table;
use crate::report::grid::{Grid, label, with};

/// Name of the setting of steps that follow each other on the same data.
pub(crate) const ROUND: &str = "round";

pub(crate) fn rounds(grid: &Grid<'_>, unit: &str) -> Option<ChartGroup> {
    let dimension = grid.dimensions().iter().find(|dimension| dimension.name == ROUND)?;
    let chart = |at: &_| {
        let x = Axis::of("round");
        let mut chart = Chart::new(Shape::Lines, label(at), x, Axis::of(&format!("{unit} per second")));
        for system in grid.systems() {
            let at_round = |round: &String| {
                let rate = grid.spread(system, &with(at, dimension, round), "per_second")?;
                Some((round.parse().ok()?, rate))
            };
            chart.series.push(Series::with_whiskers(system, dimension.values.iter().filter_map(at_round)));
        }
        chart
    };
    let charts = grid.choices(dimension).iter().map(chart).collect();
    let caption = "The mean of each round on data that the rounds before have changed: the trend matters.";
    ChartGroup::of("rounds", &format!("{unit} per second by round"), caption, "at", charts)
}

/// The founding text's own lines: a table whose columns are its rounds.
pub(crate) fn published_rounds(table: &Table) -> Option<ChartGroup> {
    let mut chart = Chart::new(Shape::Lines, "", Axis::of(&table.legend), Axis::of("queries per second"));
    for row in &table.rows {
        let round = |column: usize| table.columns.get(column)?.parse().ok();
        let points = (0..table.columns.len()).filter_map(|column| Some((round(column)?, row.number(column)?)));
        chart.series.push(Series { published: true, ..Series::of(&row.name, points) });
    }
    let group = ChartGroup::of("published-rounds", &table.title, "", "", vec![chart])?;
    Some(ChartGroup { published: true, ..group })
}
