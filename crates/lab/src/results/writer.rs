//! The directory of a run in progress.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Event, HistogramLog, Point, Record, SeriesFile, Table, record};
use crate::{Error, Result};

pub(super) const RECORD: &str = "run.yaml";
pub(super) const SERIES: &str = "series.csv";
pub(super) const HISTOGRAMS: &str = "hist.hlog";
pub(super) const EVENTS: &str = "events.ndjson";
pub(super) const ENVIRONMENT: &str = "env.json";
pub(super) const TABLES: &str = "tables.json";

/// Writes a run's files. `series.csv`, `hist.hlog` and `events.ndjson` grow; the others are replaced whole, so that at no
/// time half of one is there.
#[derive(Debug)]
pub struct Writer {
    directory: PathBuf,
    series: SeriesFile,
    histograms: HistogramLog,
    events: std::fs::File,
}

impl Writer {
    /// Makes the directory. One that holds a run already is refused: results are never mixed.
    pub fn create(directory: &Path, record: &Record, environment: &Value) -> Result<Writer> {
        if directory.exists() && !directory.is_dir() {
            return Err(Error::Usage(format!("{} is not a directory", directory.display())));
        }
        std::fs::create_dir_all(directory).map_err(Error::file(directory))?;
        if directory.join(RECORD).exists() {
            return Err(Error::Usage(format!("{} contains the results of another run", directory.display())));
        }
        let events = directory.join(EVENTS);
        let writer = Writer {
            series: SeriesFile::create(&directory.join(SERIES))?,
            histograms: HistogramLog::create(&directory.join(HISTOGRAMS))?,
            events: std::fs::File::create(&events).map_err(Error::file(&events))?,
            directory: directory.to_owned(),
        };
        writer.replace(ENVIRONMENT, &format!("{environment:#}\n"))?;
        writer.record(record)?;
        Ok(writer)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn points(&mut self, points: &[Point]) -> Result<()> {
        self.series.append(points).map_err(Error::file(self.directory.join(SERIES)))
    }

    /// Appends what `add` writes, then flushes.
    pub fn histograms(&mut self, add: impl FnOnce(&mut HistogramLog) -> std::io::Result<()>) -> Result<()> {
        add(&mut self.histograms)
            .and_then(|()| self.histograms.flush())
            .map_err(Error::file(self.directory.join(HISTOGRAMS)))
    }

    pub fn event(&mut self, event: &Event) -> Result<()> {
        let event = Event { t_s: to_milliseconds(event.t_s), end_s: event.end_s.map(to_milliseconds), ..event.clone() };
        let line = serde_json::to_string(&event).expect("an event has no map with other keys than strings");
        writeln!(self.events, "{line}").map_err(Error::file(self.directory.join(EVENTS)))
    }

    /// Replaces run.yaml.
    pub fn record(&self, record: &Record) -> Result<()> {
        self.replace(RECORD, &record::emit(record))
    }

    /// Replaces tables.json.
    pub fn tables(&self, tables: &[Table]) -> Result<()> {
        let text = serde_json::to_string_pretty(tables).expect("a table has no map");
        self.replace(TABLES, &format!("{text}\n"))
    }

    /// Any other file of the directory: report.txt, report.html.
    pub fn replace(&self, name: &str, text: &str) -> Result<()> {
        let (path, fresh) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        std::fs::write(&fresh, text).map_err(Error::file(&fresh))?;
        std::fs::rename(&fresh, &path).map_err(Error::file(&path))
    }
}

/// More digits than the clock is worth are noise in a file for people.
fn to_milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
