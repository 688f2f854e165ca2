//! Charts as data. A page embeds them as JSON, `assets/report.js` draws them; the same data is in a table below
//! each chart, for accessibility and for copying.

mod costs;
mod ladder;
mod latency;
mod over_rows;
mod over_time;
mod rounds;
mod sizes;
mod spread;
mod timeline;

pub(super) use costs::{COSTS, cost_title, costs};
pub(super) use ladder::{ladders, published_ladder};
pub(super) use latency::{latency_over_time, percentiles};
pub(super) use over_rows::over_rows;
pub(super) use over_time::{resources, throughput};
pub(super) use rounds::{ROUND, published_rounds, rounds};
pub(super) use sizes::{SIZES, last_sized, sizes};
pub(super) use spread::spreads;
pub(super) use timeline::timeline;

use serde::Serialize;

use super::grid::Spread;

/// Form of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    Lines,
    Bars,
    /// A dot per interval and a line through the medians.
    Scatter,
    /// A dot per interval, spread sideways at random.
    Jitter,
    /// Quartiles, whiskers to the farthest interval within 1.5 of the quartiles' distance, dots beyond.
    Boxes,
    /// Horizontal bars from begin to end, a row per system.
    Timeline,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Axis {
    pub name: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// Bars begin here: at 1 on a logarithmic axis of ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
    /// A category axis when there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// `percentile`: values are -log10(1 - p) and shown as percent.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub scale: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Series {
    pub name: String,
    /// Decides the colour: one system has one colour on a page.
    pub system: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub published: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dashed: bool,
    /// `[x, y]`, of repeats `[x, median, lowest, highest]`; on a category axis x is the category's number. Of a time line
    /// `[begin, end, row]`.
    pub points: Vec<Vec<Option<f64>>>,
    /// Texts of the points, where they have any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
}

/// An event over a chart of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mark {
    pub begin: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<f64>,
    pub kind: &'static str,
    pub system: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    pub shape: Shape,
    /// Label of the choice in a group of several charts: `16 clients`.
    pub label: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

impl Chart {
    pub(crate) fn new(shape: Shape, label: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart { shape, label: label.into(), x, y, series: Vec::new(), marks: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
}

/// A place on the page for one chart, or for one of several that the reader chooses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChartGroup {
    /// Unique on the page.
    pub id: String,
    pub title: String,
    /// Explanation for the reader.
    pub caption: String,
    /// Name of the choice: `step`.
    pub choose: &'static str,
    pub charts: Vec<Chart>,
    pub published: bool,
    /// The first chart is the one to begin with, not the last.
    pub first_chosen: bool,
}

impl ChartGroup {
    /// `None` when nothing would be drawn.
    pub(crate) fn of(
        id: &str,
        title: &str,
        caption: &str,
        choose: &'static str,
        charts: Vec<Chart>,
    ) -> Option<ChartGroup> {
        let charts: Vec<Chart> = charts.into_iter().filter(|chart| !chart.is_empty()).collect();
        let (id, title, caption) = (id.to_owned(), title.to_owned(), caption.to_owned());
        (!charts.is_empty()).then_some(ChartGroup {
            id,
            title,
            caption,
            choose,
            charts,
            published: false,
            first_chosen: false,
        })
    }
}

impl ChartGroup {
    pub(crate) fn first_chosen(self) -> ChartGroup {
        ChartGroup { first_chosen: true, ..self }
    }
}

impl Axis {
    pub(crate) fn of(name: &str) -> Axis {
        Axis { name: name.to_owned(), ..Axis::default() }
    }

    pub(crate) fn log(name: &str) -> Axis {
        Axis { name: name.to_owned(), log: true, ..Axis::default() }
    }

    pub(crate) fn categories(name: &str, categories: &[String]) -> Axis {
        Axis { name: name.to_owned(), categories: categories.to_vec(), ..Axis::default() }
    }
}

impl Series {
    pub(crate) fn of(system: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let points = points.into_iter().map(|(x, y)| vec![Some(x), Some(y)]).collect();
        Series { name: system.to_owned(), system: system.to_owned(), points, ..Series::default() }
    }

    pub(crate) fn with_whiskers(system: &str, points: impl IntoIterator<Item = (f64, Spread)>) -> Series {
        let point = |(x, Spread { lowest, median, highest })| match lowest < highest {
            true => vec![Some(x), Some(median), Some(lowest), Some(highest)],
            false => vec![Some(x), Some(median)],
        };
        let points = points.into_iter().map(point).collect();
        Series { name: system.to_owned(), system: system.to_owned(), points, ..Series::default() }
    }

    pub(crate) fn named(self, name: String) -> Series {
        Series { name, ..self }
    }
}
