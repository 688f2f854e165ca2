//! The cost of one phase.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::observe::{self, DeviceBytes};
use crate::{Error, Result};

/// Counted by each thread for itself, then added up.
pub(super) struct Tally {
    operations: u64,
    calls: Histogram<u64>,
    begun: Instant,
    /// Operations that ended in each second of the phase.
    per_second: Vec<u64>,
}

impl Tally {
    pub(super) fn new(begun: Instant) -> Tally {
        // up to an hour in nanoseconds, three digits
        let calls = Histogram::new_with_max(3_600_000_000_000, 3).expect("the bounds are in order");
        Tally { operations: 0, calls, begun, per_second: Vec::new() }
    }

    /// Runs and measures one call, which returns its number of operations.
    pub(super) fn call(&mut self, call: impl FnOnce() -> Result<u64>) -> Result<()> {
        let begin = Instant::now();
        let operations = call()?;
        let end = Instant::now();
        self.calls.saturating_record((end - begin).as_nanos() as u64);
        self.operations += operations;
        let second = (end - self.begun).as_secs() as usize;
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += operations;
        Ok(())
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.operations += other.operations;
        self.calls.add(&other.calls).expect("both have the same bounds");
        self.per_second.resize(self.per_second.len().max(other.per_second.len()), 0);
        for (sum, operations) in self.per_second.iter_mut().zip(other.per_second) {
            *sum += operations;
        }
    }
}

/// Counters of this process at the begin of a phase.
pub(super) struct Clock {
    pub begun: Instant,
    cpu_s: f64,
    device: DeviceBytes,
}

impl Clock {
    pub(super) fn start() -> Result<Clock> {
        observe::forget_peak_memory();
        Ok(Clock { begun: Instant::now(), cpu_s: observe::own_cpu_seconds(), device: DeviceBytes::of_this_process()? })
    }

    pub(super) fn stop(self, tally: Tally, disk_bytes: u64, rows: u64) -> Result<PhaseStatistics> {
        let elapsed = self.begun.elapsed();
        let device = DeviceBytes::of_this_process()?;
        let call_us = |quantile| tally.calls.value_at_quantile(quantile) as f64 / 1e3;
        Ok(PhaseStatistics {
            operations: tally.operations,
            seconds: elapsed.as_secs_f64(),
            mean_us: tally.calls.mean() / 1e3,
            p50_us: call_us(0.5),
            p90_us: call_us(0.9),
            p95_us: call_us(0.95),
            p99_us: call_us(0.99),
            p999_us: call_us(0.999),
            max_ms: tally.calls.max() as f64 / 1e6,
            cpu_s: observe::own_cpu_seconds() - self.cpu_s,
            read_bytes: device.read - self.device.read,
            written_bytes: device.written - self.device.written,
            disk_bytes,
            rows,
            peak_bytes: observe::peak_memory_bytes()?,
            per_second: whole_seconds(tally.per_second, elapsed),
            note: String::new(),
        })
    }
}

/// The last second is not a whole one.
fn whole_seconds(mut per_second: Vec<u64>, elapsed: Duration) -> Vec<u64> {
    per_second.resize(elapsed.as_secs() as usize, 0);
    per_second
}

/// The record of one phase of one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseStatistics {
    pub operations: u64,
    pub seconds: f64,
    /// Mean time of a call, which may be several operations.
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_ms: f64,
    /// CPU time of the whole process with its background threads.
    pub cpu_s: f64,
    /// Device reads and writes that the process caused. A page that is changed twice before it is written counts once.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Disk space of the engine's directory, after the phase.
    pub disk_bytes: u64,
    /// Rows in the engine after the phase.
    pub rows: u64,
    /// Resident memory at most during the phase; mapped files count.
    pub peak_bytes: u64,
    /// Operations of each whole second.
    pub per_second: Vec<u64>,
    pub note: String,
}

/// Shorter phases have no meaningful statistics over seconds.
const SECONDS_MIN: usize = 3;

impl PhaseStatistics {
    pub const COLUMNS: [&'static str; 15] = [
        "ops/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max ms",
        "slowest s",
        "cv",
        "last 5th",
        "cpu us/op",
        "read B/op",
        "write B/op",
        "disk MB",
        "B/row",
        "peak MB",
        "seconds",
    ];

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    pub fn cpu_us(&self) -> f64 {
        self.per_operation(self.cpu_s * 1e6)
    }

    fn per_operation(&self, total: f64) -> f64 {
        total / self.operations.max(1) as f64
    }

    fn mean(seconds: &[u64]) -> f64 {
        seconds.iter().sum::<u64>() as f64 / seconds.len().max(1) as f64
    }

    /// PhaseStatistics over the whole seconds as parts of their mean: the slowest one, the deviation, the last fifth.
    fn steadiness(&self) -> Option<(f64, f64, f64)> {
        let seconds = self.per_second.as_slice();
        let mean = PhaseStatistics::mean(seconds);
        if seconds.len() < SECONDS_MIN || mean == 0.0 {
            return None;
        }
        let slowest = *seconds.iter().min()? as f64;
        let squares = seconds.iter().map(|operations| (*operations as f64 - mean).powi(2)).sum::<f64>();
        let deviation = (squares / seconds.len() as f64).sqrt();
        let last = &seconds[seconds.len() - (seconds.len() / 5).max(1)..];
        Some((slowest / mean, deviation / mean, PhaseStatistics::mean(last) / mean))
    }

    pub fn cells(&self) -> Vec<String> {
        let part = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| format!("{part:.2}"));
        let steady = self.steadiness();
        let per_row = self.disk_bytes.checked_div(self.rows);
        vec![
            format!("{:.0}", self.rate()),
            format!("{:.1}", self.p50_us),
            format!("{:.1}", self.p99_us),
            format!("{:.1}", self.p999_us),
            format!("{:.1}", self.max_ms),
            part(steady.map(|(slowest, _, _)| slowest)),
            part(steady.map(|(_, deviation, _)| deviation)),
            part(steady.map(|(_, _, last)| last)),
            format!("{:.2}", self.cpu_us()),
            format!("{:.0}", self.per_operation(self.read_bytes as f64)),
            format!("{:.0}", self.per_operation(self.written_bytes as f64)),
            format!("{:.0}", self.disk_bytes as f64 / 1e6),
            per_row.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            format!("{:.0}", self.peak_bytes as f64 / 1e6),
            format!("{:.3}", self.seconds),
        ]
    }
}

pub(super) fn engine(error: arbor_engine::Error) -> Error {
    Error::Engine(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_seconds_add_up() {
        let begun = Instant::now();
        let mut tally = Tally::new(begun);
        tally.call(|| Ok(30)).unwrap();
        let mut other = Tally::new(begun);
        other.call(|| Ok(10)).unwrap();
        tally.add(other);
        assert_eq!((tally.operations, tally.per_second.clone()), (40, vec![40]));
        let statistics = PhaseStatistics {
            operations: 40,
            seconds: 4.2,
            cpu_s: 4e-5,
            written_bytes: 80,
            disk_bytes: 800,
            rows: 10,
            per_second: whole_seconds(vec![20, 10, 5, 5, 3], Duration::from_millis(4200)),
            ..PhaseStatistics::default()
        };
        assert_eq!(statistics.per_second.len(), 4);
        let (slowest, deviation, last) = statistics.steadiness().unwrap();
        assert_eq!((slowest, last), (0.5, 0.5));
        assert!((deviation - 0.612).abs() < 0.001, "{deviation}");
        let cells = statistics.cells();
        assert_eq!(cells.len(), PhaseStatistics::COLUMNS.len());
        assert_eq!(
            (cells[0].as_str(), cells[8].as_str(), cells[10].as_str(), cells[12].as_str()),
            ("10", "1.00", "2", "80")
        );
        assert_eq!(PhaseStatistics { per_second: vec![1, 2], ..statistics }.steadiness(), None);
    }
}
