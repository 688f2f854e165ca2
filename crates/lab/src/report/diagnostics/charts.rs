//! The series as charts over time.

use super::findings::{Finding, Kind};
use super::{BUCKETS, History};
use crate::report::chart::{Axis, Chart, ChartGroup, Mark, Series, Shape};

/// A gap between samples that is longer is not crossed by a line.
pub(super) const GAP_MS: i64 = 10_000;
const MB: f64 = 1_048_576.0;

/// Returns the charts of the page, in its order; those without data are left out.
pub(crate) fn groups(history: &History, findings: &[Finding]) -> Vec<ChartGroup> {
    let time = Time::of(history);
    let draw = Draw { history, time: &time };
    let named = |prefix: &'static str, names: &[&str]| -> Vec<Series> {
        names.iter().filter_map(|name| draw.rate(name, &format!("{prefix}{name}"), 1.0)).collect()
    };
    let operations = named("serverStatus.opcounters.", &["insert", "query", "update", "delete", "getmore", "command"]);
    let latency = ["reads", "writes", "commands", "transactions"].iter().filter_map(|class| {
        let of = |what: &str| format!("serverStatus.opLatencies.{class}.{what}");
        draw.ratio(class, &of("latency"), &of("ops"), 1e-3)
    });
    let processor = [
        ("server, user", "serverStatus.extra_info.user_time_us", 1e-4),
        ("server, system", "serverStatus.extra_info.system_time_us", 1e-4),
        ("machine, waiting for disks", "systemMetrics.cpu.iowait_ms", 0.1),
        ("machine, stolen", "systemMetrics.cpu.steal_ms", 0.1),
    ];
    let rates = |rows: &[(&str, &str, f64)]| -> Vec<Series> {
        rows.iter().filter_map(|(label, name, factor)| draw.rate(label, name, *factor)).collect()
    };
    let gauges = |rows: &[(&str, &str, f64)]| -> Vec<Series> {
        rows.iter().filter_map(|(label, name, factor)| draw.gauge(label, name, *factor)).collect()
    };
    let hits = |what: &str| {
        draw.share(what, &format!("serverStatus.ftree.{what} misses"), &format!("serverStatus.ftree.{what} hits"))
    };
    let lag: Vec<Series> = draw.lag();
    let chart = |id: &str, title: &str, caption: &str, unit: &str, series: Vec<Series>| {
        let mut chart = Chart::new(Shape::Lines, "", Axis::of(time.name()), Axis::of(unit));
        chart.series = series;
        chart.marks = marks(findings, &time);
        ChartGroup::of(id, title, caption, "", vec![chart])
    };
    [
        chart("operations", "Operations", "By kind, as opcounters has them. Marks are findings.", "per second", operations),
        chart("latency", "Latency", "Mean of the operations that ended in the interval.", "milliseconds", latency.collect()),
        chart("processor", "Processor", "Hundred percent are one processor.", "percent", rates(&processor)),
        chart("connections", "Connections", "Highest of the interval.", "connections", gauges(&[
            ("open", "serverStatus.connections.current", 1.0), ("active", "serverStatus.connections.active", 1.0),
        ])),
        chart("lag", "Replication lag", "Time from what the most advanced member has applied to what a member has applied, as this server knows it.", "seconds", lag),
        chart("cache", "Cache misses", "Share of the blocks that were not in the cache of the fractal tree.", "percent", ["leaf block", "body"].iter().filter_map(|what| hits(what)).collect()),
        chart("reads", "Read from files", "By the fractal tree, for what no cache held.", "MB per second", history.between("serverStatus.ftree.bytes read for ", "").collect::<Vec<_>>().iter().filter_map(|what| draw.rate(what, &format!("serverStatus.ftree.bytes read for {what}"), 1.0 / MB)).collect()),
        chart("log", "Log", "Bytes written to the log, and the mean duration of its fsyncs.", "MB per second; milliseconds", [
            draw.rate("written, MB/s", "serverStatus.arborLog.bytes", 1.0 / MB),
            draw.ratio("fsync, ms", "serverStatus.arborLog.fsyncMicros", "serverStatus.arborLog.fsyncs", 1e-3),
        ].into_iter().flatten().collect()),
        chart("pacing", "Writers held up", "Time for which writers slept, because flushes were behind; several writers sleep at a time.", "seconds per second", rates(&[("sleeping", "serverStatus.ftree.pacing sleep us", 1e-6)])),
        chart("memory", "Memory", "Resident memory, cache of the engines, and memory that the machine could still give.", "MB", gauges(&[
            ("resident", "serverStatus.mem.resident", 1.0), ("caches", "serverStatus.engine.cacheBytes", 1.0 / MB), ("available", "systemMetrics.memory.MemAvailable_kb", 1.0 / 1024.0),
        ])),
        chart("disk", "Space", "Files of the engines, what of them is free, and the log.", "MB", gauges(&[
            ("engines", "serverStatus.engine.diskBytes", 1.0 / MB), ("free in them", "serverStatus.engine.freeBytes", 1.0 / MB), ("log", "serverStatus.arborLog.diskBytes", 1.0 / MB),
        ])),
        chart("network", "Network", "From and to clients.", "MB per second", rates(&[
            ("received", "serverStatus.network.bytesIn", 1.0 / MB), ("sent", "serverStatus.network.bytesOut", 1.0 / MB),
        ])),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn marks(findings: &[Finding], time: &Time) -> Vec<Mark> {
    let marked = findings.iter().filter(|finding| finding.kind != Kind::Shape);
    let mark = |finding: &Finding| {
        let (begin, end) = finding.span?;
        let is_moment = end - begin < time.bucket_ms;
        Some(Mark {
            begin: time.x(begin),
            end: (!is_moment).then(|| time.x(end)),
            kind: finding.kind.name(),
            system: finding.kind.name().to_owned(),
            text: finding.text.clone(),
        })
    };
    marked.filter_map(mark).take(50).collect()
}

/// The axis of all charts.
struct Time {
    first_ms: i64,
    bucket_ms: i64,
    unit_ms: f64,
    name: String,
}

impl Time {
    fn of(history: &History) -> Time {
        let first_ms = history.times.first().copied().unwrap_or(0);
        let span = history.times.last().copied().unwrap_or(0) - first_ms;
        let (unit_ms, unit) = match span {
            ms if ms < 600_000 => (1e3, "seconds"),
            ms if ms < 36_000_000 => (60e3, "minutes"),
            ms if ms < 864_000_000 => (3600e3, "hours"),
            _ => (86_400e3, "days"),
        };
        let bucket_ms = (span / BUCKETS as i64 + 1).max(1000);
        Time { first_ms, bucket_ms, unit_ms, name: format!("{unit} since {}", super::findings::clock(first_ms)) }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn x(&self, ms: i64) -> f64 {
        (ms - self.first_ms) as f64 / self.unit_ms
    }

    fn bucket(&self, ms: i64) -> usize {
        usize::try_from((ms - self.first_ms) / self.bucket_ms).unwrap_or(0)
    }
}

struct Draw<'h> {
    history: &'h History,
    time: &'h Time,
}

impl Draw<'_> {
    /// Steps of counters, sample by sample: time, seconds that passed, differences. Restarts and gaps are left out.
    fn steps<const N: usize>(&self, names: [&str; N]) -> Vec<(i64, f64, [f64; N])> {
        let series = names.map(|name| self.history.series(name));
        let mut steps = Vec::new();
        for (at, pair) in self.history.times.windows(2).enumerate() {
            let &[before, now] = pair else { continue };
            let difference = |series: &[f64]| Some(series.get(at + 1)? - series.get(at)?);
            let differences = series.map(|series| difference(series).unwrap_or(f64::NAN));
            if (1..=GAP_MS).contains(&(now - before)) && differences.iter().all(|difference| *difference >= 0.0) {
                steps.push((now, (now - before) as f64 / 1e3, differences));
            }
        }
        steps
    }

    fn counted<const N: usize>(
        &self,
        label: &str,
        names: [&str; N],
        value: impl Fn(f64, [f64; N]) -> Option<f64>,
    ) -> Option<Series> {
        let mut sums = vec![(0.0, [0.0; N]); BUCKETS + 2];
        for (time, seconds, differences) in self.steps(names) {
            let Some((all, sum)) = sums.get_mut(self.time.bucket(time)) else { continue };
            *all += seconds;
            sum.iter_mut().zip(differences).for_each(|(sum, difference)| *sum += difference);
        }
        let values = sums.into_iter().map(|(seconds, sum)| if seconds > 0.0 { value(seconds, sum) } else { None });
        self.line(label, values)
    }

    /// A counter per second.
    fn rate(&self, label: &str, name: &str, factor: f64) -> Option<Series> {
        self.counted(label, [name], |seconds, [sum]| Some(sum * factor / seconds))
    }

    /// One counter by another.
    fn ratio(&self, label: &str, name: &str, by: &str, factor: f64) -> Option<Series> {
        self.counted(label, [name, by], |_, [sum, by]| (by > 0.0).then(|| sum * factor / by))
    }

    /// The share of one counter in the sum of two, in percent.
    fn share(&self, label: &str, name: &str, other: &str) -> Option<Series> {
        self.counted(label, [name, other], |_, [sum, other]| (sum + other > 0.0).then(|| 100.0 * sum / (sum + other)))
    }

    /// The highest value of each interval.
    fn gauge(&self, label: &str, name: &str, factor: f64) -> Option<Series> {
        let series = self.history.series(name);
        self.highest(label, self.history.times.iter().copied().zip(series.iter().map(|value| value * factor)))
    }

    fn highest(&self, label: &str, values: impl Iterator<Item = (i64, f64)>) -> Option<Series> {
        let mut highest = vec![None::<f64>; BUCKETS + 2];
        for (time, value) in values.filter(|(_, value)| !value.is_nan()) {
            if let Some(slot) = highest.get_mut(self.time.bucket(time)) {
                *slot = Some(slot.map_or(value, |known| known.max(value)));
            }
        }
        self.line(label, highest.into_iter())
    }

    fn lag(&self) -> Vec<Series> {
        let lag = |at: &usize| {
            let name = self.history.members.get(at)?;
            self.highest(name, self.history.times.iter().copied().zip(self.history.lag(*at)))
        };
        if self.history.members.len() < 2 { Vec::new() } else { self.history.members.keys().filter_map(lag).collect() }
    }

    /// A line without points where there is nothing, so that it is interrupted there.
    fn line(&self, label: &str, values: impl Iterator<Item = Option<f64>>) -> Option<Series> {
        let last = self.time.bucket(self.history.times.last().copied().unwrap_or(0));
        let point = |(n, value): (usize, Option<f64>)| {
            vec![Some((n as i64 * self.time.bucket_ms) as f64 / self.time.unit_ms), value]
        };
        let points: Vec<Vec<Option<f64>>> = values.take(last + 1).enumerate().map(point).collect();
        let has_any = points.iter().any(|point| point.last().is_some_and(Option::is_some));
        has_any.then(|| Series { points, ..Series::of(label, []) })
    }
}
