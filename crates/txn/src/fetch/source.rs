//! The side that has the trees.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Position, ThreadThrottle, Throttle, TreeId, thread_time};
use arbor_engine::TreeOptions;
use parking_lot::Mutex;

use super::archive::LogHold;
use super::block::BlockWriter;
use crate::ledger;
use crate::recovery::{last_time_until, trees_in};
use crate::{Error, Follower, ReadView, Result, Transactions, View};

/// Priority of threads that work for backups: a tenth of the processor time of another thread.
pub const BACKGROUND_NICE: i32 = 10;

/// The share of all processors that the blocks of backups take away from clients of this server when no processor is idle.
const BACKUP_FLOOR: f64 = 0.015;
/// And more while this part of them is idle: clients whose every write waits for the disk leave a fifth of them idle, and use all that there is.
pub const BACKUP_IDLE: f64 = 0.4;

/// The throttle of a thread that makes a backup here.
pub fn backup_throttle() -> ThreadThrottle {
    ThreadThrottle::new(BACKUP_FLOOR, BACKUP_IDLE)
}

/// A snapshot that a peer holds for this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Names it in later requests.
    pub snapshot: u64,
    /// It shows all commits up to here; the peer's log continues behind it.
    pub position: Position,
    /// Epoch of the record at that position.
    pub epoch: u64,
    /// Time of the last note up to there.
    pub time: u64,
    pub trees: Vec<TreeFacts>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFacts {
    pub tree: TreeId,
    pub options: TreeOptions,
    /// Estimated number of rows; zero where the engine does not know.
    pub rows: u64,
}

/// The reason why a peer did not serve a request.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no such tree in its state.
    #[error("the peer has no tree {0}")]
    NoTree(TreeId),
    /// It holds the snapshot no longer: begin again.
    #[error("the peer does not hold the snapshot any more")]
    Expired,
    /// It cannot be reached, or refuses.
    #[error("{0}")]
    Failed(String),
}

/// Another member that has the data. Requests may be repeated.
pub trait Peer: Send + Sync {
    /// Has it hold its present state, and the log behind it.
    fn begin(&self) -> Result<Begun, PeerError>;

    /// The rows of a tree behind the key, in a [block](super::block). `None`: from the first one on.
    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<Vec<u8>, PeerError>;

    /// It need not hold the snapshot any more.
    fn end(&self, snapshot: u64);
}

struct PeerSnapshot {
    view: Arc<ReadView>,
    /// Keeps the log behind the snapshot.
    _log: Follower,
    used: Instant,
}

/// Serves the trees of this member to others, and to backups. Also the peer of a test, or of a member in the same process.
pub struct Source {
    transactions: Arc<Transactions>,
    held: Mutex<HashMap<u64, PeerSnapshot>>,
    logs: Mutex<HashMap<u64, LogHold>>,
    next: AtomicU64,
    /// One for all backups together.
    throttle: Mutex<Throttle>,
}

impl Source {
    pub fn new(transactions: Arc<Transactions>) -> Source {
        // Numbers differ from those before a restart: what is asked for in the name of an old snapshot is refused.
        let first =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |now| now.as_micros() as u64);
        let throttle = Mutex::new(Throttle::new(BACKUP_FLOOR, BACKUP_IDLE));
        Source { transactions, held: Mutex::default(), logs: Mutex::default(), next: AtomicU64::new(first), throttle }
    }

    /// Releases snapshots, and what is held of the log, without requests for that long. They cost space in the engine and keep the log.
    pub fn expire(&self, idle: Duration) {
        self.held.lock().retain(|_, held| held.used.elapsed() < idle);
        self.logs.lock().retain(|_, held| held.is_used(idle));
    }

    pub(super) fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    pub(super) fn take_log(&self, hold: u64) -> Option<LogHold> {
        self.logs.lock().remove(&hold)
    }

    /// Returns the number of the hold; a new one if it has none.
    pub(super) fn hold_log(&self, hold: Option<u64>, held: LogHold) -> u64 {
        let hold = hold.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        self.logs.lock().insert(hold, held);
        hold
    }

    /// Number of snapshots that are held.
    pub fn held(&self) -> usize {
        self.held.lock().len()
    }

    fn begin_here(&self) -> Result<Begun> {
        if self.transactions.is_syncing() {
            return Err(Error::NotSynced { reason: "this member copies the data of another one itself".into() });
        }
        let (view, log) = self.transactions.follow()?;
        let engine = self.transactions.engine();
        let mut trees = Vec::new();
        for tree in trees_in(&view)? {
            let options = match ledger::tree_options(&view, tree)? {
                Some(options) => options,
                // Written by an older release: what is known is the engine.
                None => TreeOptions::default().with_engine(engine.engine_of(tree)),
            };
            let rows = engine.tree_stats(tree).map_or(0, |stats| stats.keys);
            trees.push(TreeFacts { tree, options, rows });
        }
        assert!(trees.is_sorted_by(|one, next| one.tree < next.tree), "the ledger lists each tree once");
        let position = view.position();
        let own = self.transactions.log();
        let known = |epochs: arbor_log::Epochs| epochs.begins().last().map_or(1, |(epoch, _)| *epoch);
        let epoch = own.epoch_at(position).unwrap_or_else(|| known(own.epochs()));
        let time = last_time_until(own, position)?;
        let snapshot = self.next.fetch_add(1, Ordering::Relaxed);
        let held = PeerSnapshot { view: Arc::new(view), _log: log, used: Instant::now() };
        let before = self.held.lock().insert(snapshot, held);
        assert!(before.is_none(), "a snapshot has a number of its own");
        Ok(Begun { snapshot, position, epoch, time, trees })
    }

    /// Holds a state that may be restored: one that was, and is on the disk.
    ///
    /// Errors: `Failed` while trees of this member are ahead of the others (G2).
    pub fn begin_backup(&self) -> Result<Begun, PeerError> {
        self.check_settled()?;
        let begun = self.begin()?;
        // the share that the last one ended with says nothing about the present
        *self.throttle.lock() = Throttle::new(BACKUP_FLOOR, BACKUP_IDLE);
        let durable = self.transactions.make_durable(Some(begun.position)).map_err(failed);
        match durable.and_then(|()| self.check_settled()) {
            Ok(()) => Ok(begun),
            Err(error) => {
                self.end(begun.snapshot);
                Err(error)
            }
        }
    }

    /// Like [`Peer::block`], for a backup: it is compressed with what processor time others leave. The rows are read before, since that
    /// takes locks for which others may wait. Also returns for how long the backup has to rest before the next block, so that blocks use
    /// no more than their share of the processors; nothing waits here.
    pub fn block_of_backup(
        &self,
        snapshot: u64,
        tree: TreeId,
        after: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Duration), PeerError> {
        let view = self.view(snapshot).ok_or(PeerError::Expired)?;
        let begun = thread_time();
        let (block, is_last) = rows_of(&view, tree, after).map_err(failed)?;
        let read = thread_time().saturating_sub(begun);
        let (block, compressed) =
            in_background(move || Ok((finish(block, is_last)?, thread_time()))).map_err(failed)?;
        Ok((block, self.throttle.lock().rest(read + compressed)))
    }

    fn check_settled(&self) -> Result<(), PeerError> {
        match self.transactions.loads().unreadable_until() {
            Some(until) => Err(PeerError::Failed(format!(
                "trees of this member are ahead of the others until position {until}; try again, or take another member"
            ))),
            None => Ok(()),
        }
    }

    /// Returns what a held snapshot shows. `None`: it is not held any more.
    pub fn view(&self, snapshot: u64) -> Option<Arc<ReadView>> {
        let mut held = self.held.lock();
        let held = held.get_mut(&snapshot)?;
        held.used = Instant::now();
        Some(held.view.clone())
    }
}

fn rows_of(view: &ReadView, tree: TreeId, after: Option<&[u8]>) -> Result<(BlockWriter, bool)> {
    let mut cursor = view.cursor(tree)?;
    let mut valid = match after {
        None => cursor.first()?,
        Some(after) => cursor.seek(after)? && (cursor.key() != after || cursor.next()?),
    };
    let mut block = BlockWriter::default();
    while valid && !block.is_full() {
        block.push(cursor.key(), cursor.value());
        valid = cursor.next()?;
    }
    assert!(!valid || block.is_full(), "only the last block of a tree is not full");
    Ok((block, !valid))
}

fn finish(block: BlockWriter, is_last: bool) -> Result<Vec<u8>> {
    block.finish(is_last).map_err(|error| Error::Refused { reason: format!("a block does not compress: {error}") })
}

/// Carries out work in a thread that leaves the processors to others. One thread for each piece: only root raises its priority again.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let failed = |reason: String| Error::Refused { reason };
    let work = move || {
        // where it is not allowed, it is as fast as the others
        let _refused = rustix::process::setpriority_process(None, BACKGROUND_NICE);
        work()
    };
    let thread = std::thread::Builder::new().name("arbor-backup".to_owned()).spawn(work);
    let thread = thread.map_err(|error| failed(format!("no thread for a block: {error}")))?;
    thread.join().map_err(|_| failed("the thread of a block panicked".to_owned()))?
}

pub(super) fn failed(error: Error) -> PeerError {
    match error {
        Error::UnknownTree(tree) => PeerError::NoTree(tree),
        other => PeerError::Failed(other.to_string()),
    }
}

impl Peer for Source {
    fn begin(&self) -> Result<Begun, PeerError> {
        self.begin_here().map_err(failed)
    }

    fn block(&self, snapshot: u64, tree: TreeId, after: Option<&[u8]>) -> Result<Vec<u8>, PeerError> {
        let view = self.view(snapshot).ok_or(PeerError::Expired)?;
        rows_of(&view, tree, after).and_then(|(block, is_last)| finish(block, is_last)).map_err(failed)
    }

    fn end(&self, snapshot: u64) {
        self.held.lock().remove(&snapshot);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn work_in_the_background_has_a_priority_of_its_own() {
        let own = getpriority_process(None).unwrap();
        let there = in_background(|| Ok(getpriority_process(None).unwrap())).unwrap();
        assert!(there == BACKGROUND_NICE || own > BACKGROUND_NICE, "{there}");
        assert_eq!(getpriority_process(None).unwrap(), own, "and others keep theirs");
        let refused = in_background(|| Err::<(), _>(Error::Refused { reason: "no".into() }));
        assert!(refused.unwrap_err().to_string().contains("no"));
    }
}
