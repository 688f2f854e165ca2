//! Transactions and the shards that take part in them, and cursors that one shard keeps.
//!
//! T1: a shard begins its part with the first statement that it accepts; one that it refuses because of the version has begun nothing.
//! T2: once a statement has failed, all parts are to be aborted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result, Routed};
use arbor_protocol::cluster_time::timestamp;
use arbor_session::SessionId;
use parking_lot::Mutex;

use crate::shard::Shard;
use crate::two_phase::Progress;
use crate::{fields, is_stale, on_behalf};

/// A transaction or cursor that was unused for this time has ended on the shard as well.
const FORGOTTEN: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Transactions {
    open: Arc<Mutex<HashMap<SessionId, Open>>>,
    cursors: Mutex<HashMap<i64, (Pinned, Instant)>>,
}

/// The place of a cursor that one shard keeps.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub shard: Arc<Shard>,
    /// Digest of the user who has opened it.
    pub owner: Option<[u8; 32]>,
}

struct Open {
    number: i64,
    participants: Vec<Participant>,
    read_concern: Option<DocBuf>,
    /// A statement has failed.
    failed: bool,
    /// Its end, once that was asked for.
    progress: Arc<Mutex<Progress>>,
    used: Instant,
}

/// A shard that runs a part of a transaction.
#[derive(Clone)]
pub(crate) struct Participant {
    pub shard: Arc<Shard>,
    /// It has accepted a statement.
    begun: bool,
    /// It was sent a statement that may have written.
    pub writes: bool,
}

/// A transaction that is to end.
pub(crate) struct Ending {
    /// In the order in which they were needed.
    pub participants: Vec<Participant>,
    pub failed: bool,
    pub progress: Arc<Mutex<Progress>>,
}

/// A statement of a transaction on its way to a shard; the outcome says whether the shard has begun its part.
pub(crate) struct Entered {
    open: Arc<Mutex<HashMap<SessionId, Open>>>,
    session: SessionId,
    number: i64,
    shard: String,
}

/// A transaction that a statement reads in, also after the request that has begun the statement.
#[derive(Clone)]
pub(crate) struct Joined {
    open: Arc<Mutex<HashMap<SessionId, Open>>>,
    session: SessionId,
    number: i64,
}

impl Joined {
    /// Makes a read part of the transaction on a shard.
    pub(crate) fn enter(&self, shard: &Arc<Shard>, command: DocBuf) -> Result<(DocBuf, Option<Entered>)> {
        let mut all = self.open.lock();
        let open = all.get_mut(&self.session).filter(|open| open.number == self.number);
        let command = open.ok_or_else(|| no_transaction(self.number))?.join(shard, command, false)?;
        let (session, number) = (self.session, self.number);
        Ok((command, Some(Entered { open: self.open.clone(), session, number, shard: shard.name.clone() })))
    }
}

impl Open {
    /// Returns a command as the shard gets it: with the begin of its part, if it has none. Errors: a statement has failed.
    fn join(&mut self, shard: &Arc<Shard>, command: DocBuf, writes: bool) -> Result<DocBuf> {
        self.used = Instant::now();
        if self.failed {
            return Err(aborted(self.number));
        }
        if let Some(own) = self.participants.iter_mut().find(|own| own.shard.name == shard.name) {
            own.writes |= writes;
            return Ok(command);
        }
        self.participants.push(Participant { shard: shard.clone(), begun: false, writes });
        let mut command = fields::without(command.as_doc(), &["readConcern", "startTransaction"]);
        if let Some(concern) = &self.read_concern {
            command.append("readConcern", concern);
        }
        Ok(command.with("startTransaction", true))
    }

    fn reads_at_one_time(&self) -> bool {
        self.read_concern.as_ref().is_some_and(|concern| concern.as_doc().get("atClusterTime").is_some())
    }
}

impl Entered {
    pub(crate) fn ended(&self, outcome: std::result::Result<Doc<'_>, &Error>) {
        let mut all = self.open.lock();
        let Some(open) = all.get_mut(&self.session).filter(|open| open.number == self.number) else { return };
        let Some(at) = open.participants.iter().position(|own| own.shard.name == self.shard) else { return };
        let refused = outcome.err().is_some_and(is_stale);
        if refused && open.reads_at_one_time() {
            // A range has moved, perhaps after the time of the snapshot: its new shard does not show it at that time, and the old one
            // shows it only under the old table. So nothing of this time is read under the new table.
            match open.participants.iter().any(|own| own.begun) || open.participants.len() > 1 {
                true => open.failed = true,
                false => drop(all.remove(&self.session)),
            }
            return;
        }
        match open.participants.get_mut(at) {
            Some(own) if !refused => own.begun = true,
            Some(own) if !own.begun => drop(open.participants.remove(at)),
            _ => {}
        }
        open.failed |= match outcome {
            Ok(reply) => reply.get("writeErrors").is_some(),
            Err(error) => !is_stale(error),
        };
    }
}

impl Transactions {
    /// Makes a command of a transaction part of it on this shard; `time`: that of the snapshot, if this is the first command of a transaction
    /// that reads all shards at one.
    pub(crate) fn enter(
        &self,
        routed: &Routed<'_>,
        shard: &Arc<Shard>,
        command: DocBuf,
        time: impl FnOnce(u64) -> u64,
    ) -> Result<(DocBuf, Option<Entered>)> {
        let (Some(session), Some(numbered)) = (routed.generic.session, routed.generic.numbered) else {
            return Ok((command, None));
        };
        if !numbered.is_transaction() {
            return Ok((command, None));
        }
        let mut all = self.open.lock();
        let begins = fields::is_true(routed.body, "startTransaction");
        let known = all.get(&session).is_some_and(|open| open.number == numbered.number);
        if !known && !begins {
            return Err(no_transaction(numbered.number));
        }
        if !known {
            let read_concern = fields::document(routed.body, "readConcern").map(|concern| at_one_time(concern, time));
            let (participants, progress) = (Vec::new(), Arc::default());
            let (number, used) = (numbered.number, Instant::now());
            all.insert(session, Open { number, participants, read_concern, failed: false, progress, used });
        }
        let Some(open) = all.get_mut(&session) else { return Err(no_transaction(numbered.number)) };
        let writes = routed.info.takes_write_concern() && routed.info.name != "aggregate";
        let command = open.join(shard, command, writes)?;
        let entered = Entered { open: self.open.clone(), session, number: numbered.number, shard: shard.name.clone() };
        Ok((command, Some(entered)))
    }

    /// Returns the transaction of a request for reads that come later. None: it is not in one.
    pub(crate) fn joined(&self, routed: &Routed<'_>) -> Option<Joined> {
        let (session, numbered) = routed.generic.session.zip(routed.generic.numbered)?;
        let open = self.open.clone();
        numbered.is_transaction().then_some(Joined { open, session, number: numbered.number })
    }

    /// Returns the transaction of a request that ends it. None: this router does not know it.
    pub(crate) fn ending(&self, session: SessionId, number: i64) -> Option<Ending> {
        let mut all = self.open.lock();
        let open = all.get_mut(&session).filter(|open| open.number == number)?;
        open.used = Instant::now();
        Some(Ending { participants: open.participants.clone(), failed: open.failed, progress: open.progress.clone() })
    }

    /// Returns the shards that have a part of the transaction that a statement has failed in, once.
    pub(crate) fn failed(&self, routed: &Routed<'_>) -> Vec<Arc<Shard>> {
        let (Some(session), Some(numbered)) = (routed.generic.session, routed.generic.numbered) else {
            return Vec::new();
        };
        let mut all = self.open.lock();
        match all.get_mut(&session).filter(|open| open.number == numbered.number && open.failed) {
            Some(open) => open.participants.drain(..).map(|own| own.shard).collect(),
            None => Vec::new(),
        }
    }

    /// Marks the transaction of a request as failed.
    pub(crate) fn fail(&self, routed: &Routed<'_>) {
        if let (Some(session), Some(numbered)) = (routed.generic.session, routed.generic.numbered)
            && let Some(open) = self.open.lock().get_mut(&session).filter(|open| open.number == numbered.number)
        {
            open.failed = true;
        }
    }

    /// Returns the name of the shard whose outcome is that of the transaction: the first one that writes, or the first one.
    pub(crate) fn recovery_shard(&self, routed: &Routed<'_>) -> Option<String> {
        let (session, numbered) = (routed.generic.session?, routed.generic.numbered?);
        let all = self.open.lock();
        let open = all.get(&session).filter(|open| open.number == numbered.number)?;
        let coordinator = open.participants.iter().find(|own| own.writes).or(open.participants.first())?;
        Some(coordinator.shard.name.clone())
    }

    /// Notes that a shard keeps the cursor of a reply.
    pub(crate) fn keep_cursor(&self, routed: &Routed<'_>, shard: &Arc<Shard>, reply: Doc<'_>) {
        let id = fields::document(reply, "cursor").map_or(0, |cursor| fields::int(cursor, "id"));
        if id != 0 {
            let pinned = Pinned { shard: shard.clone(), owner: on_behalf::digest(routed) };
            self.cursors.lock().insert(id, (pinned, Instant::now()));
        }
    }

    pub(crate) fn cursor(&self, id: i64) -> Option<Pinned> {
        let mut cursors = self.cursors.lock();
        let (pinned, used) = cursors.get_mut(&id)?;
        *used = Instant::now();
        Some(pinned.clone())
    }

    /// Forgets a transaction of the router's own, which is over.
    pub(crate) fn forget(&self, session: SessionId, number: i64) {
        let mut all = self.open.lock();
        if all.get(&session).is_some_and(|open| open.number == number) {
            all.remove(&session);
        }
    }

    pub(crate) fn forget_cursor(&self, id: i64) {
        self.cursors.lock().remove(&id);
    }

    pub(crate) fn forget_old(&self) {
        self.open.lock().retain(|_, open| open.used.elapsed() < FORGOTTEN);
        self.cursors.lock().retain(|_, (_, used)| used.elapsed() < FORGOTTEN);
    }
}

/// Gives a read concern of the level snapshot the time at which all shards are read, unless it has one.
pub(crate) fn at_one_time(concern: Doc<'_>, time: impl FnOnce(u64) -> u64) -> DocBuf {
    if fields::string(concern, "level") != Some("snapshot") || concern.get("atClusterTime").is_some() {
        return concern.to_buf();
    }
    let after = fields::time(concern, "afterClusterTime").unwrap_or(0);
    fields::without(concern, &["afterClusterTime"]).with("atClusterTime", timestamp(time(after)))
}

pub(crate) fn no_transaction(number: i64) -> Error {
    Error::new(
        Code::NO_SUCH_TRANSACTION,
        format!("Given transaction number {number} does not match any in-progress transactions."),
    )
}

pub(crate) fn aborted(number: i64) -> Error {
    Error::new(Code::NO_SUCH_TRANSACTION, format!("Transaction with {{ txnNumber: {number} }} has been aborted."))
}

/// Returns the id that a getMore names.
pub(crate) fn cursor_of_get_more(body: Doc<'_>) -> Option<i64> {
    match body.first() {
        Some((_, ValueRef::Int64(id))) => Some(id),
        _ => None,
    }
}
