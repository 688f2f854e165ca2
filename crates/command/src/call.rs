//! One command in flight, as its file in `cmd/` sees it.

use std::time::Instant;

use arbor_base::memory::Reservation;
use arbor_bson::{Code, Doc, DocBuf, FieldRef, ValueRef};
use arbor_protocol::CommandInfo;
use arbor_protocol::arguments::{Field, is_present, type_name};
use arbor_protocol::generic::{Generic, is_generic};
use arbor_query::{CursorOptions, Database, Interrupt, LastCommit, Scope, Sharded};
use arbor_repl::Replication;
use arbor_store::Namespace;
use arbor_txn::ReadView;
use arbor_wire::Sequence;

use crate::concerns::PastView;
use crate::session::statements::Statements;
use crate::session::{self, InSession};
use crate::{Commands, Connection, Error, Result};

pub(crate) struct Call<'c> {
    pub server: &'c Commands,
    pub connection: &'c mut Connection,
    pub info: &'static CommandInfo,
    pub db: &'c str,
    pub body: Doc<'c>,
    pub sequences: &'c [Sequence<'c>],
    pub generic: Generic<'c>,
    /// The session, when the command is part of a transaction or a retryable write.
    pub session: Option<&'c InSession<'c>>,
    /// The statements of a retryable write.
    pub statements: Option<&'c Statements<'c>>,
    /// The request is a query of the old wire protocol.
    pub is_of_old_client: bool,
    pub interrupt: Interrupt,
    /// Log position of the last commit.
    pub last_commit: &'c LastCommit,
    /// The past state that the command reads.
    pub view: Option<&'c PastView>,
    /// The state for which the versions of the request were checked.
    pub owned_view: Option<&'c ReadView>,
    /// The collection, if it is sharded and the request comes from a router.
    pub sharded: Option<&'c dyn Sharded>,
    /// Time at which a router reads all shards.
    pub routed_time: Option<u64>,
    /// Until when the command waits for news, as it said when it ran before.
    pub waited_until: Option<Instant>,
    /// The command has no reply yet: it is to run again when there are news, and at this time.
    pub wait_until: Option<Instant>,
    /// Fields of the reply; `ok` is appended when the command succeeds.
    pub reply: DocBuf,
    /// Memory of a large reply, until it is encoded.
    pub reply_memory: Option<Reservation>,
    /// Plan statistics for the slow query log.
    pub plan: Plan,
}

/// Statistics of one statement for the slow query log.
#[derive(Default)]
pub(crate) struct Plan {
    pub returned: Option<u64>,
    pub cursor_id: i64,
    /// The shape of a statement whose statistics are kept.
    pub shape: Option<DocBuf>,
}

impl<'c> Call<'c> {
    /// Keeps the shape of the statement if its statistics are kept.
    pub(crate) fn note_shape(&mut self, shape: impl FnOnce() -> DocBuf) {
        if self.server.query_statistics.takes_one() {
            self.plan.shape = Some(shape());
        }
    }

    pub(crate) fn database(&self) -> &'c Database {
        &self.server.database
    }

    /// Returns the scope in which the statements of this command run.
    pub(crate) fn scope(&self) -> Scope<'c> {
        let scope = match (self.session, self.view, self.owned_view) {
            (Some(session), ..) => session.scope(self.statements),
            (None, Some((view, _)), _) | (None, None, Some(view)) => Scope::of(self.database()).at(view),
            (None, None, None) => Scope::of(self.database()),
        };
        scope.noting(self.last_commit).of_sharded(self.sharded)
    }

    /// Returns a command inside this one, which is read and not run by itself.
    pub(crate) fn inside<'i>(&'i mut self, info: &'static CommandInfo, db: &'i str, body: Doc<'i>) -> Call<'i> {
        Call {
            server: self.server,
            connection: &mut *self.connection,
            info,
            db,
            body,
            sequences: &[],
            generic: self.generic,
            session: None,
            statements: None,
            is_of_old_client: self.is_of_old_client,
            interrupt: self.interrupt.clone(),
            last_commit: self.last_commit,
            view: self.view,
            owned_view: self.owned_view,
            sharded: self.sharded,
            routed_time: None,
            waited_until: None,
            wait_until: None,
            reply: DocBuf::new(),
            reply_memory: None,
            plan: Plan::default(),
        }
    }

    /// Returns the owner of a cursor that this command opens.
    pub(crate) fn cursor_owner(&self) -> CursorOptions {
        CursorOptions {
            session: self.generic.session.map(session::bytes),
            transaction: self.session.and_then(InSession::transaction),
            no_timeout: false,
            owner: self.connection.owner(),
            user: self.connection.user(),
        }
    }

    /// Errors: this server is a standalone.
    pub(crate) fn replication(&self) -> Result<&'c Replication> {
        let not_running = || Error::new(Code::NO_REPLICATION_ENABLED, "not running with --replSet");
        self.server.replication.as_deref().ok_or_else(not_running)
    }

    /// A field of this command, for reading it or for its error.
    pub(crate) fn field<'n>(&self, name: &'n str) -> Field<'n> {
        Field::new(self.info.name, name)
    }

    /// Returns the command's own fields that have a value: neither its first one nor those that every command takes.
    pub(crate) fn own_fields(&self) -> impl Iterator<Item = (&'c str, ValueRef<'c>)> + use<'c> {
        let command = self.info.name;
        let own = self.body.fields().skip(1).filter(|field| !is_generic(field.name)).map_while(FieldRef::read);
        own.filter(move |(name, value)| is_present(*value) || refuses_null(command, name))
    }

    /// Refuses every field but those of `known`; for commands that read their few fields one by one.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        match self.own_fields().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => self.unknown(self.field(name)),
            None => Ok(()),
        }
    }

    /// Refuses a field that the command does not know, unless the command ignores such fields.
    pub(crate) fn unknown(&self, field: Field<'_>) -> Result<()> {
        if self.info.ignores_unknown_fields() { Ok(()) } else { Err(field.unknown().into()) }
    }

    /// Returns the value of an optional field; null and undefined are none.
    pub(crate) fn optional(&self, name: &str) -> Option<ValueRef<'c>> {
        self.body.get(name).filter(|value| is_present(*value))
    }

    /// Returns the value of a required field. Errors: it is missing.
    pub(crate) fn required(&self, name: &str) -> Result<ValueRef<'c>> {
        self.optional(name).ok_or_else(|| self.field(name).missing().into())
    }

    /// The value behind the command's name.
    pub(crate) fn target(&self) -> ValueRef<'c> {
        self.body.first().map_or(ValueRef::Null, |(_, value)| value)
    }

    /// `db.collection` of a command that names its collection.
    pub(crate) fn namespace(&self) -> Result<Namespace> {
        let name = match self.target() {
            ValueRef::String(name) | ValueRef::Symbol(name) => name,
            other => {
                let text = format!("collection name has invalid type {}", type_name(other.ty()));
                return Err(Error::new(Code::INVALID_NAMESPACE, text));
            }
        };
        Ok(Namespace::new(self.db, name)?)
    }

    /// Returns the documents of a field: an array of the body, or a document sequence of the message.
    pub(crate) fn documents(&self, name: &str) -> Result<Vec<Doc<'c>>> {
        if let Some(sequence) = self.sequences.iter().find(|sequence| sequence.name == name) {
            return Ok(sequence.iter().collect());
        }
        Ok(self.field(name).documents(self.required(name)?)?)
    }
}

/// Returns true for fields that take no null in place of nothing: MongoDB reads them by code of their own.
fn refuses_null(command: &str, field: &str) -> bool {
    matches!(
        (command, field),
        (_, "hint")
            | ("aggregate", "allowDiskUse" | "cursor" | "explain" | "pipeline")
            | ("collMod", "expireAfterSeconds")
            | ("count", "limit")
            | ("create", "clusteredIndex")
            | ("hello" | "isMaster", "saslSupportedMechs")
    )
}
