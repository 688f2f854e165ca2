//! Semantics of read concern, write concern and cluster time: on a member the guarantees of the set, on a standalone those of
//! the server alone.

use std::time::Instant;

use arbor_base::Position;
use arbor_bson::DocBuf;
use arbor_protocol::CommandInfo;
use arbor_protocol::generic::Generic;
use arbor_protocol::metrics::Class;
use arbor_protocol::read_concern::{Level, ReadConcern};
use arbor_protocol::write_concern::{Refused, WriteConcern};
use arbor_txn::{Durability, ReadView};

use crate::{Commands, Result};

/// The past state that a command reads, and its time.
pub type PastView = (ReadView, u64);

/// Only these wait for the writes of a transaction.
fn ends_transaction(info: &CommandInfo) -> bool {
    matches!(info.name, "commitTransaction" | "abortTransaction")
}

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
            Some(time) => (transactions.view_at(time)?, time),
            None => transactions.read_timed()?,
        }))
    }

    /// After a command has run: waits for what its concerns ask for, or says why that is not to be had. `commit`: its last one.
    pub(crate) fn settle_concerns(
        &self,
        info: &CommandInfo,
        generic: &Generic<'_>,
        commit: Option<Position>,
        reply: &mut DocBuf,
    ) -> Result<()> {
        if generic.read_concern.is_durable() && !generic.is_in_transaction() {
            self.database.make_durable(Durability::Journaled, None)?;
        }
        let Some(replication) = self.replication.as_ref().filter(|_| info.takes_write_concern()) else { return Ok(()) };
        if let Some(refused) = self.refusal(generic.write_concern, commit) {
            let error = match generic.given_write {
                Some(given) => given.error(refused, "clientSupplied"),
                None => replication.defaults().write().error(refused, "customDefault"),
            };
            reply.append("writeConcernError", &error);
        }
        Ok(())
    }

    /// Waits as the write concern requests and returns the part of it that cannot be satisfied.
    fn refusal(&self, concern: WriteConcern, commit: Option<Position>) -> Option<Refused> {
        let Some(patience) = concern.patience else { return concern.refused };
        let durable = self.database.transactions.is_durable_by(commit, Instant::now() + patience);
        concern.refused.or((!durable).then_some(Refused::TimeOver))
    }
}
