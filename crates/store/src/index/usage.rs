//! Usage counters of indexes and of collection scans, since the server started or the index was made or changed.

use std::time::{SystemTime, UNIX_EPOCH};

use arbor_base::ShardedCounter;

/// Shared by all versions of an index.
#[derive(Debug)]
pub struct Usage {
    since_ms: i64,
    count: ShardedCounter,
}

impl Default for Usage {
    fn default() -> Usage {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Usage { since_ms: since.map_or(0, |since| since.as_millis() as i64), count: ShardedCounter::default() }
    }
}

impl Usage {
    pub fn note(&self) {
        self.count.add(1);
    }

    pub fn count(&self) -> u64 {
        self.count.sum()
    }

    /// Milliseconds since 1970.
    pub fn since_ms(&self) -> i64 {
        self.since_ms
    }
}

/// Shared by all versions of a collection.
#[derive(Debug, Default)]
pub struct CollectionUsage {
    /// Usage of the index on `_id`.
    pub id_index: Usage,
    pub scans: Usage,
}
