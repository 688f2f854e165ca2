//! Applying what is in flight, and waiting for it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::Position;
use parking_lot::MutexGuard;

use super::CommitPath;
use crate::commit_rule::CommitRule;
use crate::group::{Committed, Lead};
use crate::{Error, Result};

/// Interval at which a waiting committer retries what the engine had no space for.
const APPLY_RETRY: Duration = Duration::from_millis(100);

impl CommitPath {
    /// Applies what is in flight and may be applied. `Ok`: the engine had space for all of it.
    pub(crate) fn apply_ready(&self, committed: &mut Committed) -> Result<()> {
        if committed.in_flight.is_empty() {
            return Ok(());
        }
        let limit = self.apply_limit(committed);
        // Some engines of several may have more than others; they pass over what they have.
        let skipped = committed.in_flight.remove_until(self.engine.applied().min(limit));
        let ready = committed.in_flight.until(limit);
        if let Some(last) = ready.last() {
            self.apply(ready)?;
            assert!(self.engine.applied() >= last.position, "{:?} was applied and the engine has less", last.position);
        }
        if let Some((last, time)) = committed.in_flight.remove_until(limit).or(skipped) {
            committed.applied_time = committed.applied_time.max(time);
            // After void links nothing was logged that counts.
            self.logged.fetch_max(last.0, Ordering::AcqRel);
            self.publish(last);
            self.notify_applied();
        }
        Ok(())
    }

    pub(super) fn notify_applied(&self) {
        self.flow.notify_all();
        let _guard = self.applied_lock.lock();
        self.applied.notify_all();
    }

    /// The last position that may be applied. What a member applies is on its own disk (R7 of the set's protocol: nothing applied
    /// is ever taken back).
    pub(crate) fn apply_limit(&self, committed: &Committed) -> Position {
        match committed.rule {
            CommitRule::Own => Position(u64::MAX),
            CommitRule::Set => {
                // What is here and the leader does not have is not what the set has committed there.
                let equal =
                    if matches!(committed.lead, Lead::Other(_)) { committed.matched } else { Position(u64::MAX) };
                committed.commit_point.min(self.log.durable()).min(equal)
            }
        }
    }

    pub(super) fn wait_applied(&self, position: Position) -> Result<Position> {
        let deadline = Instant::now() + self.options.apply_wait;
        while self.published() < position {
            if self.check_open().is_err() || Instant::now() >= deadline {
                return Err(Error::CommittedNotApplied { position });
            }
            self.applied.wait_for(&mut self.applied_lock.lock(), APPLY_RETRY);
            self.retry_pending();
        }
        Ok(position)
    }

    /// Tries pending batches again unless a leader is at work, which does so itself.
    pub(crate) fn retry_pending(&self) {
        let Some(mut committed) = self.committed.try_lock() else { return };
        let _still_full = self.apply_ready_with_reserve(&mut committed);
    }

    pub(crate) fn apply_ready_with_reserve(&self, committed: &mut Committed) -> Result<()> {
        match self.apply_ready(committed) {
            Err(Error::OutOfSpace { .. }) if self.space_exhausted() => self.apply_ready(committed),
            outcome => outcome,
        }
    }

    /// Waits until another commit may be logged. Immediate under [`CommitRule::Own`].
    ///
    /// Errors: `NotLeading`; `Refused` when too much has been in flight for too long.
    pub(super) fn enter(&self, committed: &mut MutexGuard<'_, Committed>) -> Result<()> {
        if committed.rule == CommitRule::Own {
            return Ok(());
        }
        let deadline = Instant::now() + self.options.in_flight_wait;
        loop {
            self.check_open()?;
            self.begin_if_visible(committed)?;
            committed.require_leading()?;
            if !committed.exclusive && !committed.in_flight.is_full(&self.options) {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::Refused { reason: "too many commits wait for other members of the set".into() });
            }
            self.flow.wait_until(committed, deadline);
        }
        if committed.in_flight.is_empty() {
            committed.applied_time = committed.last_time;
        }
        Ok(())
    }

    /// Keeps other committers out, and waits until nothing is in flight. Ends with [`CommitPath::leave_exclusive`].
    pub(crate) fn enter_exclusive(&self, committed: &mut MutexGuard<'_, Committed>) -> Result<()> {
        if committed.rule == CommitRule::Own {
            return Ok(());
        }
        self.enter(committed)?;
        committed.exclusive = true;
        let deadline = Instant::now() + self.options.in_flight_wait;
        while !committed.in_flight.is_empty() {
            let checked = self.check_open().and_then(|()| committed.require_leading());
            let late = || Error::Refused { reason: "commits wait for other members of the set".into() };
            let checked = checked.and_then(|()| if Instant::now() >= deadline { Err(late()) } else { Ok(()) });
            if let Err(error) = checked {
                self.leave_exclusive(committed);
                return Err(error);
            }
            self.flow.wait_until(committed, deadline);
        }
        committed.applied_time = committed.last_time;
        Ok(())
    }

    pub(crate) fn leave_exclusive(&self, committed: &mut Committed) {
        if committed.exclusive {
            committed.exclusive = false;
            self.flow.notify_all();
        }
    }

    /// The time that the engine's state shows; waits for commits in flight that are not later than `time`, except for the greatest.
    pub(crate) fn applied_time(&self, committed: &mut MutexGuard<'_, Committed>, time: u64) -> Result<u64> {
        if committed.in_flight.is_empty() {
            return Ok(committed.last_time);
        }
        if committed.rule == CommitRule::Own {
            return Err(Error::OutOfSpace { context: "commits are not visible yet".into() });
        }
        let deadline = Instant::now() + self.options.apply_wait;
        while time < u64::MAX && committed.in_flight.last_at(time).is_some() {
            self.check_open()?;
            if Instant::now() >= deadline {
                return Err(Error::NotYet { time, now: committed.applied_time });
            }
            self.flow.wait_until(committed, deadline);
        }
        Ok(if committed.in_flight.is_empty() { committed.last_time } else { committed.applied_time })
    }
}
