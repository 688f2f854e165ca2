//! Semantics of read concern, write concern and cluster time: on a member the guarantees of the set, on a standalone those of
//! the server alone.

use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::{Code, DocBuf};
use arbor_protocol::CommandInfo;
use arbor_protocol::generic::Generic;
use arbor_protocol::metrics::Class;
use arbor_protocol::read_concern::{Level, ReadConcern};
use arbor_protocol::write_concern::{Refused, W, WriteConcern};
use arbor_repl::Replication;
use arbor_txn::{Durability, ReadView};

use crate::{Commands, Error, Result};

/// The past state that a command reads, and its time.
pub(crate) type PastView = (ReadView, u64);

/// Longest wait for a state that another member has, unless the client says another.
const AFTER_MAX: Duration = Duration::from_secs(30);

fn deposed() -> Error {
    let text = "the primary has not heard from all members in sync for too long: another one may lead";
    Error::new(Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE, text)
}

/// Only these wait for the writes of a transaction.
fn ends_transaction(info: &CommandInfo) -> bool {
    matches!(info.name, "commitTransaction" | "abortTransaction")
}

/// Errors of requests that did not run.
const OF_PARSING: &[Code] = &[Code::FAILED_TO_PARSE, Code::TYPE_MISMATCH, Code(40414), Code(40415)];

impl Commands {
    /// Returns true if reads without a read concern wait for durability.
    pub(crate) fn reads_may_wait(&self) -> bool {
        self.replication.as_ref().is_some_and(|replication| replication.defaults().read == Some(Level::Majority))
    }

    /// Before a command runs. Errors: what makes no sense, or promises what is not there.
    pub(crate) fn resolve_concerns(&self, info: &CommandInfo, generic: &mut Generic<'_>) -> Result<()> {
        if info.name == "getMore" {
            // its cursor reads what it read from the beginning
            generic.read_concern = ReadConcern::default();
        }
        let Some(replication) = &self.replication else {
            generic.read_concern.check_on_standalone()?;
            if let Some(given) = generic.given_write {
                generic.write_concern = given.on_standalone()?;
            }
            return Ok(());
        };
        if let Some(shown) = generic.cluster_time {
            self.advance_time(shown)?;
        }
        if generic.is_in_transaction() {
            generic.read_concern.check_times(self.database.transactions.time())?;
        } else {
            generic.read_concern.check_on_member(info, self.database.transactions.time())?;
            if info.class == Class::Read && generic.read_concern == ReadConcern::default() {
                generic.read_concern.level = replication.defaults().read;
            }
        }
        if let Some(after) = generic.read_concern.after
            && self.several.handle().is_some()
            && !replication.is_primary()
        {
            self.wait_for_time(after, generic.max_time)?;
        }
        if info.class == Class::Read && self.several.handle().is_some() && !replication.is_primary() {
            self.wait_for_trees(generic.max_time)?;
        }
        if info.takes_write_concern() && (!generic.is_in_transaction() || ends_transaction(info)) {
            let defaults = replication.defaults();
            let given = generic.given_write.unwrap_or_else(|| defaults.write());
            generic.write_concern = replication.resolve(given);
        }
        Ok(())
    }

    /// The state for a command that asks for one state; commands of a transaction read the transaction's.
    pub(crate) fn past_view(&self, generic: &Generic<'_>) -> Result<Option<PastView>> {
        let concern = generic.read_concern;
        if concern.level != Some(Level::Snapshot) || generic.is_in_transaction() {
            return Ok(None);
        }
        let transactions = &self.database.transactions;
        Ok(Some(match concern.at {
            // shards are read at one time
            Some(time) if self.ownership.is_some() => (transactions.view_sealed_at(time)?, time),
            Some(time) => (transactions.view_at(time)?, time),
            None => transactions.read_timed()?,
        }))
    }

    /// After a command has run: waits for what its concerns ask for, or says why that is not to be had. `commit`: its last one, and how
    /// long a write waits for other members.
    pub(crate) fn settle_concerns(
        &self,
        info: &CommandInfo,
        generic: &Generic<'_>,
        commit: (Option<Position>, Option<Instant>),
        reply: &mut DocBuf,
    ) -> Result<()> {
        self.check_reads(info, generic)?;
        if generic.read_concern.is_durable() && !generic.is_in_transaction() {
            self.database.make_durable(Durability::Journaled, None)?;
        }
        let Some(replication) = self.replication.as_ref().filter(|_| info.takes_write_concern()) else { return Ok(()) };
        let more = self.wait_for_more(replication, generic, commit.0);
        if let Some(refused) = more.or_else(|| self.refusal(generic.write_concern, commit))
            && let Some(error) = self.concern_error(generic, refused)
        {
            reply.append("writeConcernError", &error);
        }
        Ok(())
    }

    /// Adds to the error of a command that ran that its write concern cannot be satisfied either.
    pub(crate) fn with_concern_error(&self, info: &CommandInfo, generic: &Generic<'_>, mut error: Error) -> Error {
        let ran = info.takes_write_concern() && !generic.is_in_transaction() && !OF_PARSING.contains(&error.code);
        if let Some(refused) = generic.write_concern.refused.filter(|_| ran)
            && let Some(refused) = self.concern_error(generic, refused)
        {
            let details = error.details.take().unwrap_or_default().with("writeConcernError", &refused);
            return error.with_details(details);
        }
        error
    }

    fn concern_error(&self, generic: &Generic<'_>, refused: Refused) -> Option<DocBuf> {
        let replication = self.replication.as_ref()?;
        Some(match generic.given_write {
            Some(given) => given.error(refused, "clientSupplied"),
            None => replication.defaults().write().error(refused, "customDefault"),
        })
    }

    /// Waits for members beyond what the commit point says: `w: 3`, and modes of the configuration.
    fn wait_for_more(
        &self,
        replication: &Replication,
        generic: &Generic<'_>,
        commit: Option<Position>,
    ) -> Option<Refused> {
        let (handle, position) = self.several.handle().zip(commit)?;
        let defaults = replication.defaults();
        let given = generic.given_write.unwrap_or_else(|| defaults.write());
        let config = replication.state().config?;
        if generic.write_concern.refused.is_some() {
            return None;
        }
        let timeout = u64::try_from(given.timeout_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let reached = match given.w? {
            W::Number(copies @ 2..) => handle.reached(position, deadline, |held| held.len() as i64 >= copies),
            W::Mode(mode) => handle.reached(position, deadline, |held| config.is_satisfied_by(mode, held)),
            W::Tags(tags) => handle.reached(position, deadline, |held| config.is_reached_by(tags.iter(), held)),
            W::Number(_) | W::Majority => true,
        };
        (!reached).then_some(Refused::TimeOver)
    }

    /// On a member that follows: waits until it shows what the client has seen elsewhere.
    fn wait_for_time(&self, after: u64, limit: Option<Duration>) -> Result<()> {
        let transactions = &self.database.transactions;
        let deadline = Instant::now() + limit.unwrap_or(AFTER_MAX);
        while transactions.applied_time() < after {
            let now = Instant::now();
            if now >= deadline {
                return Err(arbor_query::Error::TimeExpired.into());
            }
            let soon = deadline.min(now + Duration::from_millis(20));
            transactions.position_reached(transactions.shown().next()).wait(soon);
        }
        Ok(())
    }

    /// Waits until all trees show one state: one that was fetched after a restart may be ahead of the others.
    fn wait_for_trees(&self, limit: Option<Duration>) -> Result<()> {
        let transactions = &self.database.transactions;
        let Some(mut until) = transactions.loads().unreadable_until() else { return Ok(()) };
        let deadline = Instant::now() + limit.unwrap_or(AFTER_MAX);
        loop {
            if Instant::now() >= deadline {
                return Err(arbor_query::Error::TimeExpired.into());
            }
            let soon = deadline.min(Instant::now() + Duration::from_millis(20));
            transactions.position_reached(until).wait(soon);
            match transactions.loads().unreadable_until() {
                Some(later) => until = later,
                None => return Ok(()),
            }
        }
    }

    /// After a read of the primary: was it still primary? Other members promised not to take over for a while.
    fn check_reads(&self, info: &CommandInfo, generic: &Generic<'_>) -> Result<()> {
        let Some(handle) = self.several.handle() else { return Ok(()) };
        if info.class == Class::Read && self.replication.as_ref().is_some_and(|replication| replication.is_syncing()) {
            let text = "this member began to copy the data of another one";
            return Err(Error::new(Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE, text));
        }
        let plain = !matches!(generic.read_concern.level, Some(Level::Majority | Level::Snapshot | Level::Available));
        let primary = self.replication.as_ref().is_some_and(|replication| replication.is_primary());
        if info.class != Class::Read || !plain || !primary || generic.is_in_transaction() || handle.may_read() {
            return Ok(());
        }
        Err(deposed())
    }

    /// Returns the end of the log, for [`Commands::check_idle_write`] when the command has run.
    pub(crate) fn end_before_write(&self, info: &CommandInfo) -> Option<Position> {
        let is_of_several = info.class == Class::Write && self.several.handle().is_some();
        is_of_several.then(|| self.database.transactions.log().appended())
    }

    /// A write that changed nothing says so from the state that it read, as a read does: it is refused where a read would be. One that
    /// shows a commit which came after it had begun was answered by a primary.
    pub(crate) fn check_idle_write(
        &self,
        generic: &Generic<'_>,
        begun_at: Option<Position>,
        shown: Option<Position>,
    ) -> Result<()> {
        let is_idle = begun_at.is_some_and(|end| shown.is_none_or(|shown| shown <= end));
        if is_idle && !generic.is_in_transaction() && self.may_be_deposed() { Err(deposed()) } else { Ok(()) }
    }

    /// An error that follows from the state that was read holds only if this member is still the primary. To say that there is no such
    /// transaction would be to say that it was not committed, and the next primary may have its commit.
    pub(crate) fn checked_error(&self, info: &CommandInfo, error: Error) -> Error {
        let ends = info.name == "commitTransaction" && error.code == Code::NO_SUCH_TRANSACTION;
        let read = info.class == Class::Write && error.code == Code::DUPLICATE_KEY;
        if (ends || read) && self.may_be_deposed() { deposed() } else { error }
    }

    /// Returns true if another member may lead by now, although this one had not heard of it when the command began.
    fn may_be_deposed(&self) -> bool {
        self.several.handle().is_some_and(|handle| !handle.may_read())
    }

    /// Waits as the write concern requests and returns the part of it that cannot be satisfied.
    fn refusal(&self, concern: WriteConcern, commit: (Option<Position>, Option<Instant>)) -> Option<Refused> {
        let (commit, Some(deadline)) = commit else { return concern.refused };
        let durable = self.database.transactions.is_durable_by(commit, deadline);
        concern.refused.or((!durable).then_some(Refused::TimeOver))
    }
}
