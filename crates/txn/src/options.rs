//! Options of the commit path.

use std::sync::Arc;
use std::time::Duration;

use arbor_engine::UpdateFunction;

use crate::fetch::SyncMarker;
use crate::{ScratchDirectory, Space, SystemClock};

/// Retention of the log for the readers of its history, in whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Records older than the newest `bytes` bytes may be removed...
    pub bytes: u64,
    /// ...unless it is younger than this.
    pub time: Duration,
}

/// The part that a member takes when it opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// Its log is all there is: everything in it counts.
    #[default]
    Own,
    /// It belongs to a set of several: what its log has beyond the engine's state may not be what the set has.
    Follower,
}

#[derive(Clone)]
pub struct Options {
    /// A checkpoint starts at the latest after this time with new commits...
    pub checkpoint_interval: Duration,
    /// ...or after this many bytes of records, uncompressed.
    pub checkpoint_log_bytes: u64,
    /// Records of one group are appended and applied together; a group ends once it holds this many bytes.
    pub group_bytes_max: usize,
    /// A transaction with a larger write set is split across several records of the log, which are not compressed. At most
    /// half of what a record of the log may have.
    pub record_bytes_max: usize,
    /// Records that are long and repeat themselves are compressed in the log.
    pub compress_records: bool,
    /// A transaction with a larger write set is refused at commit.
    pub transaction_bytes_max: usize,
    /// Values of one transaction beyond this many bytes go to a file in `scratch`, when it is set.
    pub write_set_memory_max: usize,
    pub scratch: Option<ScratchDirectory>,
    /// Maximum number of keys, committed while transactions are open, that are remembered for them. Transactions that have
    /// been open for longer compare the rows instead.
    pub conflict_keys_max: usize,
    /// Conflicts that `retry` tolerates before it keeps other committers out for one attempt.
    pub retries_before_exclusive: u32,
    /// Watched: when it is low, writes that need space are refused before they reach the log.
    pub space: Option<Arc<Space>>,
    /// Changes are noted for the readers of the history, and the log is kept for them.
    pub history: Option<Retention>,
    /// Maximum age of past states that can be read, when the history is kept.
    pub history_window: Duration,
    /// Timeout of a committer that waits because too much is in flight to other members of a set.
    pub in_flight_wait: Duration,
    /// Checkpoints are made by a thread. Without it only where they are asked for.
    pub checkpoint_thread: bool,
    /// Replaces the operating system's clock, from which commits are stamped.
    pub clock: Option<SystemClock>,
    /// Place of the mark of an initial sync. Without it this member takes none.
    pub sync_marker: Option<SyncMarker>,
    /// Meaning of update messages: the function that the engine has.
    pub updates: Option<Arc<dyn UpdateFunction>>,
    /// Timeout of a committer that waits for an engine without space for a batch that the log already holds.
    pub apply_wait: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            checkpoint_interval: Duration::from_secs(60),
            checkpoint_log_bytes: 256 << 20,
            group_bytes_max: 8 << 20,
            // a group of statements, 8 MiB and its last document, is one record
            record_bytes_max: 9 << 20,
            compress_records: true,
            transaction_bytes_max: 256 << 20,
            write_set_memory_max: 64 << 20,
            scratch: None,
            conflict_keys_max: 1 << 18,
            retries_before_exclusive: 12,
            space: None,
            history: None,
            history_window: Duration::from_secs(300),
            in_flight_wait: Duration::from_secs(10),
            checkpoint_thread: true,
            clock: None,
            sync_marker: None,
            updates: None,
            apply_wait: Duration::from_secs(10),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("checkpoint_interval", &self.checkpoint_interval)
            .field("checkpoint_log_bytes", &self.checkpoint_log_bytes)
            .field("group_bytes_max", &self.group_bytes_max)
            .finish_non_exhaustive()
    }
}
