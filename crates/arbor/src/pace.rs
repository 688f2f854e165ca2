//! The speed of copies that are bounded.

use std::time::{Duration, Instant};

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
