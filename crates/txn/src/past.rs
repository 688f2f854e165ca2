//! Past states: what snapshots showed at a time of the history window.
//!
//! A snapshot is held every few seconds; a state between two of them is the older one with the log's records up to the time
//! applied over it. States are held by the checkpoint thread, after each checkpoint, and when a client is given a time that it
//! may read at again.
//!
//! - P1: rows that were loaded in bulk are in no log. A commit that refers to them comes after the load: so a snapshot that
//!   was taken before a load's end is not the base of a state of any later time ([`RetainedStates::loads`]), and a state is held at
//!   each load's end.
//! - P2: of one time the newest snapshot is held, since only it has all that was loaded up to then.
//!
//! Lock order: the commit lock, then the lock of the held states.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId};
use arbor_engine::{Op, Snapshot, UpdateFunction};

use crate::chain::{Assembler, Part};
use crate::commit::CommitPath;
use crate::error::log_error;
use crate::held_states::{RetainedStates, State};
use crate::ledger::LEDGER;
use crate::overlay::Overlay;
use crate::scratch::Value;
use crate::written::{Entry, KeyRange, Presence, TreeWrites, Written};
use crate::{Error, ReadView, Result};

/// A state is held at least this long after the one before, unless a checkpoint or a client asks for it...
const DISTANCE: Duration = Duration::from_secs(5);
/// ...or this many bytes were logged since.
const DISTANCE_LOG_BYTES: u64 = 32 << 20;
/// States made from the log that are kept in case that they are asked for again.
const MADE_MAX: usize = 4;
/// The longest window where held snapshots keep space from being used again.
const COSTLY_WINDOW: Duration = Duration::from_secs(5);
/// After this many more bytes of log it is checked whether states take memory that the engine needs.
const CHECK_LOG_BYTES: u64 = 1 << 20;

impl CommitPath {
    /// Fills an empty tree past the log. Until a checkpoint has made it durable nothing may refer to it.
    pub(crate) fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.engine().bulk_load(tree, rows)?;
        if let Some(past) = self.past() {
            let committed = self.lock();
            past.lock().loads.push(committed.last_time);
            drop(committed);
            self.hold_state();
        }
        Ok(())
    }

    /// Drops all held states.
    pub(crate) fn forget_states(&self) {
        self.past().iter().for_each(|past| *past.lock() = RetainedStates::default());
    }

    /// Releases the states whose snapshots take memory that the writer needs. Called before each group of commits; an
    /// engine that keeps what its snapshots show in its cache makes no progress otherwise.
    pub(crate) fn release_states(&self) {
        let written = self.log_written();
        self.aside().release(written, || self.engine().capabilities().held_snapshot_bytes_max);
        let Some(past) = self.past() else { return };
        // of a new store nothing was held when it was opened, and times of before the checkpoint thread's first round are read, too
        if !past.has_begun.load(Ordering::Relaxed)
            && self.published() > Position::ZERO
            && !past.has_begun.swap(true, Ordering::Relaxed)
        {
            self.hold_state();
        }
        if written < past.checked_at.load(Ordering::Relaxed) + CHECK_LOG_BYTES {
            return;
        }
        past.checked_at.store(written, Ordering::Relaxed);
        if let Some(most) = self.engine().capabilities().held_snapshot_bytes_max {
            let released = past.lock().release(written.saturating_sub(most));
            drop(released);
        }
    }

    /// Called about every second.
    pub(crate) fn hold_states(&self) {
        let Some(past) = self.past() else { return };
        let due = {
            let held = past.lock();
            let since = held.states.back().map(|state| (state.since.elapsed(), state.time));
            let logged = self.log_written() - held.log_bytes;
            since.is_none_or(|(elapsed, time)| {
                (elapsed >= self.distance() || logged >= DISTANCE_LOG_BYTES) && time < self.clock().last()
            })
        };
        if due {
            self.hold_state();
        }
        past.lock().forget(self.window());
    }

    /// Holds the present state, unless history is not kept. Nothing is read before the first record: not even the catalogue is there.
    pub(crate) fn hold_state(&self) {
        if self.past().is_some() && self.published() > Position::ZERO {
            // A store that takes no writes any more has no new states.
            let _nothing_to_hold = self.present(false, u64::MAX);
        }
    }

    fn window(&self) -> Duration {
        let costly = self.engine().capabilities().held_snapshots_keep_space;
        if costly { self.history_window().min(COSTLY_WINDOW) } else { self.history_window() }
    }

    fn distance(&self) -> Duration {
        DISTANCE.min(self.window() / 4)
    }

    /// The present state and its time, held from now on; `None`: it is younger than `time`.
    fn present(&self, asked_for: bool, time: u64) -> Result<Option<(ReadView, u64)>> {
        let (snapshot, last_time, log_bytes, loads) = {
            let mut committed = self.lock();
            // Before it waits for anything.
            if committed.in_flight.is_empty() && committed.last_time > time {
                return Ok(None);
            }
            let last_time = self.applied_time(&mut committed, time)?;
            if last_time > time {
                return Ok(None);
            }
            let loads = self.past().map_or(0, |past| past.lock().loads.len());
            (self.engine().snapshot()?, last_time, self.log_written(), loads)
        };
        if let Some(past) = self.past() {
            let mut held = past.lock();
            held.log_bytes = self.log_written();
            held.forget(self.window());
            let (since, snapshot) = (Instant::now(), snapshot.clone());
            held.hold(State { time: last_time, since, asked_for, log_bytes, loads, snapshot });
        }
        Ok(Some((ReadView::new(snapshot), last_time)))
    }

    /// The present state and its time, which may be read at again.
    pub(crate) fn read_timed(&self) -> Result<(ReadView, u64)> {
        let present = self.present(true, u64::MAX)?;
        Ok(present.expect("no time is younger than the greatest"))
    }

    /// The state after all commits up to `time`, of which some may have got a later stamp here.
    pub(crate) fn view_at(&self, time: u64) -> Result<ReadView> {
        let now = self.clock().last();
        if time > now {
            return Err(Error::NotYet { time, now });
        }
        self.wait_decided(time)?;
        let view = self.logged_view_at(time)?;
        self.with_late(view, time)
    }

    /// The state that the records with stamps up to `time` make.
    fn logged_view_at(&self, time: u64) -> Result<ReadView> {
        // All commits that are not made yet will be later than `now`, hence than `time`.
        if let Some((view, _)) = self.present(true, time)? {
            return Ok(view);
        }
        let Some(past) = self.past() else { return Err(Error::SnapshotTooOld { time }) };
        let (base_time, base) = {
            let held = past.lock();
            if let Some((_, view)) = held.made.iter().find(|(made, _)| *made == time) {
                return Ok(view.clone());
            }
            held.base(time).ok_or(Error::SnapshotTooOld { time })?
        };
        if base_time == time {
            return Ok(ReadView::new(base));
        }
        let view = self.replay(base, time)?;
        let mut held = past.lock();
        held.made.push_back((time, view.clone()));
        if held.made.len() > MADE_MAX {
            held.made.pop_front();
        }
        Ok(view)
    }

    /// The log's records up to `time` over a snapshot.
    fn replay(&self, base: Arc<dyn Snapshot>, time: u64) -> Result<ReadView> {
        let (mut written, mut position) = (Written::default(), base.position());
        let mut reader = self.log().read(position.next());
        let mut assembler = Assembler::default();
        while reader.position() <= self.published() {
            let Some(read) = reader.next_borrowed() else { break };
            let (at, payload) = match read {
                Err(arbor_log::Error::Trimmed { .. }) => return Err(Error::SnapshotTooOld { time }),
                read => read.map_err(log_error)?,
            };
            let corrupt = |reason| Error::CorruptRecord { position: at, reason };
            let Part::Record(record) = assembler.take(payload).map_err(corrupt)? else { continue };
            if record.stamp.time > time {
                break;
            }
            for op in record.ops {
                overlay_op(&mut written, &*base, self.options().updates.as_deref(), op)?;
            }
            position = at;
        }
        Ok(ReadView::replayed(base, written, position))
    }
}

/// Adds the effect of an operation to `written`, as an engine applies it.
pub(crate) fn overlay_op(
    written: &mut Written,
    base: &dyn Snapshot,
    updates: Option<&dyn UpdateFunction>,
    op: Op,
) -> Result<()> {
    match op {
        Op::Put { tree, key, value } => drop(written.tree_mut(tree).entries.insert(key, Entry::of(Some(value.into())))),
        Op::Delete { tree, key } => drop(written.tree_mut(tree).entries.insert(key, Entry::of(None))),
        Op::DeleteRange { tree, from, to } => {
            let range = KeyRange { from, to };
            let writes = written.tree_mut(tree);
            writes.cut(&range);
            writes.ranges.push(range);
        }
        Op::CreateTree { tree, options } => {
            if !exists(written, base, tree) {
                let writes = TreeWrites { presence: Presence::Created(options), ..TreeWrites::default() };
                written.trees.insert(tree, Arc::new(writes));
            }
        }
        Op::DropTree { tree } => {
            let writes = TreeWrites { presence: Presence::Dropped, ..TreeWrites::default() };
            written.trees.insert(tree, Arc::new(writes));
        }
        Op::Update { tree, key, update } => {
            let function = updates.ok_or_else(|| arbor_engine::Error::no_updates("log"))?;
            let before = Overlay { snapshot: base, written }.get(tree, &key)?;
            let row = function.apply(&key, before.as_deref(), &update);
            written.tree_mut(tree).entries.insert(key, Entry::of(row.map(Value::from)));
        }
    }
    Ok(())
}

fn exists(written: &Written, base: &dyn Snapshot, tree: TreeId) -> bool {
    match written.tree(tree).map(|writes| &writes.presence) {
        Some(Presence::Created(_)) => true,
        Some(Presence::Dropped) => false,
        _ => tree == LEDGER || base.cursor(tree).is_ok(),
    }
}
