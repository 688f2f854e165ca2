//! series.csv: one row per interval and kind, written as the run goes on, so that a run that dies leaves its past.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::run::{Interval, Latencies};
use crate::workload::Kind;
use crate::{Error, Result};

const HEADER: &str = "system,phase,clients,elapsed_s,kind,operations,per_second,mean_us,p50_us,p90_us,p95_us,p99_us,\
                      p99.9_us,max_us,errors,cpu_user_percent,cpu_system_percent,context_switches_per_s,server_cpu_s,\
                      client_cpu_s,backlog";

#[derive(Debug)]
pub struct Series {
    file: BufWriter<File>,
    kinds: Vec<Kind>,
}

impl Series {
    pub fn create(path: &Path, kinds: &[Kind]) -> Result<Series> {
        let mut file = BufWriter::new(File::create(path).map_err(Error::file(path))?);
        writeln!(file, "{HEADER}").map_err(Error::file(path))?;
        let kinds = kinds.iter().copied().chain([Kind::INSERT_BATCH]).collect();
        Ok(Series { file, kinds })
    }

    pub fn interval(&mut self, system: &str, interval: &Interval) -> std::io::Result<()> {
        for kind in &self.kinds {
            if let Some(latencies) = interval.recorder.latencies(*kind) {
                writeln!(self.file, "{}", row(system, interval, *kind, latencies))?;
            }
        }
        self.file.flush()
    }
}

fn row(system: &str, interval: &Interval, kind: Kind, latencies: &Latencies) -> String {
    let usage = &interval.usage;
    let seconds = usage.seconds.max(1e-9);
    let count = latencies.service.len();
    let quantiles = Latencies::summary(&latencies.service).map(|(_, value)| format!("{value:.1}")).join(",");
    let optional = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    format!(
        "{},{},{},{:.3},{},{count},{:.1},{quantiles},{},{:.2},{:.2},{:.0},{},{:.3},{}",
        quoted(system),
        interval.phase,
        interval.clients,
        interval.elapsed.as_secs_f64(),
        kind.name(),
        count as f64 / seconds,
        interval.recorder.error_count(),
        usage.user_percent,
        usage.system_percent,
        usage.context_switches / seconds,
        optional(usage.server_cpu_s),
        usage.client_cpu_s,
        optional(interval.backlog),
    )
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Recorder;

    #[test]
    fn a_row_has_the_headers_columns() {
        let mut recorder = Recorder::default();
        recorder.record(Kind::POINT_QUERY, 5000, None);
        let interval = Interval {
            phase: "run",
            clients: 4,
            elapsed: std::time::Duration::from_secs(2),
            planned: std::time::Duration::from_secs(5),
            unit: Kind::POINT_QUERY,
            recorder,
            usage: Default::default(),
            backlog: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("series.csv");
        Series::create(&path, &[Kind::POINT_QUERY]).unwrap().interval("lmdb", &interval).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count(), "{text}");
        assert!(lines[1].starts_with("lmdb,run,4,2.000,point_query,1,"), "{text}");
        assert_eq!(quoted("a,b"), "\"a,b\"");
    }
}
