//! Options of a log.

use std::time::Duration;

use arbor_base::Position;

#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A group that begins at or past this offset goes to a new segment file. Groups are never split, so a segment may
    /// be larger by one group.
    pub segment_bytes: u64,
    /// Maximum time that appended records stay without a sync. `Duration::MAX`: until a sync is requested.
    pub commit_interval: Duration,
    /// A thread syncs what was appended. Without it a sync is made where one is waited for, and nowhere else.
    pub background: bool,
    /// Position of the first record when the directory holds no log yet.
    pub first_position: Position,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            commit_interval: Duration::from_millis(100),
            background: true,
            first_position: Position(1),
        }
    }
}
