//! Log, engine, transactions and store, opened in that order and closed together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_disk::{Disk, RealDisk};
use arbor_log::{Log, LogOptions};
use arbor_store::{Store, StoreOptions};
use arbor_txn::{Retention, ScratchFolder, Transactions};

use crate::engines::Engines;
use crate::failure::{BAD_OPTIONS, Failure};
use crate::folder::Folder;

pub struct Storage {
    pub transactions: Arc<Transactions>,
    pub store: Arc<Store>,
    pub recovery: Recovery,
    // The lock goes last.
    _folder: Folder,
}

/// What the start had to do.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Where the engine stood, and where the log ends.
    pub applied: Position,
    pub end: Position,
    pub took: Duration,
}

pub struct Pace {
    pub commit_interval: Duration,
    pub checkpoint_interval: Duration,
    /// For a member of a replica set.
    pub history: Option<Retention>,
}

impl Storage {
    /// Opens everything in the folder; replays the log behind the engine.
    pub fn open(folder: Folder, engines: &Engines, pace: &Pace) -> Result<Storage, Failure> {
        let begun = Instant::now();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let options = LogOptions { commit_interval: pace.commit_interval, ..LogOptions::default() };
        let log = Log::open(disk.clone(), &folder.log(), options).map_err(Failure::cannot_start)?;
        let trees = engines.tree_defaults().map_err(refused)?;
        let engine = engines.open(&folder.path).map_err(refused)?;
        let (applied, end) = (engine.applied(), log.appended());
        let path = folder.path.clone();
        let options = arbor_txn::Options {
            checkpoint_interval: pace.checkpoint_interval,
            history: pace.history,
            transaction_bytes_max: transaction_bytes_max(),
            scratch: Some(ScratchFolder { disk: disk.clone(), folder: folder.scratch() }),
            free_space: Some(Arc::new(move || disk.free_bytes(&path).ok())),
            ..arbor_txn::Options::default()
        };
        let transactions = Transactions::open(log, engine, options).map_err(Failure::cannot_start)?;
        let options = StoreOptions { scratch: folder.scratch(), trees, ..StoreOptions::default() };
        let store = Store::open(transactions.clone(), options).map_err(Failure::cannot_start)?;
        let recovery = Recovery { applied, end, took: begun.elapsed() };
        Ok(Storage { transactions, store: Arc::new(store), recovery, _folder: folder })
    }

    /// A last checkpoint, then the end of the log.
    pub fn close(self) -> Result<(), Failure> {
        self.transactions.close().map_err(Failure::cannot_start)
    }
}

/// A quarter of the memory: a large transaction is in it for the time of its commit.
fn transaction_bytes_max() -> usize {
    (arbor_ftree::default_memory_bytes() / 2).clamp(256 << 20, 1 << 30) as usize
}

/// Why the engine does not open: the user's options, or what it found.
fn refused(error: arbor_engine::Error) -> Failure {
    match error {
        arbor_engine::Error::InvalidOption { .. } => Failure::new(BAD_OPTIONS, error.to_string()),
        error => Failure::cannot_start(error),
    }
}
