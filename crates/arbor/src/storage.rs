//! Log, engine, transactions and store, opened in that order and closed together.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_disk::{Disk, RealDisk};
use arbor_log::{Log, LogOptions};
use arbor_store::{Store, StoreOptions};
use arbor_txn::fetch::SyncMarker;
use arbor_txn::{Opening, Retention, ScratchDirectory, Space, Transactions};

use crate::directory::Directory;
use crate::engines::Engines;
use crate::failure::{BAD_OPTIONS, Failure};

pub(crate) struct Storage {
    pub transactions: Arc<Transactions>,
    pub store: Arc<Store>,
    pub recovery: Recovery,
    // The lock is dropped last (field order matters).
    _directory: Directory,
}

/// Work done by recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// Position of the engine's checkpoint, and the end of the log.
    pub applied: Position,
    pub end: Position,
    pub took: Duration,
}

pub(crate) struct Pace {
    pub commit_interval: Duration,
    pub log_compression: bool,
    pub checkpoint_interval: Duration,
    /// Default cache size of a server with this memory.
    pub cache_bytes: u64,
    /// For a member of a replica set.
    pub history: Option<Retention>,
}

/// The meaning of the directory's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All there is of the data.
    Own,
    /// Not initiated: a directory without data may become a member of a set of others, and writes nothing before.
    OwnUnlessEmpty,
    /// A copy that a set of several members has.
    OfSeveral,
}

impl Storage {
    /// Opens everything in the directory; replays the log after the engine's position.
    pub(crate) fn open(directory: Directory, engines: &Engines, pace: &Pace, part: Part) -> Result<Storage, Failure> {
        let begun = Instant::now();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let sizes = Sizes::of(&directory.path);
        let space = Arc::new(Space::open(disk.clone(), &directory.path, sizes.reserve_bytes));
        let options = LogOptions {
            commit_interval: pace.commit_interval,
            segment_bytes: sizes.segment_bytes,
            ..LogOptions::default()
        };
        let log = Log::open(disk.clone(), &directory.log(), options).map_err(Failure::cannot_start)?;
        let trees = engines.tree_defaults().map_err(refused)?;
        let engine = engines.open(&directory.path).map_err(refused)?;
        let (applied, end) = (engine.applied(), log.appended());
        let options = arbor_txn::Options {
            checkpoint_interval: pace.checkpoint_interval,
            compress_records: pace.log_compression,
            history: pace.history,
            transaction_bytes_max: transaction_bytes_max(pace.cache_bytes),
            write_set_memory_max: write_set_memory_max(),
            scratch: Some(ScratchDirectory { disk: disk.clone(), directory: directory.scratch() }),
            checkpoint_log_bytes: sizes.checkpoint_log_bytes,
            space: Some(space),
            sync_marker: Some(SyncMarker::new(disk.clone(), &directory.path)),
            updates: Some(Arc::new(arbor_store::UpdateMessages)),
            ..arbor_txn::Options::default()
        };
        let empty = end < log.first() && engine.applied_in_part() == Position::ZERO;
        let opening = match part {
            Part::OfSeveral => Opening::Follower,
            Part::OwnUnlessEmpty if empty => Opening::Follower,
            Part::Own | Part::OwnUnlessEmpty => Opening::Own,
        };
        let transactions = Transactions::open_as(opening, log, engine, options).map_err(Failure::cannot_start)?;
        let options = StoreOptions { scratch: directory.scratch(), trees, ..StoreOptions::default() };
        let store = Store::open(transactions.clone(), options).map_err(Failure::cannot_start)?;
        let store = Arc::new(store);
        store.keep_in_step();
        let recovery = Recovery { applied, end, took: begun.elapsed() };
        Ok(Storage { transactions, store, recovery, _directory: directory })
    }

    /// A last checkpoint, then the end of the log.
    pub(crate) fn close(self) -> Result<(), Failure> {
        self.transactions.close().map_err(Failure::cannot_start)
    }
}

/// Sizes that depend on the device: on a small one the log must not take the space of the data.
struct Sizes {
    segment_bytes: u64,
    checkpoint_log_bytes: u64,
    reserve_bytes: u64,
}

impl Sizes {
    fn of(path: &Path) -> Sizes {
        let total = rustix::fs::statvfs(path).map_or(u64::MAX, |space| space.f_blocks.saturating_mul(space.f_frsize));
        Sizes {
            segment_bytes: (total / 64).clamp(1 << 20, 64 << 20),
            checkpoint_log_bytes: (total / 16).clamp(4 << 20, 256 << 20),
            // A checkpoint writes at most about what was logged since the last one, which is little when space ends.
            reserve_bytes: (total / 16).clamp(4 << 20, 64 << 20),
        }
    }
}

/// Returns the memory that one transaction may hold before its values are written to a file: a sixth of the memory limit, which
/// at 256 MB is the need of a statement's own transaction of 32 MB.
fn write_set_memory_max() -> usize {
    const MOST: usize = 64 << 20;
    let limit = arbor_base::memory::process().limit().and_then(|limit| usize::try_from(limit / 6).ok());
    limit.map_or(MOST, |limit| limit.min(MOST))
}

/// Half of the usual cache: a large transaction is in memory for the time of its commit.
fn transaction_bytes_max(cache_bytes: u64) -> usize {
    (cache_bytes / 2).clamp(256 << 20, 1 << 30) as usize
}

/// Why the engine does not open: the user's options, or what it found.
fn refused(error: arbor_engine::Error) -> Failure {
    match error {
        arbor_engine::Error::InvalidOption { .. } => Failure::new(BAD_OPTIONS, error.to_string()),
        error => Failure::cannot_start(error),
    }
}
