//! One line on stderr while a run goes on.

use std::io::{IsTerminal, Write};

use crate::results::{Event, EventKind};
use crate::run::{Interval, Watch};

/// Rewrites its line on a terminal; elsewhere a line every ten intervals.
#[derive(Debug)]
pub struct Progress {
    experiment: String,
    terminal: bool,
    intervals: u64,
}

/// Without a terminal, one line out of so many.
const SPARSE: u64 = 10;

impl Progress {
    pub fn new(experiment: &str) -> Progress {
        Progress { experiment: experiment.to_owned(), terminal: std::io::stderr().is_terminal(), intervals: 0 }
    }

    /// Leaves a clean line for what follows.
    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Watch for Progress {
    fn interval(&mut self, interval: &Interval) {
        self.intervals += 1;
        let line = format!("{} {}", self.experiment, line(interval));
        let mut stderr = std::io::stderr().lock();
        // A progress line that cannot be written is no reason to stop measuring.
        let _ = if self.terminal {
            write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush())
        } else if self.intervals % SPARSE == 1 {
            writeln!(stderr, "{line}")
        } else {
            Ok(())
        };
    }

    /// What happens beside the intervals stays on the terminal.
    fn event(&mut self, event: &Event) {
        self.clear();
        let what = if event.kind == EventKind::Phase { "" } else { event.kind.name() };
        let gap = if what.is_empty() { "" } else { ": " };
        eprintln!("{} {}: {what}{gap}{}", self.experiment, event.system, event.text);
        if event.kind == EventKind::Phase {
            self.intervals = 0;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(interval: &Interval) -> String {
    let (system, phase) = (&interval.system, interval.phase.name());
    let (unit, seconds) = (interval.unit, interval.usage.seconds.max(1e-9));
    let rate = interval.recorder.count(unit) as f64 / seconds;
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
