//! Taking and leaving the office of primary, and what is written on such occasions.

use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_oplog::{Change, Kind, Place};
use arbor_protocol::log::{events, now_ms};
use arbor_query::{Interrupt, Scope, UpdateSpec, UpdateStatement};
use arbor_repl::{Election, Replication, Role};
use arbor_store::Namespace;
use arbor_txn::{Durability, Transactions};

use crate::{Commands, Result};

/// Notes that are about no collection stand under no tree.
const NOWHERE: TreeId = TreeId(0);

/// Tells the readers of the history something that changes nothing.
pub(crate) fn note_noop(transactions: &Transactions, says: Doc<'_>, durability: Durability) -> Result<()> {
    let mut txn = transactions.begin()?;
    txn.describe(NOWHERE, || Place { namespace: "", uuid: None }.encode());
    txn.note(NOWHERE, Change::of(Kind::Noop(says)).encode());
    txn.commit(durability)?;
    Ok(())
}

/// What is written on such occasions is good to have; a disk that is full or gone keeps nobody from the office.
impl Commands {
    /// At the start: the only member of its set is primary at once. Without effect on a standalone.
    pub fn begin_replication(&self) {
        let Some(replication) = &self.replication else { return };
        self.attempt(self.read_kept(replication));
        match replication.standing().role {
            Role::Startup => {}
            Role::Removed => {
                self.log.startup_warning(events::NOT_A_MEMBER, DocBuf::new().with("set", replication.name()))
            }
            Role::Primary | Role::Secondary => self.take_office(replication),
        }
    }

    /// Behind a new configuration: it is shown, noted, and the member stands as it says.
    pub(crate) fn configuration_changed(&self, replication: &Replication, says: &DocBuf) {
        self.tell_feed(replication);
        self.note(says);
        match replication.standing().role {
            Role::Secondary => self.take_office(replication),
            _ => {
                self.attempt(self.show_configuration(replication));
                self.role_changed();
            }
        }
    }

    pub(crate) fn take_office(&self, replication: &Replication) {
        self.tell_feed(replication);
        self.attempt(self.show_configuration(replication));
        self.note(&DocBuf::new().with("msg", "new primary"));
        let election = Election { at_ms: now_ms(), time: self.database.transactions.time() };
        let before = replication.set_role(Role::Primary, Some(election), None);
        self.log_role(before, Role::Primary);
        self.role_changed();
    }

    fn note(&self, says: &DocBuf) {
        self.attempt(note_noop(&self.database.transactions, says.as_doc(), Durability::Journaled));
    }

    fn attempt(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.log.warn(events::ROLE_NOT_WRITTEN, "ReplCoord", DocBuf::new().with("error", &error.to_string()));
        }
    }

    /// Resume tokens and entries of the oplog name the set and the term.
    fn tell_feed(&self, replication: &Replication) {
        let standing = replication.standing();
        if let Some(id) = standing.config.as_ref().and_then(|config| config.settings.set_id) {
            self.database.feed.set_deployment(id.0);
        }
        self.database.feed.set_term(replication.term());
    }

    /// The primary steps down, for a time.
    pub(crate) fn leave_office(&self, replication: &Replication, time: Duration) {
        let before = replication.set_role(Role::Secondary, None, Some(Instant::now()));
        replication.freeze(time);
        self.log_role(before, Role::Secondary);
        self.role_changed();
    }

    /// Takes the office again when the time is over. To be called about every second.
    pub(crate) fn return_to_office(&self) {
        let Some(replication) = self.replication.as_ref().filter(|member| member.may_return(Instant::now())) else {
            return;
        };
        self.take_office(replication);
    }

    fn log_role(&self, before: Role, after: Role) {
        let attributes = DocBuf::new().with("newState", after.code().1).with("oldState", before.code().1);
        self.log.info(events::ROLE_CHANGED, "ReplCoord", attributes);
    }

    /// Everybody who waits for it hears of the new role or configuration.
    pub(crate) fn role_changed(&self) {
        self.topology.count_up();
        self.host.topology_changed();
    }

    /// `local.system.replset` shows what was agreed on; nothing reads it here.
    fn show_configuration(&self, replication: &Replication) -> Result<()> {
        let standing = replication.standing();
        let Some(config) = &standing.config else { return Ok(()) };
        self.keep(&Namespace::new("local", "system.replset")?, config.to_doc(standing.term).as_doc())
    }

    /// Puts a document of the server's own in the place of the one with its `_id`.
    pub(crate) fn keep(&self, namespace: &Namespace, doc: Doc<'_>) -> Result<()> {
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
        let outcome = arbor_query::update(&Scope::of_server(&self.database), &spec, &Interrupt::default())?;
        match outcome.errors.into_iter().next() {
            Some(failed) => Err(failed.error.into()),
            None => Ok(()),
        }
    }
}
