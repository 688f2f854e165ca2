//! Initial sync: the state of a peer takes the place of everything here.
//!
//! | step | what a crash after it leaves |
//! |---|---|
//! | the peer holds its state S and the log behind it; the marker is written | what was here, and the marker |
//! | the log begins again behind S, and takes what the leader sends from now on | the same; the log is not that of the engine |
//! | one batch at S: own trees go, those of the peer are created, empty | empty trees |
//! | each tree is fetched; a checkpoint now and then | some trees whole, the others empty |
//! | checkpoint; the marker goes; what is published is S | a follower at S |
//!
//! A member that finds the marker applies nothing and trims nothing until a sync has ended. If the peer's state is still S, the trees that
//! are here count: one position has one state.

use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId, sometimes};
use arbor_engine::{Batch, Op};

use super::marker::Syncing;
use super::publish::{described, peer_failed};
use super::rows::FetchedRows;
use super::source::{Begun, Peer, PeerError, TreeFacts};
use crate::error::log_error;
use crate::group::Lead;
use crate::{Error, Result, Transactions};

/// Bytes of rows after which a checkpoint makes them durable, so that another attempt has them.
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Progress of an initial sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncProgress {
    /// The state that is fetched.
    pub position: Position,
    pub trees: usize,
    pub trees_done: usize,
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Trees that were here from an attempt before.
    pub resumed: usize,
    pub elapsed: Duration,
}

/// The observer of a sync, which may stop it.
pub trait SyncWatch: Sync {
    fn is_stopped(&self) -> bool {
        false
    }

    /// The log continues behind the state that is being fetched: records of the leader may be received from now on.
    fn begun(&self, _: &SyncProgress) {}

    fn progress(&self, _: &SyncProgress) {}
}

impl SyncWatch for () {}

impl Transactions {
    /// Returns true if an initial sync has begun and not ended: what is here is no state of the set.
    pub fn is_syncing(&self) -> bool {
        self.path.lock().syncing != Syncing::No
    }

    /// Fetches the state of a peer in the place of everything here. Records of the leader behind it may be
    /// [received](Transactions::receive) as soon as the log ends at the position of that state.
    ///
    /// Requires that nothing here is read, and a member opened as a follower, with a marker. After an error it may be called again, with
    /// any peer.
    ///
    /// Errors: `Peer`; `NotSynced` when the engine is further than the peer's state: data of another origin.
    pub fn sync_from(&self, peer: &dyn Peer, watch: &dyn SyncWatch) -> Result<SyncProgress> {
        let begun = peer.begin().map_err(peer_failed)?;
        let synced = self.sync_to(&begun, peer, watch);
        peer.end(begun.snapshot);
        synced
    }

    fn sync_to(&self, begun: &Begun, peer: &dyn Peer, watch: &dyn SyncWatch) -> Result<SyncProgress> {
        let began = Instant::now();
        let resumes = self.begin_sync(begun)?;
        let mut progress =
            SyncProgress { position: begun.position, trees: begun.trees.len(), ..SyncProgress::default() };
        watch.begun(&progress);
        let mut durable_bytes = 0;
        for facts in &begun.trees {
            match resumes && self.has_rows(facts.tree)? {
                true => progress.resumed += 1,
                false => self.sync_tree(begun, facts, peer, watch, &mut progress, began)?,
            }
            progress.trees_done += 1;
            if progress.bytes - durable_bytes >= CHECKPOINT_BYTES {
                durable_bytes = progress.bytes;
                self.checkpoint_now()?;
            }
            progress.elapsed = began.elapsed();
            watch.progress(&progress);
        }
        self.end_sync(begun)?;
        progress.elapsed = began.elapsed();
        Ok(progress)
    }

    /// Returns true if trees of the same state are here.
    fn begin_sync(&self, begun: &Begun) -> Result<bool> {
        let refused = |reason: String| Err(Error::NotSynced { reason });
        let mut committed = self.path.lock();
        self.path.check_open()?;
        let marker = self.path.options().sync_marker.clone();
        let (Some(marker), Lead::Other(_)) = (marker, &committed.lead) else {
            return refused("an initial sync is for a member that follows".into());
        };
        let (engine, log) = (self.engine(), self.log());
        let (before, position) = (marker.read()?, begun.position);
        let applied = engine.applied_in_part();
        let resumes = before == Some(position) && engine.applied() == position && log.first() == position.next();
        if before.is_none_or(|before| applied > before) && applied >= position || applied > position {
            return refused(format!(
                "the data here is at {applied}, which is not before the state of the peer ({}): it is not data of this set. \
                 Start the member with an empty directory",
                described(begun)
            ));
        }
        assert!(resumes || applied < position, "a sync to {position} of an engine at {applied}");
        marker.write(position)?;
        committed.syncing = Syncing::Running;
        self.path.forget_states();
        self.path.loads().forget(&marker)?;
        if !resumes {
            log.reset(position.next(), begun.epoch).map_err(log_error)?;
            self.path.cut_to(position);
        }
        committed.matched = log.appended();
        if !resumes {
            let drops = engine.trees()?.into_iter().map(|tree| Op::DropTree { tree });
            let creates = begun.trees.iter();
            let creates = creates.map(|facts| Op::CreateTree { tree: facts.tree, options: facts.options.clone() });
            self.path.apply_with_reserve(&[Batch { position, ops: drops.chain(creates).collect() }])?;
            engine.checkpoint()?;
        }
        if resumes {
            sometimes!("txn: an initial sync continues");
        }
        Ok(resumes)
    }

    fn has_rows(&self, tree: TreeId) -> Result<bool> {
        Ok(self.engine().snapshot()?.cursor(tree)?.first()?)
    }

    fn sync_tree(
        &self,
        begun: &Begun,
        facts: &TreeFacts,
        peer: &dyn Peer,
        watch: &dyn SyncWatch,
        progress: &mut SyncProgress,
        began: Instant,
    ) -> Result<()> {
        let before = *progress;
        let is_stopped = || watch.is_stopped() || self.path.check_open().is_err();
        let mut rows = FetchedRows::new(peer, begun.snapshot, facts.tree, &is_stopped);
        let mut shown = before.bytes;
        let mut counted = std::iter::from_fn(|| {
            let row = rows.next()?;
            progress.rows = before.rows + rows.checksum.rows;
            progress.bytes = before.bytes + rows.bytes;
            if progress.bytes - shown >= 1 << 20 {
                shown = progress.bytes;
                progress.elapsed = began.elapsed();
                watch.progress(progress);
                self.engine().wait_for_room();
            }
            Some(row)
        });
        let loaded = self.engine().bulk_load(facts.tree, &mut counted);
        match rows.error.take() {
            Some(PeerError::NoTree(tree)) => {
                Err(Error::Peer { reason: format!("the peer lists tree {tree}, and does not have it") })
            }
            Some(error) => Err(peer_failed(error)),
            None => Ok(loaded?),
        }
    }

    fn end_sync(&self, begun: &Begun) -> Result<()> {
        let marker = self.path.options().sync_marker.clone();
        let Some(marker) = marker else { unreachable!("a sync has begun with a marker") };
        let mut committed = self.path.lock();
        assert_eq!(committed.syncing, Syncing::Running, "a sync ends that has begun");
        let reached = self.engine().checkpoint()?;
        assert_eq!(reached, begun.position, "G3: the engine is durable at the state of the peer");
        marker.remove()?;
        committed.syncing = Syncing::No;
        committed.last_time = begun.time;
        self.path.clock().advance(begun.time);
        committed.commit_point = committed.commit_point.max(begun.position);
        self.path.forget_states();
        self.path.replace_state(&mut committed, begun.position)?;
        drop(committed);
        // The checkpoint thread's memory of it.
        self.checkpoint_now().map(drop)
    }
}
