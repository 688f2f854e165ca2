//! A member of a set: following, taking over, giving up the lead.
//!
//! ```text
//! receive ── log ── commit point ── apply_log              another member leads
//! lead ── no-op ── commit point ── apply_log ── begin_term   this one takes over (R8 of the set's protocol)
//! commit ── log ── commit point ── apply_ready             this one leads
//! stop_leading ── what is in flight is left to the log     another one leads again
//! ```
//!
//! Records behind the commit point were not applied, so giving up the lead takes nothing back, and a cut removes nothing that was applied.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arbor_base::Position;

use crate::applier::{Applied, Applier};
use crate::commit::{AppendListener, CommitPath};
use crate::commit_rule::CommitRule;
use crate::conflict::ConflictTable;
use crate::error::log_error;
use crate::fetch::marker::Syncing;
use crate::group::{Committed, Lead};
use crate::ledger::LEDGER;
use crate::pending::Pending;
use crate::record::Record;
use crate::recovery::{last_time, read_ledger};
use crate::write_set::WriteSet;
use crate::{Error, ReadView, Result, Transactions};

impl Transactions {
    pub fn rule(&self) -> CommitRule {
        self.path.lock().rule
    }

    /// Changes the rule of a member that leads. To [`CommitRule::Own`] only when the set has no other member that holds data: what is in
    /// flight counts from then on.
    pub fn set_rule(&self, rule: CommitRule) -> Result<()> {
        let mut committed = self.path.lock();
        committed.require_leading()?;
        if rule == CommitRule::Set && committed.rule == CommitRule::Own {
            self.path.apply_ready(&mut committed)?;
            // S1 holds from the first moment on.
            self.log().wait_durable(self.log().appended()).map_err(log_error)?;
            self.path.join_set(&mut committed);
            return Ok(());
        }
        committed.rule = rule;
        self.path.is_of_set().store(rule == CommitRule::Set, Ordering::Release);
        self.path.apply_ready_with_reserve(&mut committed)
    }

    /// Reports that the set has all records up to `position`; what of it is durable here becomes visible. Returns the last visible position.
    /// To be called again when more became durable here.
    pub fn set_commit_point(&self, position: Position) -> Result<Position> {
        self.advance(&mut self.path.lock(), position)
    }

    /// Like [`Transactions::set_commit_point`], by a caller that has compared the logs: up to `position` the one of this member is the
    /// leader's. A follower whose log had all of it needs no record to know that.
    pub fn set_matched_commit_point(&self, position: Position) -> Result<Position> {
        let mut committed = self.path.lock();
        let appended = self.log().appended();
        if position > appended {
            return Err(Error::Log(arbor_log::Error::NotAppended { position, appended }));
        }
        committed.matched = committed.matched.max(position);
        self.advance(&mut committed, position)
    }

    /// Like [`Transactions::set_matched_commit_point`], of a member that shows records only when they are older than `delay`. Returns how
    /// far it got.
    pub fn set_matched_commit_point_delayed(&self, position: Position, delay: Duration) -> Result<Position> {
        // what a sync fetches is a later state
        let due = if self.is_syncing() { position } else { self.path.older_than(delay, position)? };
        self.set_matched_commit_point(due)
    }

    fn advance(&self, committed: &mut Committed, position: Position) -> Result<Position> {
        committed.commit_point = committed.commit_point.max(position);
        self.path.check_open()?;
        if committed.syncing != Syncing::No {
            return Ok(self.path.published());
        }
        self.path.apply_committed(committed)?;
        self.path.validate(committed);
        Ok(self.path.published())
    }

    /// Takes over: begins an epoch with a record of its own. Commits are admitted when that record is visible, and with it all that was
    /// logged before.
    ///
    /// Requires that the coordinator has named this member, and that the epoch is durable in [`arbor_log::Member`].
    pub fn lead(&self, epoch: u64) -> Result<Pending> {
        let mut committed = self.path.lock();
        self.path.check_open()?;
        let Lead::Other(_) = &committed.lead else { return Err(Error::Refused { reason: "this member leads".into() }) };
        if committed.syncing != Syncing::No || self.loads().missing().is_some() {
            return Err(Error::Refused { reason: "this member does not have all data of the set".into() });
        }
        let log = self.log();
        log.begin_epoch(epoch).map_err(log_error)?;
        self.path.clock().advance(last_time(log)?);
        let stamp = self.path.clock().stamp(0);
        let noop = log.append(&[&Record { stamp, ..Record::default() }.encode()]).map_err(log_error)?;
        let term = Arc::default();
        let applier = Applier::new(log, self.path.published());
        committed.lead = Lead::Begins { term: Arc::clone(&term), noop, applier };
        committed.paused = false;
        log.request_sync();
        self.path.notify_appended(noop);
        Ok(Pending::new(self.path.clone(), Some(term), noop))
    }

    /// Refuses commits from now on. Commits in flight end with [`Error::Unsettled`]: the next leader may have them.
    pub fn stop_leading(&self) {
        let mut committed = self.path.lock();
        if let Lead::Own(term) | Lead::Begins { term, .. } = &committed.lead {
            term.end_at(self.path.published());
            self.path.follow_from_now(&mut committed);
        }
    }

    /// Refuses commits from now on, while this member still leads: those in flight may succeed. Returns the end of the log. Ends with
    /// [`Transactions::resume_commits`], or when this member stops leading.
    pub fn pause_commits(&self) -> Position {
        let mut committed = self.path.lock();
        committed.paused = true;
        self.path.interrupt();
        self.log().appended()
    }

    pub fn resume_commits(&self) {
        self.path.lock().paused = false;
    }

    /// Returns true if commits count once other members have them ([`CommitRule::Set`]).
    pub fn is_of_set(&self) -> bool {
        self.path.is_of_set().load(Ordering::Acquire)
    }

    /// Ends all waits for commits of the set, now and later, with [`Error::Unsettled`] where the set does not have them yet: for a shutdown, which
    /// joins threads that a set without a majority would keep.
    pub fn end_waits(&self) {
        self.path.end_waits();
    }

    /// Returns how many threads wait for a commit. For a simulation, which continues when all that it started wait.
    #[doc(hidden)]
    pub fn waiting(&self) -> usize {
        self.path.waiting()
    }

    /// Returns true if commits are admitted.
    pub fn is_leading(&self) -> bool {
        self.path.lock().term().is_some()
    }

    /// Appends records of the leader to the log. `after`: the last position here, up to which the logs of the two are equal; records that
    /// the leader commits are applied as far as that is known.
    ///
    /// Errors: `NotAppended` when the log ends elsewhere, `StaleEpoch` when it has records of a later epoch.
    pub fn receive(&self, epoch: u64, after: Position, payloads: &[&[u8]]) -> Result<Position> {
        let mut committed = self.path.lock();
        self.path.check_open()?;
        let Lead::Other(_) = &committed.lead else { return Err(Error::Refused { reason: "this member leads".into() }) };
        if committed.syncing == Syncing::Needed {
            return Err(Error::Refused { reason: "this member needs an initial sync".into() });
        }
        let (log, appended) = (self.log(), self.log().appended());
        if after != appended {
            return Err(Error::Log(arbor_log::Error::NotAppended { position: after, appended }));
        }
        let mut last = appended;
        if !payloads.is_empty() {
            log.begin_epoch(epoch).map_err(log_error)?;
            last = log.append(payloads).map_err(log_error)?;
            for (at, payload) in payloads.iter().enumerate() {
                self.loads().received(&**self.engine(), Position(appended.0 + 1 + at as u64), payload)?;
            }
            log.request_sync();
            self.path.notify_appended(last);
        }
        committed.matched = last;
        Ok(last)
    }

    /// Cuts off records of the log that the leader does not have.
    ///
    /// # Panics
    /// Panics when they were applied: what was applied is committed (R7).
    pub fn cut_behind(&self, position: Position) -> Result<()> {
        let committed = self.path.lock();
        let Lead::Other(_) = &committed.lead else { return Err(Error::Refused { reason: "this member leads".into() }) };
        let applied = self.engine().applied_in_part();
        assert!(position >= applied, "R7: a cut behind {position}, and {applied} is applied");
        assert!(position >= self.path.published(), "R7: a cut behind {position}, which is before what readers see");
        self.log().cut_behind(position).map_err(log_error)?;
        self.path.cut_to(position);
        drop(committed);
        Ok(())
    }

    /// Has `observer` called about records that another member has committed. Only the first call counts.
    pub fn observe(&self, observer: Arc<dyn Applied>) {
        self.path.set_observer(observer);
    }

    /// Has `listener` called after each sync of the log, by the thread that synced it. Only the first call counts.
    pub fn on_durable(&self, listener: AppendListener) {
        self.path.set_durable_listener(listener);
    }

    /// Has `listener` called after appends to the log under [`CommitRule::Set`]. Only the first call counts.
    pub fn on_append(&self, listener: AppendListener) {
        self.path.set_append_listener(listener);
    }
}

impl CommitPath {
    /// From now on a commit counts when the set has it; all that was published does already.
    pub(crate) fn join_set(&self, committed: &mut Committed) {
        committed.rule = CommitRule::Set;
        committed.commit_point = committed.commit_point.max(self.published());
        committed.applied_time = committed.last_time;
        self.is_of_set().store(true, Ordering::Release);
    }

    /// Forgets what only a leader knows, and applies the log from where the engine is.
    pub(crate) fn follow_from_now(&self, committed: &mut Committed) {
        let applied = self.published();
        if !committed.in_flight.is_empty() {
            committed.last_time = committed.applied_time;
        }
        committed.in_flight = Default::default();
        committed.conflicts = ConflictTable::from(applied);
        committed.counters.clear();
        committed.trees.clear();
        committed.matched = applied;
        self.set_logged(applied);
        self.prepared().clear();
        committed.lead = Lead::Other(Applier::new(self.log(), applied));
        self.interrupt();
    }

    /// The engine has another state, at `position`: everything in memory follows.
    pub(crate) fn replace_state(&self, committed: &mut Committed, position: Position) -> Result<()> {
        assert!(
            self.engine().applied() == position,
            "the state is at {position}, the engine at {}",
            self.engine().applied()
        );
        self.begins_behind(self.log().durable());
        self.publish(position);
        let matched = committed.matched;
        self.follow_from_now(committed);
        committed.matched = matched;
        committed.applied_time = committed.last_time;
        self.loads().scan(&**self.engine(), self.log(), position)?;
        if let Some(observer) = self.observer() {
            observer.replaced(&ReadView::new(self.engine().snapshot()?));
        }
        self.apply_committed(committed)
    }

    pub(crate) fn apply_committed(&self, committed: &mut Committed) -> Result<()> {
        match committed.lead {
            Lead::Own(_) => self.apply_ready_with_reserve(committed),
            Lead::Begins { .. } | Lead::Other(_) => self.apply_log(committed),
        }
    }

    /// Begins the term of a leader once its no-op is visible; tries again when there was no space for its first commit.
    pub(crate) fn begin_if_visible(&self, committed: &mut Committed) -> Result<()> {
        match &committed.lead {
            Lead::Begins { noop, .. } if *noop <= self.published() => self.begin_term(committed),
            _ => Ok(()),
        }
    }

    /// Admits commits: the engine has all that earlier leaders have logged, and the no-op of this one.
    pub(crate) fn begin_term(&self, committed: &mut Committed) -> Result<()> {
        let Lead::Begins { term, noop, .. } = &committed.lead else { return Ok(()) };
        let (term, noop) = (term.clone(), *noop);
        assert!(noop <= self.published(), "a term begins before its no-op at {noop} is visible");
        let ledger = read_ledger(&**self.engine())?;
        let is_new = ledger.is_none();
        if let Some(ledger) = ledger {
            (committed.counters, committed.trees, committed.next_tree) =
                (ledger.counters, ledger.trees, ledger.next_tree);
        }
        committed.conflicts = ConflictTable::from(noop);
        committed.applied_time = committed.last_time;
        self.load_prepared()?;
        committed.lead = Lead::Own(term.clone());
        self.begin_at(noop, committed.next_tree);
        if is_new {
            let mut writes = WriteSet::default();
            writes.create_tree(LEDGER, Default::default());
            let logged = self.log_first(committed, writes, noop);
            if logged.is_err() {
                // Every commit needs the ledger: none is admitted before there is space for it.
                committed.lead = Lead::Begins { term, noop, applier: Applier::new(self.log(), self.published()) };
                return logged;
            }
        }
        self.interrupt();
        Ok(())
    }
}
