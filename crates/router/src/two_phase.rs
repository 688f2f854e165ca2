//! The end of transactions, on one shard or several.
//!
//! ```text
//! router             coordinator (first shard that writes)      other shards that write
//!   │── prepareTransaction ───────────────────────────────────────────> promise, durable
//!   │── commitTransaction, participants ─> own commit and decision,
//!   │<──────────────── commit time          one record, durable
//!   │── _shardsvrSettleTransaction ───────────────────────────────────> commit at that time
//!   │   (reply to the client)
//!   │── _shardsvrForgetDecisions ────────> the decision is not needed any more
//! ```
//!
//! Nothing of it is only on the router: promises name the coordinator, and a decision names the others. Any router continues what another one
//! has left ([`Router::continue_transactions`]); what has no decision by then is aborted.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::labels;
use arbor_query::Interrupt;
use arbor_session::SessionId;
use parking_lot::Mutex;

use crate::shard::Shard;
use crate::transactions::{Ending, Participant, aborted, no_transaction};
use crate::{Request, Router, fields};

/// A promise of this age seems to have been left by its router.
const LEFT_MS: i64 = 2_000;
/// Longest wait for one shard while transactions are continued.
const CONTINUE_MAX: Duration = Duration::from_secs(3);
/// Longest time for what has been begun, whatever becomes of the client.
const FINISH_MAX: Duration = Duration::from_secs(30);

/// The state of a transaction's end.
#[derive(Clone, Default)]
pub(crate) enum Progress {
    #[default]
    Open,
    /// The coordinator was sent the commit, and its reply is not known.
    Undecided(Parts),
    Committed(Arc<Shard>),
    Aborted,
}

/// The parts of a transaction that was prepared.
#[derive(Clone)]
pub(crate) struct Parts {
    coordinator: Arc<Shard>,
    prepared: Vec<Arc<Shard>>,
    /// Name of the transaction on all shards.
    id: Vec<u8>,
}

/// Work of a router on transactions other than those of its clients.
#[derive(Default)]
pub(crate) struct Unfinished {
    /// Decisions that were carried out, by the name of the coordinator.
    carried_out: Mutex<Vec<(String, Vec<u8>)>>,
    /// Decisions that were there at the last look.
    seen: Mutex<HashSet<Vec<u8>>>,
}

fn binary(id: &[u8]) -> ValueRef<'_> {
    ValueRef::Binary { subtype: 0, bytes: id }
}

fn bytes(doc: Doc<'_>, name: &str) -> Option<Vec<u8>> {
    match doc.get(name) {
        Some(ValueRef::Binary { bytes, .. }) => Some(bytes.to_vec()),
        _ => None,
    }
}

fn documents<'d>(doc: Doc<'d>, name: &str) -> impl Iterator<Item = Doc<'d>> {
    fields::array(doc, name).into_iter().flat_map(|all| all.iter()).filter_map(|value| match value {
        ValueRef::Document(doc) => Some(doc),
        _ => None,
    })
}

/// Sends commands to several shards at once; returns the outcome of each.
pub(crate) fn on_each(
    db: &str,
    commands: Vec<(Arc<Shard>, DocBuf)>,
    interrupt: &Interrupt,
) -> Vec<(Arc<Shard>, Result<DocBuf>)> {
    let begun: Vec<_> = commands
        .into_iter()
        .map(|(shard, command)| {
            let sent = shard.begin(db, &command, &[], interrupt);
            (shard, command, sent)
        })
        .collect();
    let ended = begun.into_iter().map(|(shard, command, sent)| {
        let reply = shard.end(sent, db, &command, &[], interrupt);
        (shard, reply)
    });
    ended.collect()
}

/// Carries a decision out; returns true if all shards have. `time`: that of the commit, none aborts.
fn settle(shards: &[Arc<Shard>], id: &[u8], time: Option<u64>, interrupt: &Interrupt) -> bool {
    let mut command = DocBuf::new().with("_shardsvrSettleTransaction", 1i32).with("transaction", binary(id));
    if let Some(time) = time {
        command.append("commitTimestamp", timestamp(time));
    }
    let commands = shards.iter().map(|shard| (shard.clone(), command.clone())).collect();
    on_each("admin", commands, interrupt).iter().all(|(_, outcome)| outcome.is_ok())
}

/// Asks the coordinator, which aborts what has no decision. Returns the commit time.
fn decision(coordinator: &Shard, id: &[u8], interrupt: &Interrupt) -> Result<Option<u64>> {
    let command = DocBuf::new().with("_shardsvrTransactionDecision", 1i32).with("transaction", binary(id));
    let reply = coordinator.call("admin", &command, interrupt)?;
    Ok(fields::time(reply.as_doc(), "commitTimestamp"))
}

impl Request<'_> {
    /// Returns a command of the transaction that this request ends.
    fn of_transaction(&self, name: &str) -> DocBuf {
        let mut command = DocBuf::new().with(name, 1i32);
        fields::copy(self.body(), &["lsid", "txnNumber", "autocommit", "$audit", "$clusterTime"], &mut command);
        command
    }

    fn transaction(&self) -> Option<(SessionId, i64)> {
        Some((self.routed.generic.session?, self.routed.generic.numbered?.number))
    }

    pub(crate) fn end_transaction(&self) -> Result<Answer> {
        let Some((session, number)) = self.transaction() else {
            // this server says what is wrong with it
            return Ok(Answer::Local);
        };
        let commits = self.routed.info.name == "commitTransaction";
        let ending = self.router.transactions.ending(session, number);
        let reply = match (ending, fields::document(self.body(), "recoveryToken")) {
            (Some(ending), _) if commits => self.commit(&ending, number),
            (Some(ending), _) => self.abort(&ending, number),
            (None, Some(token)) if fields::string(token, "recoveryShardId").is_some() => {
                let name = fields::string(token, "recoveryShardId").unwrap_or_default();
                let shard = self.catalog().shard(name, self.interrupt())?;
                if commits { self.recover(&shard, session, number) } else { self.abort_on(&shard) }
            }
            (None, _) => Err(no_transaction(number)),
        };
        Ok(Answer::Reply(fields::passed(&reply?)))
    }

    /// A statement has failed: aborts what the shards have of its transaction.
    pub(crate) fn abort_failed(&self) {
        let shards = self.router.transactions.failed(self.routed);
        if !shards.is_empty() {
            let interrupt = self.router.within(CONTINUE_MAX);
            on_each(
                "admin",
                shards.into_iter().map(|shard| (shard, self.of_transaction("abortTransaction"))).collect(),
                &interrupt,
            );
        }
    }

    fn abort_on(&self, shard: &Arc<Shard>) -> Result<DocBuf> {
        shard.call("admin", &self.of_transaction("abortTransaction"), self.interrupt())
    }

    fn abort(&self, ending: &Ending, number: i64) -> Result<DocBuf> {
        let mut progress = ending.progress.lock();
        match &*progress {
            Progress::Open => {
                *progress = Progress::Aborted;
                let interrupt = self.router.within(FINISH_MAX);
                let command = self.of_transaction("abortTransaction");
                let all = ending.participants.iter().map(|own| (own.shard.clone(), command.clone())).collect();
                let outcomes = on_each("admin", all, &interrupt);
                if ending.failed {
                    return Ok(DocBuf::new());
                }
                outcomes.into_iter().try_fold(DocBuf::new(), |_, (_, outcome)| outcome)
            }
            Progress::Aborted => Err(aborted(number)),
            Progress::Committed(_) | Progress::Undecided(_) => {
                let text = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
                Err(Error::new(Code::TRANSACTION_COMMITTED, text))
            }
        }
    }

    fn commit(&self, ending: &Ending, number: i64) -> Result<DocBuf> {
        // a commit that is repeated waits for the one before
        let mut progress = ending.progress.lock();
        match progress.clone() {
            Progress::Open => {}
            Progress::Undecided(parts) => return self.decided(&mut progress, &parts, number),
            Progress::Committed(shard) => return shard.call("admin", &self.repeated(), self.interrupt()),
            Progress::Aborted => return Err(aborted(number)),
        }
        if ending.failed {
            *progress = Progress::Aborted;
            self.abort_parts(&ending.participants, None);
            return Err(aborted(number));
        }
        let (writing, reading): (Vec<&Participant>, Vec<&Participant>) =
            ending.participants.iter().partition(|own| own.writes);
        let reading: Vec<Participant> = reading.into_iter().cloned().collect();
        match writing.as_slice() {
            [] => {
                let outcomes = self.end_reading(&reading, "commitTransaction");
                outcomes.into_iter().try_fold(DocBuf::new(), |_, (_, outcome)| outcome)
            }
            [only] => {
                let reply = self.commit_on_one(&mut progress, &only.shard);
                self.end_reading(&reading, "abortTransaction");
                reply
            }
            [coordinator, others @ ..] => {
                let prepared = self.prepare_parts(&coordinator.shard, others);
                self.end_reading(&reading, "abortTransaction");
                match prepared {
                    Err(error) => {
                        *progress = Progress::Aborted;
                        Err(self.of_abort(error, number))
                    }
                    Ok(None) => self.commit_on_one(&mut progress, &coordinator.shard),
                    Ok(Some(parts)) => self.commit_parts(&mut progress, parts, number),
                }
            }
        }
    }

    /// Returns the error of a transaction that was aborted: it may be tried again, unless the error says more.
    fn of_abort(&self, error: Error, number: i64) -> Error {
        let of_statement = Code::NO_SUCH_TRANSACTION;
        let again = labels::of(error.code, self.body());
        if again.is_empty() && error.code != Code::HOST_UNREACHABLE {
            return error;
        }
        Error::new(of_statement, format!("{}: {}", aborted(number).message, error.message))
    }

    fn end_reading(&self, reading: &[Participant], name: &str) -> Vec<(Arc<Shard>, Result<DocBuf>)> {
        let command = self.of_transaction(name);
        on_each("admin", reading.iter().map(|own| (own.shard.clone(), command.clone())).collect(), self.interrupt())
    }

    /// Returns the request without what other shards have to do with it.
    fn repeated(&self) -> DocBuf {
        fields::without(self.plain().as_doc(), &["recoveryToken"])
    }

    fn commit_on_one(&self, progress: &mut Progress, shard: &Arc<Shard>) -> Result<DocBuf> {
        let reply = shard.call("admin", &self.repeated(), self.interrupt());
        match &reply {
            Ok(_) => *progress = Progress::Committed(shard.clone()),
            Err(error) if error.code == Code::NO_SUCH_TRANSACTION => *progress = Progress::Aborted,
            Err(_) => {}
        }
        reply
    }

    /// Has all writing shards but the coordinator promise to commit. None: they have written nothing. After an error all parts are aborted.
    fn prepare_parts(&self, coordinator: &Arc<Shard>, others: &[&Participant]) -> Result<Option<Parts>> {
        let command = self.of_transaction("prepareTransaction").with("coordinator", coordinator.name.as_str());
        let commands = others.iter().map(|own| (own.shard.clone(), command.clone())).collect();
        let interrupt = self.router.within(FINISH_MAX);
        let (mut prepared, mut id, mut failed) = (Vec::new(), None, None);
        for (shard, outcome) in on_each("admin", commands, &interrupt) {
            match outcome {
                Ok(reply) if fields::is_true(reply.as_doc(), "readOnly") => {}
                Ok(reply) => {
                    let named = bytes(reply.as_doc(), "transaction");
                    if named.is_none() || id.is_some() && id != named {
                        let text = format!("shard {} has prepared another transaction than was asked for", shard.name);
                        failed = failed.or(Some(Error::new(Code::INTERNAL_ERROR, text)));
                        continue;
                    }
                    id = named;
                    prepared.push(shard);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            let open: Vec<Participant> = others.iter().cloned().cloned().collect();
            self.abort_parts(&open, Some(coordinator));
            if let Some(id) = &id {
                settle(&prepared, id, None, &interrupt);
            }
            return Err(error);
        }
        let Some(id) = id else { return Ok(None) };
        Ok(Some(Parts { coordinator: coordinator.clone(), prepared, id }))
    }

    /// Ends parts that are open. One that has promised is not: it waits for the decision, which the coordinator does not make without its part.
    fn abort_parts(&self, parts: &[Participant], coordinator: Option<&Arc<Shard>>) {
        let command = self.of_transaction("abortTransaction");
        let all = coordinator.into_iter().chain(parts.iter().map(|own| &own.shard));
        on_each("admin", all.map(|shard| (shard.clone(), command.clone())).collect(), &self.router.within(FINISH_MAX));
    }

    fn commit_parts(&self, progress: &mut Progress, parts: Parts, number: i64) -> Result<DocBuf> {
        *progress = Progress::Undecided(parts.clone());
        let names: ArrayBuf = parts.prepared.iter().map(|shard| shard.name.as_str()).collect();
        let majority = DocBuf::new().with("w", "majority").with("j", true);
        let command = self.of_transaction("commitTransaction").with("participants", &names);
        let command = command.with("writeConcern", &majority);
        let interrupt = self.router.within(FINISH_MAX);
        let reply = parts.coordinator.call("admin", &command, &interrupt);
        match reply.as_ref().ok().and_then(|reply| fields::time(reply.as_doc(), "commitTimestamp")) {
            Some(time) => Ok(self.carry_out(progress, &parts, time, reply.unwrap_or_default())),
            None => self.decided(progress, &parts, number),
        }
    }

    /// Ends a transaction as the coordinator has decided, or decides now.
    fn decided(&self, progress: &mut Progress, parts: &Parts, number: i64) -> Result<DocBuf> {
        let interrupt = self.router.within(FINISH_MAX);
        match decision(&parts.coordinator, &parts.id, &interrupt)? {
            Some(time) => Ok(self.carry_out(progress, parts, time, DocBuf::new())),
            None => {
                *progress = Progress::Aborted;
                settle(&parts.prepared, &parts.id, None, &interrupt);
                Err(aborted(number))
            }
        }
    }

    /// Carries out a commit. Where that fails it is continued later: the decision is durable.
    fn carry_out(&self, progress: &mut Progress, parts: &Parts, time: u64, reply: DocBuf) -> DocBuf {
        *progress = Progress::Committed(parts.coordinator.clone());
        if settle(&parts.prepared, &parts.id, Some(time), &self.router.within(FINISH_MAX)) {
            self.router.unfinished.carried_out.lock().push((parts.coordinator.name.clone(), parts.id.clone()));
        }
        fields::without(reply.as_doc(), &["commitTimestamp"])
    }

    /// Finds out what became of a transaction of another router: `shard` is the coordinator, or the only shard that writes.
    fn recover(&self, shard: &Arc<Shard>, session: SessionId, number: i64) -> Result<DocBuf> {
        let command = self.of_transaction("coordinateCommitTransaction").with("participants", &ArrayBuf::new());
        let is_committed = || match shard.call("admin", &command, self.interrupt()) {
            Err(error) if error.code == Code::TRANSACTION_COMMITTED => Ok(true),
            Err(error) if error.code == Code::NO_SUCH_TRANSACTION => Ok(false),
            Err(error) => Err(error),
            Ok(_) => Ok(false),
        };
        // what was on its way is known after a record of the coordinator's own
        is_committed()?;
        let listed = DocBuf::new().with("_shardsvrPreparedTransactions", 1i32).with("confirm", true);
        let listed = shard.call("admin", &listed, self.interrupt())?;
        let own = |id: &[u8]| id.starts_with(session.id.as_bytes()) && id.ends_with(&number.to_be_bytes());
        for decision in documents(listed.as_doc(), "decisions") {
            if bytes(decision, "transaction").is_some_and(|id| own(&id)) {
                self.router.carry_out_decision(shard, decision, self.interrupt())?;
                return Ok(DocBuf::new());
            }
        }
        if is_committed()? { Ok(DocBuf::new()) } else { Err(aborted(number)) }
    }
}

impl Router {
    /// Carries out a decision of a coordinator on the shards that it names.
    fn carry_out_decision(&self, coordinator: &Shard, decision: Doc<'_>, interrupt: &Interrupt) -> Result<()> {
        let (Some(id), Some(time)) = (bytes(decision, "transaction"), fields::time(decision, "commitTimestamp")) else {
            return Ok(());
        };
        let names = fields::array(decision, "participants").into_iter().flat_map(|names| names.iter());
        let names: Vec<&str> = names.filter_map(fields::text).collect();
        let shards = names.iter().map(|name| self.catalog.shard(name, interrupt)).collect::<Result<Vec<_>>>()?;
        if settle(&shards, &id, Some(time), interrupt) {
            self.unfinished.carried_out.lock().push((coordinator.name.clone(), id));
        }
        Ok(())
    }

    /// Carries out what a shard has decided. A reply to a repeated statement needs it: the router that ran the statement may have ended
    /// before all shards had heard of the commit.
    pub(crate) fn carry_out_decisions(&self, shard: &Arc<Shard>, interrupt: &Interrupt) -> Result<()> {
        let command = DocBuf::new().with("_shardsvrPreparedTransactions", 1i32);
        let listed = shard.call("admin", &command, interrupt)?;
        documents(listed.as_doc(), "decisions")
            .try_for_each(|decision| self.carry_out_decision(shard, decision, interrupt))
    }

    /// Continues the transactions that other routers have left, and forgets decisions that were carried out. To be called about every second.
    pub(crate) fn continue_transactions(&self) -> Result<()> {
        self.forget_decisions();
        let mut seen = HashSet::new();
        let mut failed = None;
        for shard in self.catalog.shards(&self.within(CONTINUE_MAX))? {
            // a shard that is not there does not hold up the others
            if let Err(error) = self.continue_on(&shard, &mut seen) {
                failed = Some(error);
            }
        }
        *self.unfinished.seen.lock() = seen;
        failed.map_or(Ok(()), Err)
    }

    fn continue_on(&self, shard: &Arc<Shard>, seen: &mut HashSet<Vec<u8>>) -> Result<()> {
        let command = DocBuf::new().with("_shardsvrPreparedTransactions", 1i32);
        let listed = shard.call("admin", &command, &self.within(CONTINUE_MAX))?;
        let listed = listed.as_doc();
        for prepared in documents(listed, "prepared") {
            let (id, name) = (bytes(prepared, "transaction"), fields::string(prepared, "coordinator"));
            let (Some(id), Some(name)) = (id, name) else { continue };
            if fields::int(prepared, "ageMillis") >= LEFT_MS {
                let interrupt = self.within(CONTINUE_MAX);
                let time = decision(&*self.catalog.shard(name, &interrupt)?, &id, &interrupt)?;
                settle(std::slice::from_ref(shard), &id, time, &interrupt);
            }
        }
        for decision in documents(listed, "decisions") {
            let Some(id) = bytes(decision, "transaction") else { continue };
            let is_left = self.unfinished.seen.lock().contains(&id);
            if is_left {
                self.carry_out_decision(shard, decision, &self.within(CONTINUE_MAX))?;
            }
            seen.insert(id);
        }
        Ok(())
    }

    fn forget_decisions(&self) {
        let mut carried_out = std::mem::take(&mut *self.unfinished.carried_out.lock());
        carried_out.sort();
        for some in carried_out.chunk_by(|(one, _), (next, _)| one == next) {
            let Some((name, _)) = some.first() else { continue };
            let ids: ArrayBuf = some.iter().map(|(_, id)| binary(id)).collect();
            let interrupt = self.within(CONTINUE_MAX);
            let command = DocBuf::new().with("_shardsvrForgetDecisions", 1i32).with("transactions", &ids);
            // where that fails, the decisions are carried out again
            let _ = self.catalog.shard(name, &interrupt).and_then(|shard| shard.call("admin", &command, &interrupt));
        }
    }
}
