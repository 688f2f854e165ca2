//! A data directory made of the state of a server in this process, for `$backupCursor`, and the log behind it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbor_disk::RealDisk;
use arbor_log::{Log, LogOptions};
use arbor_txn::fetch::{Begun, Peer};

use crate::directory::Directory;
use crate::engines::{Engines, NAMES};
use crate::storage::{Pace, Part, Storage};

/// Cache of each engine: the rows are loaded in order, once.
const CACHE_BYTES: u64 = 32 << 20;

/// Fills an empty directory. Errors: the reason; the caller removes what is there.
pub(crate) fn make(peer: &dyn Peer, state: &Begun, home: &str, dbpath: &Path) -> Result<(), String> {
    let home = NAMES.iter().find(|name| **name == home).ok_or_else(|| format!("there is no engine {home}"))?;
    let pace = Pace {
        commit_interval: Duration::from_millis(100),
        log_compression: true,
        checkpoint_interval: Duration::from_secs(60),
        cache_bytes: CACHE_BYTES,
        history: None,
    };
    let shown = |failure: crate::failure::Failure| failure.to_string();
    let directory = Directory::open(dbpath, home).map_err(shown)?;
    let engines = Engines::with_cache(home, CACHE_BYTES);
    let storage = Storage::open(directory, &engines, &pace, Part::OfSeveral).map_err(shown)?;
    let filled = fill(&storage, peer, state);
    let closed = storage.close().map_err(shown);
    filled.and(closed)
}

fn fill(storage: &Storage, peer: &dyn Peer, state: &Begun) -> Result<(), String> {
    for facts in &state.trees {
        // engines join before they are to have trees
        storage.transactions.engine().check_options(&facts.options).map_err(|error| error.to_string())?;
    }
    storage.transactions.sync_from(peer, &()).map(drop).map_err(|error| error.to_string())
}

/// Appends records to the log of the directory, which is opened by nothing else. The next start applies them.
pub(crate) fn append(dbpath: &Path, epoch: u64, payloads: &[&[u8]]) -> Result<(), String> {
    let log = Log::open(Arc::new(RealDisk), &dbpath.join("log"), LogOptions::default());
    let log = log.map_err(|error| error.to_string())?;
    let appended = log.begin_epoch(epoch).and_then(|()| log.append(payloads)).and_then(|last| log.wait_durable(last));
    let closed = log.close();
    appended.and(closed).map_err(|error| error.to_string())
}
