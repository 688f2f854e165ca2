//! Trees that came past the log (G1).
//!
//! ```text
//! primary   bulk_load, checkpoint ── open ── all in-sync members have it ── record that refers to it ── closed
//! another   offered, its tree is here ── fetch ── bulk_load, checkpoint ── had
//!           record refers to it, not had ── not acknowledged ── fetch the present tree ── had, and ahead (G2)
//! ```
//!
//! Only the states from which trees were fetched are stored (`ahead.rs`): a filled tree is one that has rows, since a load is whole
//! after a crash or not there.

use std::collections::{BTreeMap, BTreeSet};

use arbor_base::{Position, TreeId, sometimes};
use arbor_engine::{Batch, Engine, Op};
use arbor_log::Log;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::ahead::{self, Ahead, Fetched};
use super::block::RowsChecksum;
use super::marker::SyncMarker;
use crate::error::log_error;
use crate::record::{self, Load};
use crate::{Error, Result};

/// The loads of one member. Shared by all threads.
#[derive(Default)]
pub struct Loads {
    state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    /// Loads of this primary that the others should get. True: those that are waited for have it.
    pub open: BTreeMap<TreeId, bool>,
    /// Here and durable; those that were offered with what was fetched.
    pub own: BTreeMap<TreeId, Option<Offered>>,
    /// Loads that are not here, by the record in the log that refers to them.
    pub missing: BTreeMap<Position, Vec<Load>>,
    /// G2.
    pub ahead: BTreeMap<TreeId, Position>,
    /// The content of the file: states from which trees were fetched.
    pub stored: Ahead,
    /// One fetch of a tree at a time.
    pub fetching: BTreeSet<TreeId>,
}

/// A tree as the primary had it when it was fetched, before a record that refers to it was here.
#[derive(Clone, Copy)]
pub(super) struct Offered {
    pub rows: RowsChecksum,
    /// The state of the primary from which it was fetched. An offer may be carried out late: a record up to there may refer to it.
    pub of: Position,
}

impl Loads {
    /// Takes up which trees are ahead of an engine that was opened.
    pub(crate) fn open_ahead(marker: Option<&SyncMarker>, engine: &dyn Engine) -> Result<Loads> {
        let Some(marker) = marker else { return Ok(Loads::default()) };
        let (mut stored, applied) = (ahead::read(marker)?, engine.applied());
        stored.retain(|_, fetched| fetched.until > applied);
        let snapshot = engine.snapshot()?;
        let mut state = State::default();
        for (tree, Fetched { until, has_ended }) in &stored {
            let has_rows = match snapshot.cursor(*tree) {
                Ok(mut cursor) => cursor.first()?,
                Err(arbor_engine::Error::UnknownTree(_)) => false,
                Err(error) => return Err(error.into()),
            };
            if has_rows || *has_ended {
                sometimes!("txn: a tree is ahead after a restart");
                state.ahead.insert(*tree, *until);
            }
        }
        state.stored = stored;
        Ok(Loads { state: Mutex::new(state), ..Loads::default() })
    }

    /// Notes durably that a tree is going to have the rows of a state, or has them. Requires that one thread fetches.
    pub(super) fn store_ahead(&self, marker: Option<&SyncMarker>, tree: TreeId, fetched: Fetched) -> Result<()> {
        let Some(marker) = marker else { return Ok(()) };
        let stored = {
            let mut state = self.lock();
            state.stored.insert(tree, fetched);
            state.stored.clone()
        };
        ahead::write(marker, &stored)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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

    /// Returns true if this primary waits for members to have a load. For a simulation, like `Transactions::waiting`.
    #[doc(hidden)]
    pub fn are_awaited(&self) -> bool {
        self.lock().open.values().any(|everywhere| !everywhere)
    }

    /// Reports that every member that is waited for has the load.
    pub fn set_everywhere(&self, load: u64) {
        if let Some(everywhere) = self.lock().open.get_mut(&TreeId(load)) {
            *everywhere = true;
        }
        self.changed.notify_all();
    }

    pub(super) fn open_all(&self, loads: &[Load]) {
        self.lock().open.extend(loads.iter().map(|load| (load.tree, false)));
    }

    pub(super) fn close_all(&self, loads: &[Load]) {
        self.lock().open.retain(|tree, _| loads.iter().all(|load| load.tree != *tree));
    }

    /// Returns true if the tree is here, as far as rows show it.
    pub(crate) fn has(&self, engine: &dyn Engine, load: &Load) -> Result<bool> {
        let state = self.lock();
        // Its record waits for the end of a fetch: what comes may be of a later state, and is not durable yet.
        if state.fetching.contains(&load.tree) {
            return Ok(false);
        }
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

    /// Takes note of a load that is here when its record is applied. From now on an offer of it that is carried out late would bring
    /// a later state than the one that is shown.
    pub(crate) fn is_here(&self, load: &Load) {
        self.lock().own.entry(load.tree).or_insert(None);
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
    pub(super) fn forget(&self, marker: &SyncMarker) -> Result<()> {
        let mut state = self.lock();
        (state.own, state.missing, state.ahead, state.stored) = Default::default();
        ahead::write(marker, &state.stored)
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
