//! Trees that came past the log (G1).
//!
//! ```text
//! primary   bulk_load, checkpoint ── open ── all in-sync members have it ── record that refers to it ── closed
//! another   offered, its tree is here ── fetch ── bulk_load, checkpoint ── had
//!           record refers to it, not had ── not acknowledged ── fetch the present tree ── had, and ahead (G2)
//! ```
//!
//! Nothing of this is stored: a filled tree is one that has rows, since a load is whole after a crash or not there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arbor_base::{Position, TreeId, sometimes};
use arbor_engine::{Batch, Engine, Op};
use arbor_log::Log;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::block::RowsChecksum;
use super::rows::FetchedRows;
use super::source::{Begun, Peer, PeerError};
use crate::commit::log_error;
use crate::commit_rule::CommitRule;
use crate::record::{self, Load};
use crate::{Durability, Error, Result, Transaction, Transactions};

/// Interval at which a primary that waits for others asks whether it is to stop.
const ASK_INTERVAL: Duration = Duration::from_millis(20);

/// The loads of one member. Shared by all threads.
#[derive(Default)]
pub struct Loads {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Loads of this primary that the others should get. True: those that are waited for have it.
    open: BTreeMap<TreeId, bool>,
    /// Here and durable; those that were offered with what was fetched.
    own: BTreeMap<TreeId, Option<Offered>>,
    /// Loads that are not here, by the record in the log that refers to them.
    missing: BTreeMap<Position, Vec<Load>>,
    /// G2.
    ahead: BTreeMap<TreeId, Position>,
    /// One fetch of a tree at a time.
    fetching: BTreeSet<TreeId>,
}

/// A tree as the primary had it when it was fetched, before a record that refers to it was here.
#[derive(Clone, Copy)]
struct Offered {
    rows: RowsChecksum,
    /// The state of the primary from which it was fetched. An offer may be carried out late: a record up to there may refer to it.
    of: Position,
}

impl Loads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Loads of this primary that the others should get.
    pub fn open(&self) -> Vec<u64> {
        self.lock().open.keys().map(|tree| tree.0).collect()
    }

    /// Loads that this member has fetched since its start.
    pub fn own(&self) -> Vec<u64> {
        self.lock().own.keys().map(|tree| tree.0).collect()
    }

    /// The first record in the log that refers to a load which is not here.
    pub fn missing(&self) -> Option<Position> {
        self.lock().missing.first_key_value().map(|(position, _)| *position)
    }

    /// Up to where the engine shows no state of the set: some tree is ahead (G2). `None`: it does show one.
    pub fn unreadable_until(&self) -> Option<Position> {
        self.lock().ahead.values().max().copied()
    }

    /// Reports that every member that is waited for has the load.
    pub fn set_everywhere(&self, load: u64) {
        if let Some(everywhere) = self.lock().open.get_mut(&TreeId(load)) {
            *everywhere = true;
        }
        self.changed.notify_all();
    }

    fn open_all(&self, loads: &[Load]) {
        self.lock().open.extend(loads.iter().map(|load| (load.tree, false)));
    }

    fn close_all(&self, loads: &[Load]) {
        self.lock().open.retain(|tree, _| loads.iter().all(|load| load.tree != *tree));
    }

    /// Returns true if the tree is here, as far as rows show it.
    pub(crate) fn has(&self, engine: &dyn Engine, load: &Load) -> Result<bool> {
        let state = self.lock();
        if load.rows == 0 || state.ahead.contains_key(&load.tree) || state.own.contains_key(&load.tree) {
            return Ok(true);
        }
        drop(state);
        let snapshot = engine.snapshot()?;
        match snapshot.cursor(load.tree) {
            Ok(mut cursor) => Ok(cursor.first()?),
            Err(arbor_engine::Error::UnknownTree(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes note of a record that refers to a load which is here, before the record is applied. Errors: the tree was fetched as it was
    /// loaded, and is another one.
    pub(crate) fn check(&self, position: Position, load: &Load) -> Result<()> {
        let mut state = self.lock();
        let Some(offered) = state.own.get(&load.tree).copied().flatten() else { return Ok(()) };
        if position <= offered.of {
            sometimes!("txn: a load was fetched after the record that refers to it");
            state.own.insert(load.tree, None);
            state.ahead.insert(load.tree, offered.of);
            return Ok(());
        }
        if offered.rows != (RowsChecksum { rows: load.rows, crc: load.checksum }) {
            return Err(Error::CorruptRecord {
                position,
                reason: "it refers to a load of other rows than were fetched",
            });
        }
        Ok(())
    }

    /// Takes note of a record that was received.
    pub(crate) fn received(&self, engine: &dyn Engine, position: Position, payload: &[u8]) -> Result<()> {
        if !record::refers_to_loads(payload) {
            return Ok(());
        }
        let corrupt = |reason| Error::CorruptRecord { position, reason };
        let record = record::Record::decode(payload).map_err(corrupt)?;
        let mut missing = Vec::new();
        for load in record.loads {
            if !self.has(engine, &load)? {
                missing.push(load);
            }
        }
        if !missing.is_empty() {
            sometimes!("txn: a record refers to a load that is not here");
            self.lock().missing.insert(position, missing);
        }
        Ok(())
    }

    /// Looks for missing loads in what the log has behind `applied`.
    pub(crate) fn scan(&self, engine: &dyn Engine, log: &Log, applied: Position) -> Result<()> {
        self.lock().missing.clear();
        let mut reader = log.read(applied.next());
        while let Some(read) = reader.next_borrowed() {
            let (position, payload) = read.map_err(log_error)?;
            self.received(engine, position, payload)?;
        }
        Ok(())
    }

    /// The log was cut.
    pub(crate) fn cut_to(&self, position: Position) {
        self.lock().missing.split_off(&position.next());
    }

    /// Everything is another state from now on.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        (state.own, state.missing, state.ahead) = Default::default();
    }

    /// The batches without operations on trees that are ahead of them.
    pub(crate) fn without_passed(&self, batches: &[Batch]) -> Option<Vec<Batch>> {
        let state = self.lock();
        if state.ahead.is_empty() {
            return None;
        }
        let passed = |op: &Op, position: Position| {
            let is_drop = matches!(op, Op::DropTree { .. });
            !is_drop && state.ahead.get(&op.tree()).is_some_and(|until| position <= *until)
        };
        let rest = |batch: &Batch| {
            let ops = batch.ops.iter().filter(|op| !passed(op, batch.position)).cloned().collect();
            Batch { position: batch.position, ops }
        };
        Some(batches.iter().map(rest).collect())
    }

    /// Records up to here are applied.
    pub(crate) fn applied(&self, batches: &[Batch]) {
        let Some(last) = batches.last().map(|batch| batch.position) else { return };
        let mut state = self.lock();
        if state.ahead.is_empty() && state.own.is_empty() {
            return;
        }
        state.ahead.retain(|_, until| *until > last);
        for op in batches.iter().flat_map(|batch| &batch.ops) {
            if let Op::DropTree { tree } = op {
                state.own.remove(tree);
            }
        }
    }
}

impl Transactions {
    pub fn loads(&self) -> &Loads {
        self.path.loads()
    }

    /// Makes loads part of the log: returns once the members that are waited for have them, and a record refers to them. Until then no
    /// record may change the trees.
    ///
    /// Requires that the rows are durable here. Errors: `NotLeading`; `Refused` when `is_stopped` said so.
    pub fn publish_loads(&self, loads: &[Load], is_stopped: &dyn Fn() -> bool) -> Result<Position> {
        if loads.is_empty() {
            return Ok(self.path.published());
        }
        let own = self.loads();
        own.open_all(loads);
        let published = self.wait_everywhere(loads, is_stopped).and_then(|()| {
            let refer = |txn: &mut Transaction| -> Result<()> {
                loads.iter().for_each(|load| txn.refer_to(*load));
                Ok(())
            };
            self.retry(Durability::Applied, refer).map(|((), position)| position)
        });
        own.close_all(loads);
        published
    }

    fn wait_everywhere(&self, loads: &[Load], is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let own = self.loads();
        loop {
            if !self.is_leading() {
                return Err(Error::NotLeading);
            }
            self.path.check_open()?;
            if self.rule() == CommitRule::Own {
                return Ok(());
            }
            let mut state = own.lock();
            if loads.iter().all(|load| state.open.get(&load.tree) == Some(&true)) {
                return Ok(());
            }
            own.changed.wait_for(&mut state, ASK_INTERVAL);
            drop(state);
            if is_stopped() {
                return Err(Error::Refused { reason: "it was stopped".into() });
            }
        }
    }

    /// Fetches loads that the primary offers, as far as their trees exist here. Returns the number of those that came.
    pub fn fetch_offered(&self, offered: &[u64], peer: &dyn Peer, is_stopped: &dyn Fn() -> bool) -> Result<usize> {
        let mut count = 0;
        for tree in offered.iter().map(|load| TreeId(*load)) {
            let is_known = self.loads().lock().own.contains_key(&tree);
            match self.rows_of(tree)? {
                _ if is_known => {}
                None => {}
                // It was fetched before a restart: until a record refers to it, its rows are those of the load.
                Some(true) => {
                    self.checkpoint_now()?;
                    self.loads().lock().own.insert(tree, None);
                    count += 1;
                }
                Some(false) => count += usize::from(self.fetch_load(tree, None, peer, is_stopped)?),
            }
        }
        Ok(count)
    }

    /// Fetches the loads that records of the log refer to and that are not here, and continues to apply. Returns the number of those that
    /// came. A load whose tree does not exist here yet is fetched by a later call: the records before it come first.
    pub fn fetch_missing(&self, peer: &dyn Peer, is_stopped: &dyn Fn() -> bool) -> Result<usize> {
        let missing: Vec<(Position, Load)> = {
            let state = self.loads().lock();
            state.missing.iter().flat_map(|(at, loads)| loads.iter().map(|load| (*at, *load))).collect()
        };
        let mut count = 0;
        let mut failed = Ok(());
        for (position, load) in missing {
            // Its record may have come while it was being fetched.
            let fetched = match self.loads().has(&**self.engine(), &load)? {
                true => self.checkpoint_now().map(|_| true),
                false if self.rows_of(load.tree)?.is_none() => Ok(false),
                false => self.fetch_load(load.tree, Some(position), peer, is_stopped),
            };
            match fetched {
                Ok(came) => count += usize::from(came),
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        if count > 0 {
            self.settle_missing()?;
        }
        failed.map(|()| count)
    }

    /// Forgets which loads were missing and are here by now, and applies what waited for them.
    fn settle_missing(&self) -> Result<()> {
        let (own, engine) = (self.loads(), self.engine());
        let waiting: Vec<(Position, Vec<Load>)> =
            own.lock().missing.iter().map(|(position, loads)| (*position, loads.clone())).collect();
        for (position, loads) in waiting {
            let mut all = true;
            for load in &loads {
                all &= own.has(&**engine, load)?;
            }
            if all {
                own.lock().missing.remove(&position);
            }
        }
        let mut committed = self.path.lock();
        self.path.apply_committed(&mut committed)
    }

    /// Returns true if the tree has rows; `None`: it does not exist here.
    fn rows_of(&self, tree: TreeId) -> Result<Option<bool>> {
        match self.engine().snapshot()?.cursor(tree) {
            Ok(mut cursor) => Ok(Some(cursor.first()?)),
            Err(arbor_engine::Error::UnknownTree(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// `referred`: a record there refers to it, so the peer's tree may have changed since. Returns false if another thread fetches it, or
    /// it is gone.
    fn fetch_load(
        &self,
        tree: TreeId,
        referred: Option<Position>,
        peer: &dyn Peer,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        if !self.loads().lock().fetching.insert(tree) {
            return Ok(false);
        }
        let fetched = self.fetch_tree(tree, referred, peer, is_stopped);
        self.loads().lock().fetching.remove(&tree);
        fetched
    }

    fn fetch_tree(
        &self,
        tree: TreeId,
        referred: Option<Position>,
        peer: &dyn Peer,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let begun = peer.begin().map_err(peer_failed)?;
        let mut rows = FetchedRows::new(peer, begun.snapshot, tree, is_stopped);
        if referred.is_some() {
            // Before its rows are there: operations on it up to that state must not come after them.
            self.loads().lock().ahead.insert(tree, begun.position);
        }
        let loaded = self.bulk_load(tree, &mut rows);
        peer.end(begun.snapshot);
        let (offered, error) = (Offered { rows: rows.checksum, of: begun.position }, rows.error.take());
        let outcome = match (error, loaded) {
            // It was dropped since: what refers to it is passed over until then.
            (Some(PeerError::NoTree(_)), _) if referred.is_some() => Ok(true),
            (Some(PeerError::NoTree(_)), _) => Ok(false),
            (Some(error), _) => Err(peer_failed(error)),
            (None, Err(Error::UnknownTree(_))) => Ok(false),
            (None, loaded) => loaded.map(|()| true),
        };
        if !matches!(outcome, Ok(true)) {
            self.loads().lock().ahead.remove(&tree);
            return outcome;
        }
        self.checkpoint_now()?;
        self.loads().lock().own.insert(tree, referred.is_none().then_some(offered));
        Ok(true)
    }
}

pub(super) fn peer_failed(error: PeerError) -> Error {
    Error::Peer { reason: error.to_string() }
}

/// The trees of a begun snapshot, for a message.
pub(super) fn described(begun: &Begun) -> String {
    format!("{} trees at {}", begun.trees.len(), begun.position)
}
