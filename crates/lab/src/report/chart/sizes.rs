//! Sizes on disk at the end of the run.

use super::{Axis, Chart, Figure, Series, Shape};
use crate::results::{Record, StepRecord};

/// Figures of a step and what they are called.
pub const SIZES: [(&str, &str); 7] = [
    ("data_bytes", "data"),
    ("storage_bytes", "storage size"),
    ("index_bytes", "indexes"),
    ("engine_bytes", "engine's files"),
    ("log_bytes", "log"),
    ("du_bytes", "directory (du)"),
    ("apparent_bytes", "directory (apparent)"),
];

/// The last step of a system that knows a size.
pub fn last_sized(steps: &[StepRecord]) -> Option<&StepRecord> {
    steps.iter().rev().find(|step| SIZES.iter().any(|(figure, _)| step.figure(figure).is_some()))
}

pub fn sizes(record: &Record) -> Option<Figure> {
    let steps: Vec<(&str, &StepRecord)> =
        record.systems.iter().filter_map(|system| Some((system.name.as_str(), last_sized(&system.steps)?))).collect();
    let known = SIZES.iter().filter(|(figure, _)| steps.iter().any(|(_, step)| step.figure(figure).is_some()));
    let known: Vec<&(&str, &str)> = known.collect();
    let names: Vec<String> = known.iter().map(|(_, name)| (*name).to_owned()).collect();
    let mut chart = Chart::new(Shape::Bars, "", Axis::categories("", &names), Axis::of("MB"));
    for (system, step) in steps {
        let megabytes = |figure: &str| Some(step.figure(figure)? / 1e6);
        let points = known.iter().enumerate().filter_map(|(n, (figure, _))| Some((n as f64, megabytes(figure)?)));
        chart.series.push(Series::of(system, points));
    }
    Figure::of("sizes", "Size on disk at the end", "1 MB is 1,000,000 bytes.", "", vec![chart])
}
