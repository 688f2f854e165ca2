//! Sizes on disk at the end of the run.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::report::founding::compression_of;
use crate::results::{Record, StepRecord, SystemRecord};

/// Metrics of a step and their labels.
pub(crate) const SIZES: [(&str, &str); 7] = [
    ("data_bytes", "data"),
    ("storage_bytes", "storage size"),
    ("index_bytes", "indexes"),
    ("engine_bytes", "engine's files"),
    ("log_bytes", "log"),
    ("du_bytes", "directory (du)"),
    ("apparent_bytes", "directory (apparent)"),
];

/// The last step of a system that knows a size.
pub(crate) fn last_sized(steps: &[StepRecord]) -> Option<&StepRecord> {
    steps.iter().rev().find(|step| SIZES.iter().any(|(metric, _)| step.metric(metric).is_some()))
}

pub(crate) fn sizes(record: &Record) -> Option<ChartGroup> {
    let steps: Vec<(&SystemRecord, &StepRecord)> =
        record.systems.iter().filter_map(|system| Some((system, last_sized(&system.steps)?))).collect();
    let compressions = steps.iter().map(|(system, _)| format!("{} {}", system.name, compression_of(system)));
    let caption = format!("1 MB is 1,000,000 bytes. Compression: {}.", compressions.collect::<Vec<_>>().join(", "));
    let known = SIZES.iter().filter(|(metric, _)| steps.iter().any(|(_, step)| step.metric(metric).is_some()));
    let known: Vec<&(&str, &str)> = known.collect();
    let names: Vec<String> = known.iter().map(|(_, name)| (*name).to_owned()).collect();
    let mut chart = Chart::new(Shape::Bars, "", Axis::categories("", &names), Axis::of("MB"));
    for (system, step) in steps {
        let megabytes = |metric: &str| Some(step.metric(metric)? / 1e6);
        let points = known.iter().enumerate().filter_map(|(n, (metric, _))| Some((n as f64, megabytes(metric)?)));
        chart.series.push(Series::of(&system.name, points));
    }
    ChartGroup::of("sizes", "Size on disk at the end", &caption, "", vec![chart])
}
