//! Transactions over several shards. A router drives them (crate `router`, `two_phase`); the shards keep promises and decisions.
//!
//! | command | on | does |
//! |---|---|---|
//! | `prepareTransaction` | the participants but one | ends the part of the session with a promise, which is durable |
//! | `commitTransaction` with `participants` | the coordinator, which is that one | commits its own part, and decides with the same record for all |
//! | `_shardsvrSettleTransaction` | the participants | carries the decision out |
//! | `_shardsvrForgetDecisions` | the coordinator | the decision was carried out everywhere |
//! | `_shardsvrPreparedTransactions` | all | lists promises and decisions, for routers that continue what another one left |
//! | `_shardsvrTransactionDecision` | the coordinator | returns the decision; without one, it is to abort from then on |
//! | `coordinateCommitTransaction` | the shard of a recovery token | the same, for the session of the request |
//!
//! Without a decision that was logged a transaction is aborted: only the session of the coordinator can decide to commit, and it does not once it
//! has ended the transaction.

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::CommandInfo;
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::log::now_ms;
use arbor_session::{Ended, Intent};
use arbor_store::Error as StoreError;
use arbor_txn::{Error as TxnError, TransactionId};
use uuid::Uuid;

use super::{SessionId, rules};
use crate::call::Call;
use crate::{Commands, Error, Result};

/// The part that a command gives a transaction's shard at its end.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// All of the transaction is here, as far as this server knows.
    Whole,
    /// A promise; the name of the coordinator.
    Participant(String),
    /// The decision for others, and what is kept with it.
    Coordinator(DocBuf),
}

impl Part {
    pub(crate) fn of(info: &CommandInfo, body: Doc<'_>) -> Result<Part> {
        match (info.name, body.get("participants"), body.get("coordinator")) {
            (rules::PREPARE, _, Some(ValueRef::String(coordinator))) => Ok(Part::Participant(coordinator.to_owned())),
            (rules::PREPARE, ..) => Err(Error::bad_value("prepareTransaction needs the name of the coordinator")),
            ("commitTransaction", Some(ValueRef::Array(participants)), _) => {
                Ok(Part::Coordinator(DocBuf::new().with("participants", participants)))
            }
            _ => Ok(Part::Whole),
        }
    }
}

/// Returns the time that the first command of a transaction reads at, if it says one.
pub(crate) fn snapshot_time(body: Doc<'_>) -> Option<u64> {
    let Some(ValueRef::Document(concern)) = body.get("readConcern") else { return None };
    match concern.get("atClusterTime") {
        Some(ValueRef::Timestamp(time)) => Some(u64::from(time.seconds) << 32 | u64::from(time.increment)),
        _ => None,
    }
}

pub(crate) fn id_of(session: SessionId, number: i64) -> TransactionId {
    let mut id = [0; TransactionId::BYTES];
    let parts = session.id.as_bytes().iter().chain(&session.user).copied().chain(number.to_be_bytes());
    id.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    TransactionId(id)
}

/// Returns the session and the number of a transaction.
pub(crate) fn parts(id: &TransactionId) -> (SessionId, i64) {
    let (mut session, mut user, mut number) = ([0; 16], [0; 32], [0; 8]);
    let to = session.iter_mut().chain(&mut user).chain(&mut number);
    to.zip(id.0).for_each(|(to, from)| *to = from);
    (SessionId { id: Uuid::from_bytes(session), user }, i64::from_be_bytes(number))
}

pub(crate) fn binary(id: &TransactionId) -> ValueRef<'_> {
    ValueRef::Binary { subtype: 0, bytes: &id.0 }
}

fn id_in(value: ValueRef<'_>) -> Result<TransactionId> {
    let id = match value {
        ValueRef::Binary { bytes, .. } => bytes.try_into().ok(),
        _ => None,
    };
    id.map(TransactionId).ok_or_else(|| Error::bad_value("a transaction is named by 56 bytes"))
}

fn id_field(call: &Call<'_>) -> Result<TransactionId> {
    id_in(call.required("transaction")?)
}

/// `prepareTransaction`: the session does the work when the command has ended.
pub(crate) fn prepare(call: &mut Call<'_>) -> Result<()> {
    call.only(&["coordinator"])?;
    match call.session.and_then(|session| session.transaction()) {
        Some(_) => Ok(()),
        None => Err(Error::new(Code::COMMAND_FAILED, "prepareTransaction must be run within a transaction")),
    }
}

/// `coordinateCommitTransaction`: aborts the transaction if it is in progress, when the command has ended. One that is committed is refused as
/// such before.
pub(crate) fn coordinate(call: &mut Call<'_>) -> Result<()> {
    call.only(&["participants", "recoveryToken"])?;
    match call.session.and_then(|session| session.transaction()) {
        Some(_) => Ok(()),
        None => Err(Error::new(Code::COMMAND_FAILED, "coordinateCommitTransaction must be run within a transaction")),
    }
}

/// `_shardsvrSettleTransaction`
pub(crate) fn settle(call: &mut Call<'_>) -> Result<()> {
    call.only(&["transaction", "commitTimestamp"])?;
    let (id, server) = (id_field(call)?, call.server);
    let time = match call.optional("commitTimestamp") {
        Some(ValueRef::Timestamp(time)) => Some(u64::from(time.seconds) << 32 | u64::from(time.increment)),
        Some(other) => return Err(call.field("commitTimestamp").wrong_type(other, "timestamp").into()),
        None => None,
    };
    let (session, number) = parts(&id);
    let _settling = server.settling.begin(id);
    let store = &server.database.store;
    let settled = match time {
        Some(time) => store.commit_prepared(&id, time),
        None => store.abort_prepared(&id),
    };
    match settled {
        Ok(_) => server.sessions.reread(session),
        Err(StoreError::Txn(TxnError::NotPrepared)) if time.is_some() => {
            // only what is known to be committed is acknowledged
            let committed = server
                .sessions
                .last_of(session)?
                .is_some_and(|(last, ended)| last > number || last == number && ended == Ended::Committed);
            if !committed {
                return Err(Error::new(Code::NO_SUCH_TRANSACTION, "the transaction is not prepared here"));
            }
            server.database.make_durable(arbor_txn::Durability::Journaled, None)?;
        }
        Err(StoreError::Txn(TxnError::NotPrepared)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// `_shardsvrForgetDecisions`
pub(crate) fn forget_decisions(call: &mut Call<'_>) -> Result<()> {
    call.only(&["transactions"])?;
    let ids = call.field("transactions").array(call.required("transactions")?)?;
    let ids = ids.iter().map(id_in).collect::<Result<Vec<_>>>()?;
    Ok(call.server.database.transactions.forget_decisions(&ids)?)
}

/// `_shardsvrPreparedTransactions`
pub(crate) fn prepared_transactions(call: &mut Call<'_>) -> Result<()> {
    call.only(&["confirm"])?;
    let transactions = &call.server.database.transactions;
    if matches!(call.optional("confirm"), Some(ValueRef::Bool(true))) {
        transactions.confirm()?;
    }
    let mut prepared = ArrayBuf::new();
    for one in transactions.prepared() {
        let about = Doc::trusted(&one.about);
        let coordinator = about.get("coordinator").unwrap_or(ValueRef::Null);
        let shown = DocBuf::new().with("transaction", binary(&one.id)).with("coordinator", coordinator);
        prepared.push(&shown.with("ageMillis", one.age.as_millis() as i64));
    }
    let mut decisions = ArrayBuf::new();
    for one in transactions.decisions()? {
        let participants = Doc::trusted(&one.about).get("participants").unwrap_or(ValueRef::Null);
        let shown = DocBuf::new().with("transaction", binary(&one.id)).with("commitTimestamp", timestamp(one.time));
        decisions.push(&shown.with("participants", participants));
    }
    call.reply.append("prepared", &prepared).append("decisions", &decisions);
    Ok(())
}

/// `_shardsvrTransactionDecision`
pub(crate) fn transaction_decision(call: &mut Call<'_>) -> Result<()> {
    call.only(&["transaction"])?;
    let id = id_field(call)?;
    if let Some(time) = call.server.decide(&id, &|| call.interrupt.check().is_err())? {
        call.reply.append("commitTimestamp", timestamp(time));
    }
    Ok(())
}

impl Commands {
    /// Returns the commit time of a transaction that this server coordinates; without a decision it is aborted.
    fn decide(&self, id: &TransactionId, interrupted: &dyn Fn() -> bool) -> Result<Option<u64>> {
        let decision = || Ok::<_, Error>(self.database.transactions.decision(id)?.map(|decision| decision.time));
        if let Some(time) = decision()? {
            return Ok(Some(time));
        }
        let (session, number) = parts(id);
        match self.sessions.check_out(session, number, Intent::Abort, now_ms(), interrupted) {
            Ok(mut out) => out.abort(),
            Err(arbor_session::Error::NotInProgress { .. } | arbor_session::Error::Aborted { .. }) => {}
            Err(arbor_session::Error::Committed { .. }) => {
                // made by the operation that had the session
                let missing =
                    || Error::new(Code::INTERNAL_ERROR, "the decision was forgotten before it was carried out");
                return decision()?.ok_or_else(missing).map(Some);
            }
            Err(error) => return Err(error.into()),
        }
        // a commit of before may be on its way, or another member may lead
        self.database.transactions.confirm()?;
        decision()
    }

    /// Returns true if the transaction has promised to commit here, and may write until it has ended.
    pub(crate) fn is_to_be_decided(&self, id: &TransactionId) -> bool {
        // in this order: one that is not prepared any more, and whose decision is not being carried out then, has ended
        self.database.transactions.is_prepared(id) || self.settling.has(id)
    }
}

/// Transactions whose decision is being carried out.
#[derive(Default)]
pub(crate) struct Settling(parking_lot::Mutex<Vec<TransactionId>>);

pub(crate) struct Settles<'s>(&'s Settling, TransactionId);

impl Settling {
    fn begin(&self, id: TransactionId) -> Settles<'_> {
        self.0.lock().push(id);
        Settles(self, id)
    }

    fn has(&self, id: &TransactionId) -> bool {
        self.0.lock().contains(id)
    }
}

impl Drop for Settles<'_> {
    fn drop(&mut self) {
        let mut all = self.0.0.lock();
        if let Some(at) = all.iter().position(|id| *id == self.1) {
            all.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_session_and_a_number() {
        let session = SessionId { id: Uuid::from_u128(0x0102_0304), user: [7; 32] };
        let id = id_of(session, 258);
        assert_eq!(parts(&id), (session, 258));
        assert_ne!(id, id_of(session, 259));
    }
}
