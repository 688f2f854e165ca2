//! Becoming primary and stepping down, and the entries written when the role changes.

use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_oplog::{Change, Kind, Place};
use arbor_protocol::log::{events, now_ms};
use arbor_query::{Interrupt, Scope, UpdateSpec, UpdateStatement};
use arbor_repl::{Election, Replication, Role};
use arbor_store::Namespace;
use arbor_txn::{CommitRule, Durability, Transactions};

use crate::{Commands, Result};

/// Change notes without a collection use tree id 0.
const NO_TREE: TreeId = TreeId(0);

/// Writes a no-op entry to the history.
pub(crate) fn note_noop(transactions: &Transactions, says: Doc<'_>, durability: Durability) -> Result<()> {
    let mut txn = transactions.begin()?;
    txn.describe(NO_TREE, || Place { namespace: "", uuid: None, shard_key: None }.encode());
    txn.note(NO_TREE, Change::of(Kind::Noop(says)).encode());
    txn.commit(durability)?;
    Ok(())
}

/// Logs a no-op without waiting for the other members.
fn begin_noop(transactions: &Transactions, says: Doc<'_>) -> Result<()> {
    let mut txn = transactions.begin()?;
    txn.describe(NO_TREE, || Place { namespace: "", uuid: None, shard_key: None }.encode());
    txn.note(NO_TREE, Change::of(Kind::Noop(says)).encode());
    let _in_flight = txn.commit_begin()?;
    Ok(())
}

/// Entries written on role changes are optional: a disk that is full or has failed does not prevent becoming primary.
impl Commands {
    /// Starts replication: the only member of its set becomes primary at once. No effect on a standalone.
    pub fn begin_replication(&self) {
        let Some(replication) = &self.replication else { return };
        self.watch_settings();
        self.load_own_facts();
        if let Some(known) = replication.kept() {
            if let Err(error) = self.begin_several(replication, known.clone()) {
                let attributes = DocBuf::new().with("error", &error.to_string());
                self.log.error(events::MEMBER_FAILED, "ReplCoord", attributes);
            }
            return;
        }
        if !self.database.transactions.is_leading() {
            // It was never initiated, and writes nothing before.
            return;
        }
        self.attempt(self.load_defaults(replication));
        match replication.state().role {
            Role::Startup | Role::Startup2 => {}
            Role::Removed => {
                self.log.startup_warning(events::NOT_A_MEMBER, DocBuf::new().with("set", replication.name()))
            }
            Role::Primary | Role::Secondary => self.become_primary(replication),
        }
    }

    /// The only member of a new set begins to write.
    pub(crate) fn begin_alone(&self, replication: &Replication) -> Result<()> {
        let transactions = &self.database.transactions;
        if transactions.is_leading() {
            return Ok(());
        }
        let begun = transactions.lead(replication.term().unsigned_abs())?;
        transactions.make_durable(None)?;
        transactions.set_commit_point(begun.position())?;
        transactions.set_rule(CommitRule::Own)?;
        self.database.store.lead()?;
        self.load_defaults(replication)
    }

    /// Applies a new configuration: publishes it, notes it in the history, and updates the member's role.
    pub(crate) fn configuration_changed(&self, replication: &Replication, says: &DocBuf) {
        self.update_feed(replication);
        self.note(says);
        match replication.state().role {
            Role::Secondary => self.become_primary(replication),
            _ => self.role_changed(),
        }
    }

    pub(crate) fn become_primary(&self, replication: &Replication) {
        self.update_feed(replication);
        self.attempt(self.drop_rows_of_facts());
        self.note(&DocBuf::new().with("msg", "new primary"));
        // what the one before knew is in rows
        self.attempt(self.begin_sharding());
        let election = Election { at_ms: now_ms(), time: self.database.transactions.time() };
        self.change_role(replication, Role::Primary, Some(election), None);
    }

    pub(crate) fn note(&self, says: &DocBuf) {
        self.attempt(note_noop(&self.database.transactions, says.as_doc(), Durability::Journaled));
    }

    pub(super) fn attempt(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.log.warn(events::ROLE_NOT_WRITTEN, "ReplCoord", DocBuf::new().with("error", &error.to_string()));
        }
    }

    /// Sets the set's id of the feed, which resume tokens contain.
    pub(super) fn update_feed(&self, replication: &Replication) {
        let state = replication.state();
        if let Some(id) = state.config.as_ref().and_then(|config| config.settings.set_id) {
            self.database.feed.set_deployment(id.0);
        }
    }

    /// Steps down for a period.
    pub(crate) fn step_down(&self, replication: &Replication, time: Duration) {
        self.change_role(replication, Role::Secondary, None, Some(Instant::now()));
        replication.freeze(time);
    }

    /// Upkeep of the primary, about every second: a no-op when nothing was written for a while, so that times advance on an idle set; and
    /// the limit of the log that is kept for the others.
    pub(crate) fn tend_primary(&self, now: Instant) {
        let Some(replication) = self.replication.as_deref() else { return };
        let transactions = &self.database.transactions;
        if self.several.handle().is_some() {
            let held_mb = self.parameters.int("logHeldForMembersMB").and_then(|mb| u64::try_from(mb).ok()).unwrap_or(0);
            transactions.set_log_held_max(held_mb.saturating_mul(1 << 20));
        }
        if !replication.is_primary() || !self.parameters.bool("writePeriodicNoops") {
            return;
        }
        let interval = self.parameters.int("periodicNoopIntervalSecs").and_then(|seconds| u64::try_from(seconds).ok());
        if self.several.is_idle_for(Duration::from_secs(interval.unwrap_or(10).max(1)), transactions, now) {
            self.attempt(begin_noop(transactions, DocBuf::new().with("msg", "periodic noop").as_doc()));
        }
    }

    /// Becomes primary again when the stepdown period has expired. To be called about every second.
    pub(crate) fn resume_primary(&self) {
        let Some(replication) = self.replication.as_ref().filter(|member| member.may_resume_primary(Instant::now()))
        else {
            return;
        };
        self.become_primary(replication);
    }

    /// Takes a role and wakes the clients that wait for a change of the topology.
    pub(super) fn change_role(
        &self,
        replication: &Replication,
        role: Role,
        election: Option<Election>,
        stepped_down_until: Option<Instant>,
    ) {
        let before = self.topology.change(|| replication.set_role(role, election, stepped_down_until));
        self.host.topology_changed();
        let attributes = DocBuf::new().with("newState", role.code().1).with("oldState", before.code().1);
        self.log.info(events::ROLE_CHANGED, "ReplCoord", attributes);
    }

    /// Wakes all waiters for a change of role or configuration.
    pub(crate) fn role_changed(&self) {
        self.topology.count_up();
        self.host.topology_changed();
    }

    /// Replaces, or inserts, a document of the server's own by its `_id`.
    pub(crate) fn persist(&self, namespace: &Namespace, doc: Doc<'_>) -> Result<()> {
        self.persist_in(&Scope::of_server(&self.database), namespace, doc)
    }

    /// Stores a document in the place of the one with its `_id`, as a statement of a scope.
    pub(crate) fn persist_in(&self, scope: &Scope<'_>, namespace: &Namespace, doc: Doc<'_>) -> Result<()> {
        let id: DocBuf = doc.get("_id").into_iter().map(|id| ("_id", id)).collect();
        let statement = UpdateStatement {
            q: id.as_doc(),
            u: ValueRef::Document(doc),
            c: None,
            multi: false,
            upsert: true,
            array_filters: Vec::new(),
            hint: None,
            collation: None,
            sort: None,
        };
        let spec = UpdateSpec {
            namespace: namespace.clone(),
            updates: vec![statement],
            ordered: true,
            let_variables: None,
            durability: Durability::Journaled,
            bypass_validation: true,
        };
        let outcome = arbor_query::update(scope, &spec, &Interrupt::default())?;
        match outcome.errors.into_iter().next() {
            Some(failed) => Err(failed.error.into()),
            None => Ok(()),
        }
    }
}
