//! Conversion of counters to results: an interval's points of series.csv, a step's record in run.yaml.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde_json::Value;

use super::{Interval, Latencies, Loaded, Recorder, Step, stalls, steady_from};
use crate::observe::{DiskUse, Usage, processors};
use crate::results::{Clock, ErrorCount, LatencyRow, Phase, Point, StepRecord};
use crate::target::Sizes;

/// A generator that used more than this of its processors measured itself (spec/workloads.md 1.1).
const CLIENT_SHARE_MAX: f64 = 0.7;
const KILOBYTE: f64 = 1024.0;

/// An interval's rows of series.csv.
pub fn points(interval: &Interval) -> Vec<Point> {
    let (usage, recorder) = (&interval.usage, &interval.recorder);
    let seconds = usage.seconds.max(1e-9);
    let mut values: Vec<(String, f64)> = Vec::new();
    let mut add = |name: &str, value: f64| values.push((name.to_owned(), value));
    if interval.phase == Phase::Load {
        add("ops.document", interval.documents as f64 / seconds);
    }
    for (kind, latencies) in recorder.kinds() {
        let named = |series: &str| format!("{series}.{}", kind.name());
        let rows = if kind == interval.unit { interval.unit_rows } else { 1 };
        add(&named("ops"), (latencies.service.len() * rows) as f64 / seconds);
        for (name, value) in Latencies::summary(&latencies.service) {
            add(&named(&format!("{}_us", name.replace('.', ""))), value);
        }
        if let Some(response) = &latencies.response {
            for (name, value) in Latencies::summary(response) {
                add(&named(&format!("response_{}_us", name.replace('.', ""))), value);
            }
        }
    }
    add("errors", recorder.error_count() as f64 / seconds);
    add("cpu_percent", usage.user_percent + usage.system_percent);
    add("ctx", usage.context_switches / seconds);
    add("client_cores", usage.client_cpu_s / seconds);
    let mut known = |name: &str, value: Option<f64>| values.extend(value.map(|value| (name.to_owned(), value)));
    known("server_cores", usage.server_cpu_s.map(|cpu| cpu / seconds));
    known("rss_bytes", usage.resident_bytes.map(|bytes| bytes as f64));
    known("open_files", usage.open_files.map(|count| count as f64));
    known("reads", usage.device.map(|device| device.reads as f64 / seconds));
    known("read_bytes", usage.device.map(|device| device.read_bytes as f64 / seconds));
    known("writes", usage.device.map(|device| device.writes as f64 / seconds));
    known("write_bytes", usage.device.map(|device| device.write_bytes as f64 / seconds));
    known("server_read_bytes", usage.server_device.map(|bytes| bytes.read as f64 / seconds));
    known("server_write_bytes", usage.server_device.map(|bytes| bytes.written as f64 / seconds));
    known("backlog", interval.backlog);
    values.extend(interval.statistics.iter().map(|(name, value)| (format!("server.{name}"), *value)));
    values.into_iter().map(|(series, value)| point(interval, series, value)).collect()
}

fn point(interval: &Interval, series: String, value: f64) -> Point {
    Point {
        system: interval.system.clone(),
        step: interval.step.clone(),
        clients: interval.clients,
        phase: interval.phase,
        t_s: interval.end_s,
        series,
        value,
    }
}

/// Returns the record of a measured step for run.yaml. `settings`: what distinguishes it beyond its clients.
pub fn step_record(name: &str, repeat: u32, settings: BTreeMap<String, Value>, step: &Step) -> StepRecord {
    let units = step.units();
    let mut metrics = usage_metrics(&step.usage, units);
    metrics.extend([
        ("per_second".to_owned(), units / step.usage.seconds.max(1e-9)),
        ("misses".to_owned(), step.recorder.misses() as f64),
        ("errors".to_owned(), step.recorder.error_count() as f64),
        ("generator_share".to_owned(), step.client_share()),
    ]);
    let rates: Vec<f64> = step.rates.iter().map(|(_, rate)| *rate).collect();
    let stalled: f64 = stalls(&rates).iter().map(|stall| step.span(stall.begin, stall.end)).map(|(a, b)| b - a).sum();
    metrics.insert("stalled_s".to_owned(), stalled);
    let steady = steady_from(&rates);
    if let Some((_, end)) = steady.map(|n| step.span(0, n)) {
        metrics.insert("steady_from_s".to_owned(), (end - step.begin_s).max(0.0));
    }
    metrics.extend(step.backlog.map(|backlog| ("backlog".to_owned(), backlog)));
    metrics.extend(step.resident_max_bytes.map(|bytes| ("rss_peak_bytes".to_owned(), bytes as f64)));
    StepRecord {
        name: name.to_owned(),
        phase: Phase::Run,
        clients: step.clients,
        repeat,
        settings,
        begin_s: step.begin_s,
        end_s: step.end_s,
        unit: step.unit.name().to_owned(),
        metrics,
        latencies: latencies(&step.recorder),
        errors: errors(&step.recorder),
        interrupted: step.interrupted,
        marks: marks(step, steady.is_none() && rates.len() >= 10),
    }
}

fn marks(step: &Step, unsteady: bool) -> Vec<String> {
    let mut marks = Vec::new();
    if step.client_share() > CLIENT_SHARE_MAX {
        marks.push(format!(
            "the generator used {:.0} % of the {} processors: the point measures it too",
            step.client_share() * 100.0,
            processors()
        ));
    }
    if let Some(backlog) = step.backlog.filter(|backlog| *backlog >= 1.0) {
        marks.push(format!("the rate was not held: {backlog:.0} operations were still due at the end"));
    }
    if unsteady {
        marks.push("the rate was not steady: its mean depends on how long one looks".to_owned());
    }
    if step.interrupted {
        marks.push("interrupted: cut off before its end".to_owned());
    }
    marks.extend(step.deserted.clone());
    marks
}

/// Returns the record of a load for run.yaml.
pub fn load_record(name: &str, settings: BTreeMap<String, Value>, load: &Loaded) -> StepRecord {
    let documents = load.documents as f64;
    let mut metrics = usage_metrics(&load.usage, documents);
    metrics.insert("per_second".to_owned(), load.documents_per_second());
    metrics.insert("errors".to_owned(), load.recorder.error_count() as f64);
    add_sizes(&mut metrics, load.sizes.1, load.disk);
    let log = load.log_bytes_per_document().filter(|bytes| bytes.is_finite());
    metrics.extend(log.map(|bytes| ("log_bytes_per_unit".to_owned(), bytes)));
    StepRecord {
        name: name.to_owned(),
        phase: Phase::Load,
        clients: load.threads,
        repeat: 1,
        settings,
        begin_s: load.begin_s,
        end_s: load.end_s,
        unit: "document".to_owned(),
        metrics,
        latencies: latencies(&load.recorder),
        errors: errors(&load.recorder),
        interrupted: load.interrupted,
        marks: load.failure.iter().map(|failure| format!("it failed: {failure}")).collect(),
    }
}

/// Sizes at the end of a step, of the server's saying and of the file system's.
pub fn add_sizes(metrics: &mut BTreeMap<String, f64>, sizes: Sizes, disk: Option<DiskUse>) {
    let said = [
        ("documents", sizes.documents),
        ("data_bytes", sizes.data_bytes),
        ("storage_bytes", sizes.storage_bytes),
        ("index_bytes", sizes.index_bytes),
        ("log_bytes", sizes.log_bytes),
        ("engine_bytes", sizes.engine_bytes),
        ("engine_free_bytes", sizes.engine_free_bytes),
        ("du_bytes", disk.map(|disk| disk.actual_bytes as f64)),
        ("apparent_bytes", disk.map(|disk| disk.apparent_bytes as f64)),
    ];
    metrics.extend(said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
}

/// The formulas of spec/workloads.md 1.1.
fn usage_metrics(usage: &Usage, units: f64) -> BTreeMap<String, f64> {
    let rate = units / usage.seconds.max(1e-9);
    let device = usage.device;
    let host_s = (usage.user_percent + usage.system_percent) / 100.0 * usage.seconds * usage.processors as f64;
    let metrics = [
        ("seconds", Some(usage.seconds)),
        ("units", Some(units)),
        ("cpu_percent", Some(usage.user_percent + usage.system_percent)),
        ("cpu_per_unit", Some((usage.user_percent + usage.system_percent) / rate * 1e6)),
        // the text's number is of the whole host, whatever processors it has; this is not
        ("cpu_us_per_unit", Some(host_s * 1e6 / units)),
        ("context_switches_per_unit", Some(usage.context_switches / units)),
        ("client_cpu_us_per_unit", Some(usage.client_cpu_s * 1e6 / units)),
        ("server_cpu_us_per_unit", usage.server_cpu_s.map(|cpu| cpu * 1e6 / units)),
        ("reads_per_unit", device.map(|device| device.reads as f64 / units)),
        ("read_kb_per_unit", device.map(|device| device.read_bytes as f64 / KILOBYTE / units)),
        ("writes_per_unit", device.map(|device| device.writes as f64 / units)),
        ("write_kb_per_unit", device.map(|device| device.write_bytes as f64 / KILOBYTE / units)),
        ("server_read_kb_per_unit", usage.server_device.map(|bytes| bytes.read as f64 / KILOBYTE / units)),
        ("server_write_kb_per_unit", usage.server_device.map(|bytes| bytes.written as f64 / KILOBYTE / units)),
        ("rss_bytes", usage.resident_bytes.map(|bytes| bytes as f64)),
    ];
    // Of nothing done there is nothing per unit.
    let known = metrics.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.filter(|(_, value)| value.is_finite()).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn latencies(recorder: &Recorder) -> Vec<LatencyRow> {
    let mut rows = Vec::new();
    for (kind, latencies) in recorder.kinds() {
        rows.push(latency_row(kind.name(), Clock::Service, &latencies.service));
        rows.extend(latencies.response.iter().map(|response| latency_row(kind.name(), Clock::Response, response)));
    }
    rows
}

fn latency_row(kind: &str, clock: Clock, histogram: &Histogram<u64>) -> LatencyRow {
    let [mean, p50, p90, p95, p99, p999, max] = Latencies::summary(histogram).map(|(_, value)| value);
    LatencyRow { kind: kind.to_owned(), clock, count: histogram.len(), mean, p50, p90, p95, p99, p999, max }
}

fn errors(recorder: &Recorder) -> Vec<ErrorCount> {
    let count =
        |(code, count, first): (&str, u64, &str)| ErrorCount { code: code.to_owned(), count, first: first.to_owned() };
    recorder.errors().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::DeviceCounters;
    use crate::workload::Kind;

    fn step(recorder: Recorder, usage: Usage, rates: Vec<(f64, f64)>) -> Step {
        Step {
            clients: 2,
            begin_s: 5.0,
            end_s: 15.0,
            unit: Kind::POINT_QUERY,
            recorder,
            usage,
            rates,
            ..crate::run::step::empty()
        }
    }

    #[test]
    fn metrics_are_those_of_the_founding_texts() {
        let mut recorder = Recorder::default();
        (0..1000).for_each(|_| recorder.record(Kind::POINT_QUERY, 50_000, None));
        let device = DeviceCounters { reads: 2000, read_bytes: 4096 * 1000, writes: 10, write_bytes: 1024 * 500 };
        let usage = Usage {
            seconds: 10.0,
            user_percent: 30.0,
            system_percent: 10.0,
            context_switches: 4000.0,
            device: Some(device),
            server_cpu_s: Some(0.5),
            client_cpu_s: 0.1,
            processors: 4,
            ..Usage::default()
        };
        let record = step_record("c2", 1, BTreeMap::new(), &step(recorder, usage, Vec::new()));
        for (name, expect) in [
            ("per_second", 100.0),
            ("cpu_per_unit", 400_000.0),
            ("cpu_us_per_unit", 16_000.0),
            ("context_switches_per_unit", 4.0),
            ("reads_per_unit", 2.0),
            ("read_kb_per_unit", 4.0),
            ("write_kb_per_unit", 0.5),
            ("server_cpu_us_per_unit", 500.0),
        ] {
            let metric = record.metric(name).unwrap();
            assert!((metric - expect).abs() < 1e-6 * expect, "{name}: {metric}");
        }
        assert_eq!(record.metric("server_read_kb_per_unit"), None);
        assert_eq!(record.latency("point_query", Clock::Service).unwrap().count, 1000);
    }

    #[test]
    fn a_step_without_a_unit_has_no_metrics_per_unit() {
        let usage = Usage { seconds: 1.0, user_percent: 1.0, ..Usage::default() };
        let record = step_record("c2", 1, BTreeMap::new(), &step(Recorder::default(), usage, Vec::new()));
        assert_eq!((record.metric("per_second"), record.metric("cpu_per_unit")), (Some(0.0), None));
    }

    #[test]
    fn points_that_do_not_count_say_why() {
        let usage = Usage { seconds: 1.0, client_cpu_s: 0.9 * processors() as f64, ..Usage::default() };
        let rates = (1..=20).map(|n| (5.0 + f64::from(n) * 0.5, f64::from(n) * 10.0)).collect();
        let record = step_record("c2", 1, BTreeMap::new(), &step(Recorder::default(), usage, rates));
        assert!(
            record.marks[0].contains("generator used 90 %") && record.marks[1].contains("not steady"),
            "{record:?}"
        );
        // Rates of 10 to 200: the first five are below half of the median, 110.
        assert!((record.metric("stalled_s").unwrap() - 2.5).abs() < 1e-9, "{record:?}");
    }
}
