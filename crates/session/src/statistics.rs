//! Statistics of sessions for `serverStatus`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Statistics {
    pub started: Count,
    pub committed: Count,
    pub aborted: Count,
    /// Commands with at least one statement that had been done before, and those statements.
    pub retried_commands: Count,
    pub retried_statements: Count,
    /// Rows of the journal that were written.
    pub rows_written: Count,
}

/// Numbers of transactions that are open now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenStatistics {
    /// With an operation that runs.
    pub active: u64,
    pub inactive: u64,
}

#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
