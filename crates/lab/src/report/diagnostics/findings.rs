//! Notable events of a history: sentences, each with its time and its likely cause.

use super::charts::GAP_MS;
use super::{History, Shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gap,
    Restart,
    Stall,
    Fsync,
    Pacing,
    Lag,
    Cache,
    Memory,
    Shape,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Gap => "gap",
            Kind::Restart => "restart",
            Kind::Stall => "stall",
            Kind::Fsync => "slow fsync",
            Kind::Pacing => "writers held up",
            Kind::Lag => "lag",
            Kind::Cache => "cache misses",
            Kind::Memory => "memory",
            Kind::Shape => "slow shape",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub kind: Kind,
    pub when: String,
    pub text: String,
    /// Begin and end in milliseconds since 1970.
    pub span: Option<(i64, i64)>,
}

/// A second with less than this share of the usual requests is a stall, if operations were running.
const STALL_SHARE: f64 = 0.1;
/// Requests per second below which nothing is said about stalls.
const BUSY_PER_SECOND: f64 = 20.0;
/// Samples by which the usual is known.
const USUAL_SAMPLES: usize = 60;
const FSYNC_MS: f64 = 50.0;
/// Seconds for which writers slept in a second.
const PACING: f64 = 0.2;
const LAG_SECONDS: f64 = 10.0;
/// Share of misses in a minute, and reads from which it is said.
const MISS_SHARE: f64 = 0.2;
const MISSES_MIN: f64 = 10_000.0;
/// Findings of one kind; of more the longest are shown.
const PER_KIND_MAX: usize = 10;
const SHAPES_MAX: usize = 10;

/// Returns what is notable, in the order of time; shapes come last.
pub(crate) fn findings(history: &History) -> Vec<Finding> {
    let mut all = Vec::new();
    all.extend(limited(interruptions(history)));
    all.extend(limited(stalls(history)));
    all.extend(limited(spans(history, Kind::Fsync, &fsync_ms(history), FSYNC_MS, |worst| {
        format!("fsyncs of the log took up to {worst:.0} ms in the mean of a second: the disk is slow or shared, and `j: true` waits for it")
    })));
    all.extend(limited(spans(history, Kind::Pacing, &per_second(history, "serverStatus.ftree.pacing sleep us", 1e-6), PACING, |worst| {
        format!("writers slept up to {worst:.1} s per second: flushes could not keep up with the writes (disk, processors, or a cache that is too small)")
    })));
    if history.members.len() > 1 {
        for (at, name) in &history.members {
            all.extend(limited(spans(
                history,
                Kind::Lag,
                &history.lag(*at).collect::<Vec<_>>(),
                LAG_SECONDS,
                |worst| format!("{name} was up to {worst:.0} s behind"),
            )));
        }
    }
    all.extend(limited(misses(history)));
    all.extend(limited(refusals(history)));
    all.sort_by_key(|finding| finding.span);
    all.extend(history.shapes().iter().take(SHAPES_MAX).map(slow_shape));
    all
}

/// Returns `2026-11-24 04:30:00`, in UTC.
pub(crate) fn clock(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

impl Finding {
    fn new(kind: Kind, begin: i64, end: i64, text: String) -> Finding {
        let seconds = (end - begin) as f64 / 1e3;
        let when = if seconds < 1.5 { clock(begin) } else { format!("{}, for {seconds:.0} s", clock(begin)) };
        Finding { kind, when, text, span: Some((begin, end)) }
    }
}

/// Keeps the longest, in the order of time.
fn limited(mut findings: Vec<Finding>) -> Vec<Finding> {
    let length = |finding: &Finding| finding.span.map_or(0, |(begin, end)| begin - end);
    findings.sort_by_key(length);
    findings.truncate(PER_KIND_MAX);
    findings
}

/// Returns restarts, and times without samples in the life of one process.
fn interruptions(history: &History) -> Vec<Finding> {
    let uptime = history.series("serverStatus.uptimeMillis");
    let mut findings = Vec::new();
    for (at, pair) in history.times.windows(2).enumerate() {
        let &[before, now] = pair else { continue };
        let uptimes = uptime.get(at).copied().zip(uptime.get(at + 1).copied());
        let seconds = (now - before) as f64 / 1e3;
        match uptimes {
            Some((earlier, later)) if later < earlier => {
                let text = format!("the server was started again; the sample before is {seconds:.0} s older");
                findings.push(Finding::new(Kind::Restart, before, now, text));
            }
            Some(_) if now - before > GAP_MS => {
                let text = format!(
                    "no samples for {seconds:.0} s while the process lived: the machine was suspended or starved, or recording was disabled"
                );
                findings.push(Finding::new(Kind::Gap, before, now, text));
            }
            _ => {}
        }
    }
    findings
}

/// Returns differences of a counter per second, by sample; NaN at restarts and gaps.
fn per_second(history: &History, name: &str, factor: f64) -> Vec<f64> {
    let series = history.series(name);
    let mut rates = vec![f64::NAN; history.len().min(1)];
    for (times, values) in history.times.windows(2).zip(series.windows(2)) {
        let (&[before, now], &[earlier, later]) = (times, values) else { continue };
        let is_step = (1..=GAP_MS).contains(&(now - before)) && later >= earlier;
        rates.push(if is_step { (later - earlier) * factor * 1e3 / (now - before) as f64 } else { f64::NAN });
    }
    rates
}

fn fsync_ms(history: &History) -> Vec<f64> {
    let micros = per_second(history, "serverStatus.arborLog.fsyncMicros", 1e-3);
    let fsyncs = per_second(history, "serverStatus.arborLog.fsyncs", 1.0);
    micros.iter().zip(fsyncs).map(|(ms, count)| if count > 0.0 { ms / count } else { f64::NAN }).collect()
}

/// Returns the times for which a value is above a limit. Two that are a few samples apart are one.
fn spans(history: &History, kind: Kind, values: &[f64], limit: f64, text: impl Fn(f64) -> String) -> Vec<Finding> {
    const APART_MS: i64 = 5000;
    let mut found: Vec<(i64, i64, f64)> = Vec::new();
    for (time, value) in history.times.iter().zip(values).filter(|(_, value)| **value > limit) {
        match found.last_mut() {
            Some((_, end, worst)) if time - *end <= APART_MS => {
                *end = *time;
                *worst = worst.max(*value);
            }
            _ => found.push((*time, *time, *value)),
        }
    }
    found.into_iter().map(|(begin, end, worst)| Finding::new(kind, begin, end, text(worst))).collect()
}

/// Returns the seconds in which hardly anything ended although operations were running, after a busy time.
fn stalls(history: &History) -> Vec<Finding> {
    let requests = per_second(history, "serverStatus.network.numRequests", 1.0);
    let active = history.series("serverStatus.connections.active");
    let mut stalled = vec![f64::NAN; requests.len()];
    let mut usual = std::collections::VecDeque::new();
    for (at, rate) in requests.iter().copied().enumerate().filter(|(_, rate)| !rate.is_nan()) {
        let mut sorted: Vec<f64> = usual.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        let waits = active.get(at).is_some_and(|active| *active > 0.0);
        let stalls = sorted.len() >= 10 && median >= BUSY_PER_SECOND && rate < STALL_SHARE * median && waits;
        if stalls {
            if let Some(slot) = stalled.get_mut(at) {
                *slot = median;
            }
        } else {
            // a stall is not the usual
            usual.push_back(rate);
            if usual.len() > USUAL_SAMPLES {
                usual.pop_front();
            }
        }
    }
    spans(history, Kind::Stall, &stalled, 0.0, |median| {
        format!("hardly any request ended while operations were running; {median:.0} per second were usual")
    })
}

/// Returns the minutes in which many blocks were not in the cache.
fn misses(history: &History) -> Vec<Finding> {
    let misses = per_second(history, "serverStatus.ftree.leaf block misses", 1.0);
    let hits = per_second(history, "serverStatus.ftree.leaf block hits", 1.0);
    let sum = |values: &[f64]| values.iter().filter(|value| !value.is_nan()).sum::<f64>();
    let mut shares = vec![f64::NAN; misses.len()];
    const MINUTE: usize = 60;
    for ((shares, misses), hits) in shares.chunks_mut(MINUTE).zip(misses.chunks(MINUTE)).zip(hits.chunks(MINUTE)) {
        let (misses, hits) = (sum(misses), sum(hits));
        if misses >= MISSES_MIN && misses > MISS_SHARE * (misses + hits) {
            shares.fill(100.0 * misses / (misses + hits));
        }
    }
    spans(history, Kind::Cache, &shares, 0.0, |worst| {
        format!(
            "{worst:.0} % of the blocks were not in the cache: the data that is read does not fit (a larger --cacheSize, or indexes that read less)"
        )
    })
}

fn refusals(history: &History) -> Vec<Finding> {
    let refused = per_second(history, "serverStatus.memoryBudget.refused", 1.0);
    spans(history, Kind::Memory, &refused, 0.0, |worst| {
        format!("requests were refused for lack of memory, up to {worst:.0} per second")
    })
}

fn slow_shape(shape: &Shape) -> Finding {
    let examined = shape.documents_examined.max(shape.keys_examined);
    let wasteful = examined > 100 && examined > 100 * shape.returned.max(1) && shape.plan.contains("COLLSCAN");
    let advice = if wasteful { "; an index for its filter would help" } else { "" };
    let count = shape.count.max(1);
    let text = format!(
        "{}: {} ({}): {} times, {:.0} ms in the mean and {:.0} ms at most, {} documents examined for {} returned{advice}",
        shape.namespace,
        shape.text,
        if shape.plan.is_empty() { "no plan" } else { &shape.plan },
        shape.count,
        shape.micros as f64 / 1e3 / count as f64,
        shape.micros_max as f64 / 1e3,
        shape.documents_examined,
        shape.returned,
    );
    Finding { kind: Kind::Shape, when: "slow shape".to_owned(), text, span: None }
}

impl History {
    /// Returns the seconds by which a member is behind the most advanced one, by sample.
    pub(super) fn lag(&self, member: usize) -> impl Iterator<Item = f64> + '_ {
        let applied = |at: &usize| self.series(&format!("replSetGetStatus.members.{at}.lastAppliedWallTime"));
        let own = applied(&member);
        let all: Vec<&[f64]> = self.members.keys().map(applied).collect();
        own.iter().enumerate().map(move |(n, own)| {
            let newest = all.iter().filter_map(|series| series.get(n)).fold(f64::NAN, |newest, time| newest.max(*time));
            // a member that cannot be reached says 0
            if *own > 0.0 { (newest - own) / 1e3 } else { f64::NAN }
        })
    }
}

#[cfg(test)]
mod tests {
    use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
    use arbor_metrics::flight::{Limits, Recorder};

    const LIMITS: Limits =
        Limits { directory_bytes: 1 << 30, file_bytes: 1 << 20, samples_per_chunk: 50, samples_per_interim: 10 };

    /// A sample of a set of two whose second member stops applying at second 200, with a stall at 100, a slow disk at 150 and a restart
    /// at 300.
    fn sample(second: i64) -> DocBuf {
        let since = if second < 300 { second } else { second - 300 };
        let stalled = (second - 100).clamp(0, 4);
        let requests = if second < 300 { 1000 * (second - stalled) } else { 1000 * since };
        let slow = if since == second { (second - 150).clamp(0, 10) } else { 0 };
        let log = DocBuf::new().with("fsyncs", 10 * since).with("fsyncMicros", 1000 * since + slow * 2_000_000);
        let status = DocBuf::new()
            .with("uptimeMillis", since * 1000)
            .with("network", &DocBuf::new().with("numRequests", requests))
            .with("connections", &DocBuf::new().with("active", 3i32))
            .with("arborLog", &log);
        let member = |name: &str, applied: i64| {
            DocBuf::new().with("name", name).with("lastAppliedWallTime", ValueRef::DateTime(applied * 1000))
        };
        let mut members = ArrayBuf::new();
        members.push(&member("a:1", 1000 + second)).push(&member("b:1", 1000 + second.min(200)));
        let shape = DocBuf::new()
            .with("ns", "t.c")
            .with("shape", "find filter {a: ?}")
            .with("plan", "COLLSCAN")
            .with("count", 1 + since)
            .with("micros", (1 + since) * 250_000)
            .with("microsMax", 400_000i64)
            .with("docsExamined", (1 + since) * 5000)
            .with("returned", 1 + since);
        DocBuf::new()
            .with("start", ValueRef::DateTime(1_795_494_600_000 + second * 1000))
            .with("serverStatus", &status)
            .with("replSetGetStatus", &DocBuf::new().with("members", &members))
            .with("slowShapes", &DocBuf::new().with("0", &shape))
    }

    #[test]
    fn notable_events_are_said() {
        let directory = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::open(directory.path(), DocBuf::new().with("version", "1 <b>"), 0).unwrap();
        for second in 0..400 {
            recorder.add(&sample(second), second, &LIMITS).unwrap();
        }
        recorder.flush(400, &LIMITS).unwrap();
        let out = directory.path().join("page.html");
        let said = crate::report::draw_diagnostics(directory.path(), &out).unwrap().join("\n");
        for expected in [
            "hardly any request ended while operations were running; 1000 per second",
            "fsyncs of the log took up to 200 ms",
            "b:1 was up to 199 s behind",
            "the server was started again",
            "t.c: find filter {a: ?} (COLLSCAN): 400 times, 250 ms in the mean",
            "an index for its filter would help",
        ] {
            assert!(said.contains(expected), "{expected:?} is not in\n{said}");
        }
        assert!(!said.contains("a:1 was") && !said.contains("no samples for"), "{said}");
        let page = std::fs::read_to_string(&out).unwrap();
        assert!(page.contains("1 &lt;b&gt;") && page.contains("<h3>Replication lag<"));
        assert!(!page.contains("<h3>Writers held up<"), "a chart without data is left out");
        let nothing = tempfile::tempdir().unwrap();
        assert!(crate::report::draw_diagnostics(nothing.path(), &out).is_err());
    }
}
