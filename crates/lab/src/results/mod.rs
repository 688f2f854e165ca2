//! A finished run as files: one directory, readable by people and by other programs, and enough to draw every table and
//! chart again without the server.
//!
//! | file | what | type |
//! |---|---|---|
//! | `run.yaml` | what was asked, what each step brought, how it ended | [`Record`] |
//! | `series.csv` | one row per metric and interval: `system,step,clients,phase,t_s,series,value` | [`Point`] |
//! | `hist.hlog` | HdrHistogram V2 log: a histogram per interval, tagged `system/step/kind[/response]`, nanoseconds | [`Recorded`] |
//! | `events.ndjson` | checkpoints, kills, chunk moves, stalls: `{t_s, end_s, system, kind, text}` | [`Event`] |
//! | `env.json` | machine, kernel, disk, limits | JSON |
//! | `tables.json` | the founding text's tables with its numbers next to ours | [`Table`] |
//!
//! All times are seconds since the run began: one clock for series, histograms, events and steps.
//!
//! Series are written during the run, so a run that dies leaves its past; `run.yaml` exists from the beginning and
//! says `running` until the end. What counts something is per second in `series.csv` (`ops.KIND`, `errors`, `ctx`,
//! `cpu_us`, `reads`, `read_bytes`, `writes`, `write_bytes`), the rest is what was seen at the interval's end
//! (`rss_bytes`, `open_files`, `backlog`, `server.NAME`) or a latency of the interval (`p99_us.KIND`, `response_p99_us.KIND`).

mod event;
mod hist;
mod record;
mod series;
mod table;
mod writer;
mod yaml;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use event::{Event, EventKind};
pub use hist::{HistogramLog, Recorded};
pub use record::{Clock, Ending, ErrorCount, LatencyRow, Phase, Record, StepRecord, SystemRecord};
pub(crate) use series::quoted;
pub use series::{Point, SeriesFile};
pub use table::{Form, Row, Table};
pub use writer::Writer;

use crate::{Error, Result};

/// A run, read back from its directory.
#[derive(Clone, Debug)]
pub struct Run {
    pub directory: PathBuf,
    pub record: Record,
    pub series: Vec<Point>,
    pub histograms: Vec<Recorded>,
    pub events: Vec<Event>,
    /// Machine, kernel, disk, limits.
    pub environment: Value,
    pub tables: Vec<Table>,
}

impl Run {
    /// Reads a directory. A run that died may lack all but `run.yaml`; what is there and unreadable is an error that names
    /// file and line, except for a torn last line.
    pub fn read(directory: &Path) -> Result<Run> {
        let path = |name: &str| directory.join(name);
        if !path(writer::RECORD).is_file() {
            return Err(Error::Usage(format!(
                "{} contains no run: there is no {}",
                directory.display(),
                writer::RECORD
            )));
        }
        let environment = text(&path(writer::ENVIRONMENT))?;
        Ok(Run {
            directory: directory.to_owned(),
            record: record::parse(&text(&path(writer::RECORD))?)
                .map_err(|what| Error::results(&path(writer::RECORD), what))?,
            series: series::read(&path(writer::SERIES))?,
            histograms: hist::read(&path(writer::HISTOGRAMS))?,
            events: event::read(&path(writer::EVENTS))?,
            environment: if environment.is_empty() {
                Value::Null
            } else {
                serde_json::from_str(&environment)
                    .map_err(|error| Error::results(&path(writer::ENVIRONMENT), error.to_string()))?
            },
            tables: table::read(&path(writer::TABLES))?,
        })
    }

    /// The points of one series of a step, in order of time.
    pub fn points<'a>(
        &'a self,
        system: &'a str,
        step: &'a str,
        series: &'a str,
    ) -> impl Iterator<Item = &'a Point> + 'a {
        self.series.iter().filter(move |point| point.is_of(system, step, series))
    }

    /// Returns the step that an event falls into and the seconds since it began, as charts over time count them: `12.3 s in c16`.
    pub fn place(&self, event: &Event) -> Option<String> {
        let system = self.record.systems.iter().find(|system| system.name == event.system)?;
        let is_in = |step: &&StepRecord| step.begin_s <= event.t_s && event.t_s <= step.end_s;
        let step = system.steps.iter().find(is_in)?;
        Some(format!("{:.1} s in {}", event.t_s - step.begin_s, step.name))
    }

    /// All intervals of a step's kind in one histogram, in nanoseconds.
    pub fn histogram(
        &self,
        system: &str,
        step: &str,
        kind: &str,
        clock: Clock,
    ) -> Option<hdrhistogram::Histogram<u64>> {
        hist::merged(self.histograms.iter().filter(|recorded| {
            recorded.system == system && recorded.step == step && recorded.kind == kind && recorded.clock == clock
        }))
    }
}

/// A file's text; one that is not there is empty.
fn text(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(Error::file(path)),
    }
}

/// The lines of a file that grew line by line, from 1 on, without a torn last one.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text.get(..whole).unwrap_or_default().lines().enumerate().map(|(n, line)| (n + 1, line))
}
