//! One line on stderr during a run: how much of it is done, how long the rest takes, what it does.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::live::Estimate;
use crate::results::{Event, EventKind, StepRecord};
use crate::run::{Interval, Watch};

/// Rewrites its line on a terminal; elsewhere a line every ten intervals.
#[derive(Debug)]
pub struct Progress {
    experiment: String,
    estimate: Estimate,
    terminal: bool,
    intervals: u64,
}

/// Without a terminal, one line in this many is printed.
const SPARSE: u64 = 10;

impl Progress {
    pub fn new(experiment: &str, estimate: Estimate) -> Progress {
        let (experiment, terminal) = (experiment.to_owned(), std::io::stderr().is_terminal());
        Progress { experiment, estimate, terminal, intervals: 0 }
    }

    /// Leaves a clean line for what follows.
    fn clear(&self) {
        if self.terminal {
            say("\r\x1b[K");
        }
    }
}

impl Watch for Progress {
    fn planned(&mut self, steps: Duration) {
        self.estimate.planned(steps);
    }

    fn interval(&mut self, interval: &Interval) {
        self.intervals += 1;
        self.estimate.interval(interval);
        let line = format!("{} {} {}", self.experiment, self.estimate.bar(), line(interval));
        let mut stderr = std::io::stderr().lock();
        // A progress line that cannot be written is no reason to stop measuring. A longer one than the terminal is wide is
        // cut by it, not wrapped.
        let _ = if self.terminal {
            write!(stderr, "\r\x1b[K\x1b[?7l{line}\x1b[?7h").and_then(|()| stderr.flush())
        } else if self.intervals % SPARSE == 1 {
            writeln!(stderr, "{line}")
        } else {
            Ok(())
        };
    }

    /// Prints an event; unlike the intervals it stays on the terminal.
    fn event(&mut self, event: &Event) {
        self.estimate.event(event);
        self.clear();
        let what = if event.kind == EventKind::Phase { "" } else { event.kind.name() };
        let gap = if what.is_empty() { "" } else { ": " };
        say(&format!("{} {}: {what}{gap}{}\n", self.experiment, event.system, event.text));
        if event.kind == EventKind::Phase {
            self.intervals = 0;
        }
    }

    fn step(&mut self, system: &str, step: &StepRecord) {
        self.estimate.step(system, step);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Writes to stderr; a failure to write is no reason to stop measuring.
fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn line(interval: &Interval) -> String {
    let (system, phase) = (&interval.system, interval.phase.name());
    let unit = interval.unit;
    let rate = interval.rate();
    let p99 = interval.recorder.latencies(unit).map_or(0, |latencies| latencies.service.value_at_quantile(0.99));
    let of = if interval.planned.is_zero() { String::new() } else { format!("/{}", interval.planned.as_secs()) };
    let errors = match interval.recorder.error_count() {
        0 => String::new(),
        count => format!(" errors {count}"),
    };
    format!(
        "{system} {phase} {} clients {}{of} s: {rate:.0} {}/s p99 {:.0} us cpu {:.0} %{errors}",
        interval.clients,
        interval.elapsed.as_secs(),
        unit.name(),
        p99 as f64 / 1000.0,
        interval.usage.user_percent + interval.usage.system_percent,
    )
}
