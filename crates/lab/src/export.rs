//! `arbor lab export DIR...`: every series of runs for other programs, in one file.
//!
//! | format | what |
//! |---|---|
//! | `csv` | `experiment,started,system,step,clients,phase,time,t_s,series,value`, a row per point |
//! | `prometheus` | OpenMetrics text with times, as `promtool tsdb create-blocks-from openmetrics` takes it |
//! | `parquet` | the columns of `csv`, the times as timestamps, compressed; a row group per run. In builds with the feature `parquet` |

#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
mod parquet {
    pub(super) fn file(_: &[super::Run]) -> super::Result<Vec<u8>> {
        Err(super::Error::Usage("this build writes no Parquet; build with --features parquet".to_owned()))
    }
}

use std::collections::BTreeMap;
use std::io::Write;

use clap::{ArgMatches, Command};
use jiff::Timestamp;

use crate::cli::{directories, given_directories, option, text};
use crate::results::{Ending, Point, Run, quoted};
use crate::{Error, Result};

pub(crate) fn command() -> Command {
    Command::new("export")
        .about("Write every series of runs as CSV, Parquet or Prometheus text, with the time of each point")
        .arg(directories("Directories of runs"))
        .arg(option("format", "csv|parquet|prometheus", "Form of the output (csv)").value_parser([
            "csv",
            "parquet",
            "prometheus",
        ]))
        .arg(option("out", "FILE", "File to write (standard output)"))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<Ending> {
    let runs = given_directories(matches).iter().map(|directory| Run::read(directory)).collect::<Result<Vec<_>>>()?;
    let exported = match text(matches, "format") {
        Some("prometheus") => prometheus(&runs)?.into_bytes(),
        Some("parquet") => parquet::file(&runs)?,
        _ => csv(&runs)?.into_bytes(),
    };
    match text(matches, "out") {
        Some(file) => std::fs::write(file, exported).map_err(Error::file(file))?,
        None => {
            // a reader that ends early has what it asked for
            let _ = std::io::stdout().write_all(&exported);
        }
    }
    Ok(Ending::Complete)
}

/// Returns the milliseconds since 1970 at which a run began.
fn began_ms(run: &Run) -> Result<i64> {
    let started = &run.record.started;
    let wrong = |error: jiff::Error| Error::results(&run.directory.join("run.yaml"), format!("started: {error}"));
    Ok(started.parse::<Timestamp>().map_err(wrong)?.as_millisecond())
}

fn at_ms(began_ms: i64, point: &Point) -> i64 {
    began_ms + (point.t_s * 1000.0).round() as i64
}

fn csv(runs: &[Run]) -> Result<String> {
    let mut text = "experiment,started,system,step,clients,phase,time,t_s,series,value\n".to_owned();
    for run in runs {
        let began = began_ms(run)?;
        let (experiment, started) = (quoted(&run.record.experiment), quoted(&run.record.started));
        for point in &run.series {
            let time = Timestamp::from_millisecond(at_ms(began, point)).unwrap_or_default();
            text += &format!(
                "{experiment},{started},{},{},{},{},{time:.3},{},{},{}\n",
                quoted(&point.system),
                quoted(&point.step),
                point.clients,
                point.phase.name(),
                point.t_s,
                quoted(&point.series),
                point.value
            );
        }
    }
    Ok(text)
}

/// Samples of one metric together, as the format requires; of one series in the order of time.
fn prometheus(runs: &[Run]) -> Result<String> {
    let mut metrics: BTreeMap<String, BTreeMap<String, Vec<(i64, f64)>>> = BTreeMap::new();
    for run in runs {
        let began = began_ms(run)?;
        for point in &run.series {
            let (name, of) = metric(&point.series);
            let labels = [
                ("experiment", run.record.experiment.as_str()),
                ("started", &run.record.started),
                ("system", &point.system),
                ("step", &point.step),
                ("clients", &point.clients.to_string()),
                ("phase", point.phase.name()),
                ("of", of),
            ];
            let labels = labels.iter().filter(|(_, value)| !value.is_empty());
            let labels: Vec<String> = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let series = metrics.entry(name).or_default().entry(labels.join(",")).or_default();
            series.push((at_ms(began, point), point.value));
        }
    }
    let mut text = String::new();
    for (name, all) in &mut metrics {
        text += &format!("# TYPE {name} gauge\n");
        for (labels, samples) in all {
            samples.sort_by_key(|(time, _)| *time);
            for (time, value) in samples {
                text += &format!("{name}{{{labels}}} {value} {:.3}\n", *time as f64 / 1000.0);
            }
        }
    }
    Ok(text + "# EOF\n")
}

/// Returns the metric of a series, and what it is of: `ops.point_query` is `arbor_lab_ops` of `point_query`.
fn metric(series: &str) -> (String, &str) {
    let (name, of) = series.split_once('.').unwrap_or((series, ""));
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    (format!("arbor_lab_{}", name.chars().map(word).collect::<String>()), of)
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn series_are_metrics_with_labels() {
        for (series, name, of) in [
            ("ops.point_query", "arbor_lab_ops", "point_query"),
            ("server.ftree.cache.hits", "arbor_lab_server", "ftree.cache.hits"),
            ("cpu_percent", "arbor_lab_cpu_percent", ""),
            ("a-b", "arbor_lab_a_b", ""),
        ] {
            assert_eq!(metric(series), (name.to_owned(), of));
        }
        assert_eq!(escaped("a\"b\\c\n"), "a\\\"b\\\\c\\n");
    }

    #[test]
    fn points_have_the_time_of_the_clock() {
        let directory = tempfile::tempdir().unwrap();
        let rest = "about: b\nscale: small\nmode: fixed\nseed: 1\nunit: u\nkinds: []\nschedule: s\nparameters: {}\n\
                    arbor_version: v\ncommand_line: []\nclient_placement: c\nending: complete\ntext: x\n";
        let record = format!("format: 1\nexperiment: a\nstarted: \"2026-11-21T00:00:01Z\"\n{rest}");
        std::fs::write(directory.path().join("run.yaml"), record).unwrap();
        let series =
            "system,step,clients,phase,t_s,series,value\n\"x,y\",c1,1,run,2.5,ops.read,7\nx,c1,1,run,1.5,rss_bytes,9\n";
        std::fs::write(directory.path().join("series.csv"), series).unwrap();
        let runs = [Run::read(directory.path()).unwrap()];
        let rows = csv(&runs).unwrap();
        let last = "a,2026-11-21T00:00:01Z,\"x,y\",c1,1,run,2026-11-21T00:00:03.500Z,2.5,ops.read,7";
        assert_eq!(rows.lines().nth(1), Some(last));
        let text = prometheus(&runs).unwrap();
        let labels = |system: &str| {
            format!(
                "experiment=\"a\",started=\"2026-11-21T00:00:01Z\",system=\"{system}\",step=\"c1\",clients=\"1\",phase=\"run\""
            )
        };
        let expect = format!(
            "# TYPE arbor_lab_ops gauge\narbor_lab_ops{{{},of=\"read\"}} 7 1795219203.500\n\
             # TYPE arbor_lab_rss_bytes gauge\narbor_lab_rss_bytes{{{}}} 9 1795219202.500\n# EOF\n",
            labels("x,y"),
            labels("x")
        );
        assert_eq!(text, expect);
        #[cfg(feature = "parquet")]
        parquet::check(&runs, directory.path());
    }
}
