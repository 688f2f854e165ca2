//! The spread of intervals, in the three forms of founding text 002: box plot, jitter plot, scatter plot with a line.
//!
//! "A single number is not interesting, the trend is interesting": each dot is the throughput of one interval.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::grid::{Choice, Dimension, Grid, label, title, with};
use crate::report::measured::{Fold, Measured, bins};
use crate::results::StepRecord;

/// The interval of founding text 002.
const INTERVAL_S: f64 = 10.0;
/// Steps with fewer such intervals show the intervals that were recorded.
const INTERVALS_MIN: f64 = 5.0;

/// Box, jitter and scatter plots across each dimension; across systems alone where nothing else differs.
pub(crate) fn spreads(measured: &Measured<'_>, grid: &Grid<'_>, unit: &str) -> Vec<ChartGroup> {
    let alone = Dimension { name: String::new(), values: vec![String::new()] };
    let dimensions = if grid.dimensions().is_empty() { std::slice::from_ref(&alone) } else { grid.dimensions() };
    let dimensions = dimensions.iter().filter(|dimension| dimension.name != super::rounds::ROUND);
    dimensions.flat_map(|dimension| of_dimension(measured, grid, dimension, unit)).collect()
}

fn of_dimension(measured: &Measured<'_>, grid: &Grid<'_>, dimension: &Dimension, unit: &str) -> Vec<ChartGroup> {
    let spread = Spread { measured, grid, dimension, unit };
    let by = match dimension.name.as_str() {
        "" => String::new(),
        name => format!(" by {}", name.rsplit_once('_').map_or(name, |(name, _)| name)),
    };
    let numeric = dimension.values.len() > 1 && dimension.values.iter().all(|value| value.parse::<f64>().is_ok());
    let choices = grid.choices(dimension);
    let seconds = spread.interval_s(choices.last());
    let group = |shape: Shape, name: &str, caption: &str| {
        let charts = choices.iter().map(|at| spread.chart(shape, at)).collect();
        let id = format!("{}-{}", name.replace(' ', "-"), dimension.name);
        let title = format!("{unit} per second in {seconds}-second intervals{by}: {name}");
        ChartGroup::of(id.trim_end_matches('-'), &title, caption, "at", charts)
    };
    let boxes = "Box: the middle half of the intervals, with the median. Whiskers reach the farthest interval within \
                 1.5 times the box, dots are farther.";
    [
        group(Shape::Boxes, "box plot", boxes),
        group(Shape::Jitter, "jitter plot", "A dot per interval; its place sideways means nothing."),
        numeric
            .then(|| group(Shape::Scatter, "scatter plot", "A dot per interval; the line joins the medians."))
            .flatten(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

struct Spread<'a> {
    measured: &'a Measured<'a>,
    grid: &'a Grid<'a>,
    dimension: &'a Dimension,
    unit: &'a str,
}

impl Spread<'_> {
    fn steps(&self, system: &str, at: &Choice, value: &str) -> Vec<&StepRecord> {
        if self.dimension.name.is_empty() {
            return self.grid.steps(system, at);
        }
        self.grid.steps(system, &with(at, self.dimension, value))
    }

    /// The intervals of all repeats at one value.
    fn intervals(&self, system: &str, at: &Choice, value: &str) -> Vec<f64> {
        let steps = self.steps(system, at, value);
        let of_step = |step: &&StepRecord| intervals(self.measured, system, step);
        steps.iter().flat_map(of_step).collect()
    }

    /// Returns the interval at a choice, for the title.
    fn interval_s(&self, at: Option<&Choice>) -> String {
        let steps = at.into_iter().flat_map(|at| {
            let step = |system| self.grid.steps(system, at).last().map(|step| (system, *step));
            self.grid.systems().filter_map(step).collect::<Vec<_>>()
        });
        let widths = steps.map(|(system, step)| width(&self.measured.rate(system, step)));
        let widest = widths.fold(0.0, f64::max);
        if widest >= 1.0 { format!("{widest:.0}") } else { format!("{widest:.1}") }
    }

    fn chart(&self, shape: Shape, at: &Choice) -> Chart {
        let name = title(&self.dimension.name);
        let x = if shape == Shape::Scatter {
            let numbers: Vec<f64> = self.dimension.values.iter().filter_map(|value| value.parse().ok()).collect();
            let ends = numbers.first().zip(numbers.last());
            let wide = ends.is_some_and(|(first, last)| *first > 0.0 && last / first > 20.0);
            if wide { Axis::log(&name) } else { Axis::of(&name) }
        } else {
            Axis::categories(&name, &self.dimension.values)
        };
        let mut chart = Chart::new(shape, label(at), x, Axis::of(&format!("{} per second", self.unit)));
        chart.series = self.grid.systems().map(|system| self.series(shape, system, at)).collect();
        chart
    }

    fn series(&self, shape: Shape, system: &str, at: &Choice) -> Series {
        let mut points = Vec::new();
        for (n, value) in self.dimension.values.iter().enumerate() {
            let intervals = self.intervals(system, at, value);
            let x = if shape == Shape::Scatter { value.parse().unwrap_or(0.0) } else { n as f64 };
            match (shape, Quartiles::of(&intervals)) {
                (_, None) => {}
                (Shape::Boxes, Some(quartiles)) => points.push(quartiles.row(x, &intervals)),
                _ => points.extend(intervals.iter().map(|y| vec![Some(x), Some(*y)])),
            }
        }
        Series { points, ..Series::of(system, []) }
    }
}

fn width(points: &[(f64, f64)]) -> f64 {
    let length = points.last().map_or(0.0, |(t, _)| *t);
    if length >= INTERVAL_S * INTERVALS_MIN { INTERVAL_S } else { length / (points.len().max(1) as f64) }
}

/// The throughput of a step's intervals of ten seconds, or of those recorded where the step is short.
pub(super) fn intervals(measured: &Measured<'_>, system: &str, step: &StepRecord) -> Vec<f64> {
    let points = measured.rate(system, step);
    let binned = if width(&points) < INTERVAL_S { points } else { bins(&points, INTERVAL_S, Fold::Mean) };
    binned.into_iter().map(|(_, value)| value).collect()
}

/// Numbers that a box plot shows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quartiles {
    low: f64,
    first: f64,
    median: f64,
    third: f64,
    high: f64,
}

impl Quartiles {
    fn of(values: &[f64]) -> Option<Quartiles> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (sorted.len() - 1) as f64;
            let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
            Some(below + (above - below) * place.fract())
        };
        if sorted.is_empty() {
            return None;
        }
        let (first, median, third) = (at(0.25)?, at(0.5)?, at(0.75)?);
        let reach = 1.5 * (third - first);
        let within = |value: &&f64| (first - reach..=third + reach).contains(*value);
        let low = sorted.iter().find(within).copied().unwrap_or(first);
        let high = sorted.iter().rev().find(within).copied().unwrap_or(third);
        Some(Quartiles { low, first, median, third, high })
    }

    /// `[x, low, first, median, third, high, outliers...]`.
    fn row(self, x: f64, values: &[f64]) -> Vec<Option<f64>> {
        let own = [x, self.low, self.first, self.median, self.third, self.high];
        let beyond = values.iter().copied().filter(|value| *value < self.low || *value > self.high);
        own.into_iter().chain(beyond).map(Some).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_as_r_counts_them() {
        let values = [7.0, 1.0, 3.0, 4.0, 5.0, 6.0, 2.0, 100.0];
        let quartiles = Quartiles::of(&values).unwrap();
        assert_eq!((quartiles.first, quartiles.median, quartiles.third), (2.75, 4.5, 6.25));
        assert_eq!((quartiles.low, quartiles.high), (1.0, 7.0));
        assert_eq!(quartiles.row(3.0, &values).last(), Some(&Some(100.0)));
        assert_eq!(quartiles.row(3.0, &values).len(), 7);
        assert_eq!(Quartiles::of(&[]), None);
        assert_eq!(Quartiles::of(&[2.0]).map(|q| (q.low, q.median, q.high)), Some((2.0, 2.0, 2.0)));
    }
}
