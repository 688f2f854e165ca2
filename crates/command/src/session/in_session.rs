//! One command with its session: the session is checked out before the command runs, and released after it with the outcome of
//! the transaction.

use arbor_base::Position;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::CommandInfo;
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::generic::Generic;
use arbor_protocol::log::now_ms;
use arbor_protocol::request::Numbered;
use arbor_query::{Interrupt, LastCommit, Scope};
use arbor_session::{CheckedOut, Intent, Kill, Outcome};
use arbor_store::OpenTransaction;
use arbor_txn::{Durability, Error as TxnError};

use super::statements::{Numbers, Statements};
use super::two_phase::{self, Part};
use super::{CONNECTION, SessionId};
use crate::connection::Bound;
use crate::incoming::Incoming;
use crate::{Commands, Connection, Error, Result};

/// Transaction state that a session holds between operations.
pub(crate) type Work = OpenTransaction;

pub(crate) struct InSession<'s> {
    server: &'s Commands,
    out: CheckedOut<'s, Work>,
    numbers: Numbers,
    post_image: bool,
    part: Part,
}

impl<'s> InSession<'s> {
    /// Waits for the session of a command that is part of a transaction or a retryable write. None: it is neither.
    pub(crate) fn enter(
        server: &'s Commands,
        connection: &mut Connection,
        info: &CommandInfo,
        request: &Incoming<'_>,
        generic: &Generic<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<InSession<'s>>> {
        let body = request.body;
        let bound = connection.bound.and_then(|bound| bound.part(info));
        let own = generic.session.zip(generic.numbered);
        let Some((id, numbered)) = own.or(bound) else { return Ok(None) };
        if connection.bound.is_some() && own.is_some() {
            let text = "A transaction of this connection is open: no command may name another transaction";
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        let numbers = Numbers::read(body)?;
        let out = match check_out(server, id, numbered, interrupt) {
            // it is over already, and this command is how its client learns of it
            Err(error) if own.is_none() && numbered.intent == Intent::Commit => {
                connection.bound = None;
                return Err(error);
            }
            Err(_) if own.is_none() && numbered.intent == Intent::Abort => return Ok(None),
            out => out?,
        };
        let post_image = matches!(body.get("new"), Some(ValueRef::Bool(true) | ValueRef::Int32(1)));
        let mut entered = InSession { server, out, numbers, post_image, part: Part::of(info, body)? };
        if numbered.intent == Intent::Begin {
            entered.begin(connection, body, server.is_of_cluster(request.db))?;
        }
        Ok(Some(entered))
    }

    /// Begins a transaction that belongs to the connection, and leaves it open.
    pub(crate) fn begin_bound(
        server: &'s Commands,
        connection: &Connection,
        body: Doc<'_>,
        interrupt: &Interrupt,
    ) -> Result<Bound> {
        let bound = Bound::new();
        let numbered = Numbered { number: bound.number, intent: Intent::Begin };
        let out = check_out(server, bound.session, numbered, interrupt)?;
        InSession { server, out, numbers: Numbers::From(0), post_image: false, part: Part::Whole }
            .begin(connection, body, false)?;
        Ok(bound)
    }

    /// `of_cluster`: a router may leave it open that changes the cluster, and ends.
    fn begin(&mut self, connection: &Connection, body: Doc<'_>, of_cluster: bool) -> Result<()> {
        self.out.make_room()?;
        let store = &self.server.database.store;
        let work = match two_phase::snapshot_time(body) {
            Some(time) => OpenTransaction::begin_at(store, time)?,
            None if of_cluster => OpenTransaction::begin_unclaimed(store)?,
            None => OpenTransaction::begin(store)?,
        };
        let mut about = connection.slot.describe_client();
        if let Some(concern @ ValueRef::Document(_)) = body.get("readConcern") {
            about.append("readConcern", concern);
        }
        self.out.begin(work, connection.owner(), now_ms(), about.as_bytes().to_vec());
        Ok(())
    }

    /// The number of the transaction that the command is part of.
    pub(crate) fn transaction(&self) -> Option<i64> {
        (self.out.intent() != Intent::Write).then(|| self.out.number())
    }

    /// Returns the position of the snapshot of the open transaction.
    pub(crate) fn position(&self) -> Option<Position> {
        self.out.work().map(OpenTransaction::position)
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The journal of a retryable write.
    pub(crate) fn statements(&self) -> Option<Statements<'_>> {
        let is_write = self.out.intent() == Intent::Write;
        is_write.then(|| Statements { journal: self.out.journal(), post_image: self.post_image })
    }

    /// Returns the scope in which the statements run. `statements` is the journal of a retryable write.
    pub(crate) fn scope<'a>(&'a self, statements: Option<&'a Statements<'a>>) -> Scope<'a> {
        let scope = Scope::of(&self.server.database);
        match (self.out.work(), statements) {
            (Some(work), _) => scope.in_transaction(work),
            (None, Some(statements)) => scope.retryable(statements).numbered(self.numbers.as_numbers()),
            (None, None) => scope,
        }
    }

    /// After the command: commits, aborts, or keeps the transaction for the next operation.
    pub(crate) fn leave(
        mut self,
        outcome: Result<()>,
        reply: &mut DocBuf,
        durability: Durability,
        last_commit: &LastCommit,
    ) -> Result<()> {
        match self.out.intent() {
            Intent::Write => {
                self.append_retried(reply);
                return outcome;
            }
            Intent::Commit => {
                outcome?;
                self.commit(durability, last_commit, reply)?;
            }
            Intent::Abort => {
                outcome?;
                self.out.abort();
            }
            Intent::Continue if let Part::Participant(coordinator) = &self.part => {
                outcome?;
                let coordinator = coordinator.clone();
                self.prepare(&coordinator, reply)?;
            }
            Intent::Begin | Intent::Continue => {
                if outcome.is_err() || has_errors(reply) {
                    self.out.abort();
                }
                return match outcome {
                    Err(error) if error.code == Code::INTERRUPTED => Err(self.why_interrupted(error)),
                    outcome => outcome,
                };
            }
        }
        self.kill_cursors();
        Ok(())
    }

    /// Promises to commit as the coordinator decides. The session is free from then on; the promise does not depend on it.
    fn prepare(&mut self, coordinator: &str, reply: &mut DocBuf) -> Result<()> {
        let number = self.out.number();
        let aborted = || Error::from(arbor_session::Error::Aborted { number });
        let work = self.out.take_work().ok_or_else(aborted)?;
        if work.is_empty() {
            self.out.abort();
            reply.append("readOnly", true);
            return Ok(());
        }
        work.with(|txn| self.out.record_commit(txn, now_ms()));
        let id = two_phase::id_of(self.out.id(), number);
        let about = DocBuf::new().with("coordinator", coordinator);
        match work.prepare(id, about.as_bytes()) {
            Ok(time) => {
                self.out.unsettled();
                reply.append("prepareTimestamp", timestamp(time));
                reply.append("transaction", two_phase::binary(&id));
                Ok(())
            }
            Err(error) => {
                // what may be prepared is ended by its coordinator's decision
                match &error {
                    arbor_store::Error::Txn(TxnError::Unsettled { .. } | TxnError::CommittedNotApplied { .. }) => {
                        self.out.unsettled();
                    }
                    _ => self.out.abort(),
                }
                self.kill_cursors();
                Err(error.into())
            }
        }
    }

    fn commit(&mut self, durability: Durability, last_commit: &LastCommit, reply: &mut DocBuf) -> Result<()> {
        let decides = if let Part::Coordinator(about) = &self.part { Some(about.clone()) } else { None };
        let id = two_phase::id_of(self.out.id(), self.out.number());
        if self.out.outcome() == Outcome::WasCommitted {
            if decides.is_some()
                && let Some(decision) = self.server.database.transactions.decision(&id)?
            {
                reply.append("commitTimestamp", timestamp(decision.time));
            }
            return Ok(self.server.database.make_durable(durability, None)?);
        }
        let number = self.out.number();
        let aborted = || Error::from(arbor_session::Error::Aborted { number });
        let work = self.out.take_work().ok_or_else(aborted)?;
        if (!work.is_empty() || decides.is_some()) && self.out.id().user != CONNECTION {
            work.with(|txn| self.out.record_commit(txn, now_ms()));
        }
        let committed = match decides {
            None => work.commit(durability),
            Some(about) => work.commit_deciding(id, about.as_bytes()).map(|(position, time)| {
                reply.append("commitTimestamp", timestamp(time));
                position
            }),
        };
        match committed {
            Ok(position) => {
                last_commit.is_at(position);
                self.out.committed();
                Ok(())
            }
            Err(error) => {
                match &error {
                    // it is in the log and must not be tried again
                    arbor_store::Error::Txn(TxnError::CommittedNotApplied { .. }) => self.out.committed(),
                    arbor_store::Error::Txn(TxnError::Unsettled { .. }) => self.out.unsettled(),
                    _ => self.out.abort(),
                }
                self.kill_cursors();
                Err(error.into())
            }
        }
    }

    /// Appends `retriedStmtIds`.
    fn append_retried(&self, reply: &mut DocBuf) {
        let retried = self.out.journal().retried();
        let Some(first) = retried.first() else { return };
        self.server.sessions.statistics().retried_commands.add(1);
        match reply.get("lastErrorObject") {
            Some(_) => reply.append("retriedStmtId", *first),
            None => reply.append("retriedStmtIds", &retried.iter().copied().collect::<ArrayBuf>()),
        };
    }

    fn why_interrupted(&self, error: Error) -> Error {
        match self.out.kill_requested() {
            Some(Kill::Expired) => {
                let text = "operation was interrupted because the transaction exceeded the configured \
                            'transactionLifetimeLimitSeconds'";
                Error::new(Code::TRANSACTION_EXCEEDED_LIFETIME_LIMIT_SECONDS, text)
            }
            _ => error,
        }
    }

    fn kill_cursors(&self) {
        let session = super::bytes(self.out.id());
        self.server.database.cursors.kill_transaction(&session, self.out.number());
    }
}

fn check_out<'s>(
    server: &'s Commands,
    id: SessionId,
    numbered: Numbered,
    interrupt: &Interrupt,
) -> Result<CheckedOut<'s, Work>> {
    let Numbered { number, intent } = numbered;
    let out = server.sessions.check_out(id, number, intent, now_ms(), &|| interrupt.check().is_err());
    match (out, interrupt.check()) {
        // a kill and a time limit have errors of their own
        (Err(arbor_session::Error::Interrupted), Err(error)) => Err(error.into()),
        (out, _) => Ok(out?),
    }
}

/// Returns true if a statement of a write command failed, which aborts the transaction.
fn has_errors(reply: &DocBuf) -> bool {
    reply.get("writeErrors").is_some() || matches!(reply.get("nErrors"), Some(ValueRef::Int32(1..)))
}
