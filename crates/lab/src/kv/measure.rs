//! What one phase cost.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

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
    pub fn new(begun: Instant) -> Tally {
        // up to an hour in nanoseconds, three digits
        let calls = Histogram::new_with_max(3_600_000_000_000, 3).expect("the bounds are in order");
        Tally { operations: 0, calls, begun, per_second: Vec::new() }
    }

    /// Runs one call, which answers how many operations it was.
    pub fn call(&mut self, call: impl FnOnce() -> arbor_engine::Result<u64>) -> Result<()> {
        let begin = Instant::now();
        let operations = call().map_err(|error| Error::Engine(error.to_string()))?;
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

    pub fn add(&mut self, other: Tally) {
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
    pub fn start() -> Result<Clock> {
        Ok(Clock { begun: Instant::now(), cpu_s: observe::own_cpu_seconds()?, device: DeviceBytes::of_this_process()? })
    }

    pub fn stop(self, tally: Tally, disk_bytes: u64) -> Result<Measured> {
        let device = DeviceBytes::of_this_process()?;
        Ok(Measured {
            elapsed: self.begun.elapsed(),
            cpu_s: observe::own_cpu_seconds()? - self.cpu_s,
            read_bytes: device.read - self.device.read,
            written_bytes: device.written - self.device.written,
            disk_bytes,
            tally,
        })
    }
}

pub struct Measured {
    elapsed: Duration,
    cpu_s: f64,
    read_bytes: u64,
    written_bytes: u64,
    disk_bytes: u64,
    tally: Tally,
}

impl Measured {
    pub const COLUMNS: [&'static str; 11] = [
        "ops/s",
        "slowest s",
        "cpu us/op",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max ms",
        "read B/op",
        "write B/op",
        "disk MB",
        "seconds",
    ];

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.tally.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// The slowest whole second as a part of the mean; `None` below three whole seconds.
    fn slowest_second(&self) -> Option<f64> {
        let whole = self.tally.per_second.get(..self.elapsed.as_secs() as usize)?;
        let slowest = *whole.iter().min().filter(|_| whole.len() >= 3)?;
        Some(slowest as f64 / self.rate())
    }

    pub fn cells(&self) -> Vec<String> {
        let per_operation = |total: f64| total / self.tally.operations.max(1) as f64;
        let call_us = |quantile| self.tally.calls.value_at_quantile(quantile) as f64 / 1e3;
        vec![
            format!("{:.0}", self.rate()),
            self.slowest_second().map_or_else(|| "-".to_owned(), |part| format!("{part:.2}")),
            format!("{:.2}", per_operation(self.cpu_s * 1e6)),
            format!("{:.1}", call_us(0.5)),
            format!("{:.1}", call_us(0.99)),
            format!("{:.1}", call_us(0.999)),
            format!("{:.1}", self.tally.calls.max() as f64 / 1e6),
            format!("{:.0}", per_operation(self.read_bytes as f64)),
            format!("{:.0}", per_operation(self.written_bytes as f64)),
            format!("{:.0}", self.disk_bytes as f64 / 1e6),
            format!("{:.1}", self.elapsed.as_secs_f64()),
        ]
    }
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
        tally.per_second = vec![20, 10, 10, 0];
        let elapsed = Duration::from_secs(3);
        let measured = Measured { elapsed, cpu_s: 4e-5, read_bytes: 0, written_bytes: 80, disk_bytes: 0, tally };
        assert_eq!(measured.rate().round(), 13.0);
        assert_eq!(measured.slowest_second(), Some(0.75));
        let cells = measured.cells();
        assert_eq!((cells[0].as_str(), cells[2].as_str(), cells[8].as_str()), ("13", "1.00", "2"));
    }
}
