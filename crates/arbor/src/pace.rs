//! The speed of copies that are bounded.

use std::time::{Duration, Instant};

/// The speed of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    /// That which others leave of the processors, and a small share when they leave nothing.
    Idle,
    Full,
    /// Bytes per second at most.
    Limit(u64),
}

impl Speed {
    /// 0: full speed.
    pub(crate) fn of_megabytes(megabytes: u64) -> Speed {
        if megabytes == 0 { Speed::Full } else { Speed::Limit(megabytes.saturating_mul(1 << 20)) }
    }

    /// The speed of a log that is followed: its writers are not waited for, since what falls behind them does not end.
    pub(crate) fn of_log(self) -> Speed {
        if self == Speed::Idle { Speed::Full } else { self }
    }

    pub(crate) fn limit(self) -> Option<u64> {
        match self {
            Speed::Idle | Speed::Full => None,
            Speed::Limit(bytes) => Some(bytes),
        }
    }
}

/// Counts bytes, and sleeps when they come faster than a limit.
pub(crate) struct Pace {
    /// Bytes per second.
    limit: Option<u64>,
    begun: Instant,
    pub bytes: u64,
}

impl Pace {
    pub(crate) fn new(limit: Option<u64>) -> Pace {
        Pace { limit, begun: Instant::now(), bytes: 0 }
    }

    /// Takes note of bytes that were copied.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(limit) = self.limit {
            let due = Duration::from_secs_f64(self.bytes as f64 / limit as f64);
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }

    /// Bytes per second.
    pub(crate) fn speed(&self) -> f64 {
        self.bytes as f64 / self.begun.elapsed().as_secs_f64().max(0.001)
    }
}
