//! All sessions by id.
//!
//! A session that has only cursors and a time of last use takes one entry of the map; the state of a transaction is made
//! with its first transaction number.

use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arbor_base::memory;
use arbor_oplog::SessionId;
use arbor_txn::{Durability, Transaction, Transactions};
use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::{Mutex, MutexGuard};

use crate::journal::{Journal, Stored};
use crate::open::OpenTransactions;
use crate::row::{Ended, Row};
use crate::rows;
use crate::session::{CheckedOut, Kill, OpenTransactionInfo, Session};
use crate::statistics::{OpenStatistics, Statistics};
use crate::{Error, Intent, Result};

/// `logicalSessionTimeoutMinutes`.
pub const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// More sessions than this are not known at a time: an eighth of those that were used longest ago are forgotten for the next.
/// Nothing is lost with a session that has no open transaction: what it wrote is in its row, and it is read again.
pub const SESSIONS_MAX: usize = 1_000_000;

/// More transactions than this are not open at a time: each keeps a snapshot, and with it one of the engine's readers. The
/// owner with the most gives up its oldest for the next, so no owner loses a transaction to one that has more. Fewer where
/// [`Budget::snapshots_max`](memory::Budget::snapshots_max) says so.
pub const TRANSACTIONS_MAX: usize = 8192;

/// Maximum numbers of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub sessions_max: usize,
    pub transactions_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { sessions_max: SESSIONS_MAX, transactions_max: TRANSACTIONS_MAX }
    }
}

const SHARDS: usize = 16;

/// Rows that one transaction deletes.
const DELETED_TOGETHER: usize = 1000;
/// Rows that one call of [`Sessions::sweep`] checks.
const SWEPT_TOGETHER: usize = 20_000;

pub struct Sessions<T> {
    transactions: Arc<Transactions>,
    shards: [Mutex<HashMap<SessionId, Entry<T>>>; SHARDS],
    len: AtomicUsize,
    /// Selects the shard: keyed so that no client can have all its sessions in one of them.
    hasher: DefaultHashBuilder,
    /// The shard at which the next search for sessions to forget begins.
    forgetting: AtomicUsize,
    limits: Limits,
    /// Sessions with an open transaction.
    open: Mutex<OpenTransactions<T>>,
    statistics: Arc<Statistics>,
    has_tree: AtomicBool,
    /// The session after which the next sweep continues.
    swept: Mutex<Option<SessionId>>,
}

struct Entry<T> {
    used: Instant,
    session: Option<Arc<Session<T>>>,
}

/// A session that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: SessionId,
    pub idle: Duration,
}

/// A row of the journal with all its statements.
#[derive(Clone, Debug)]
pub struct ReadRow {
    pub session: SessionId,
    pub row: Row,
}

impl<T> Sessions<T> {
    pub fn new(transactions: Arc<Transactions>) -> Sessions<T> {
        Sessions::with_limits(transactions, Limits::default())
    }

    pub fn with_limits(transactions: Arc<Transactions>, limits: Limits) -> Sessions<T> {
        Sessions {
            transactions,
            shards: Default::default(),
            len: AtomicUsize::new(0),
            hasher: DefaultHashBuilder::default(),
            forgetting: AtomicUsize::new(0),
            limits,
            open: Mutex::default(),
            statistics: Arc::default(),
            has_tree: AtomicBool::new(false),
            swept: Mutex::default(),
        }
    }

    pub(crate) fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }

    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The session is used.
    pub fn touch(&self, id: SessionId) -> Result<()> {
        self.with_entry(id, |_| ())
    }

    /// Gives the session to an operation that has a transaction number, once no other operation has it.
    pub fn check_out(
        &self,
        id: SessionId,
        number: i64,
        intent: Intent,
        wall: i64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<CheckedOut<'_, T>> {
        self.make_tree()?;
        let session = self.acquire(id, interrupted)?;
        let admission = self.load(&session).and_then(|()| session.take(number, intent));
        match admission {
            Err(error) => {
                session.release();
                Err(error)
            }
            Ok(mut admission) => {
                if let Some(over) = admission.over.take() {
                    self.closed(id, true);
                    drop(over);
                }
                let journal = self.journal(id, number, admission.stored, wall);
                Ok(CheckedOut::new(self, session, (number, intent), admission, journal))
            }
        }
    }

    fn journal(&self, id: SessionId, number: i64, stored: Stored, wall: i64) -> Journal {
        Journal::new(self.transactions.clone(), self.statistics.clone(), id, number, stored, wall)
    }

    fn acquire(&self, id: SessionId, interrupted: &dyn Fn() -> bool) -> Result<Arc<Session<T>>> {
        loop {
            let make = |entry: &mut Entry<T>| entry.session.get_or_insert_with(|| Arc::new(Session::new(id))).clone();
            let session = self.with_entry(id, make)?;
            if session.acquire(interrupted)? {
                return Ok(session);
            }
        }
    }

    fn load(&self, session: &Session<T>) -> Result<()> {
        if !session.is_loaded() {
            session.load(rows::read(&self.transactions.read()?, session.id)?.as_ref());
        }
        Ok(())
    }

    fn make_tree(&self) -> Result<()> {
        if !self.has_tree.load(Ordering::Acquire) {
            let make = |txn: &mut Transaction| txn.create_fixed_tree(rows::TREE, Default::default());
            self.transactions.retry(Durability::Applied, make)?;
            self.has_tree.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Forgets a session; its open transaction is over, at the latest with the operation that has it. Returns true if it was
    /// known.
    pub fn end(&self, id: SessionId) -> bool {
        let mut shard = self.shard(id);
        let Some(entry) = shard.get(&id) else { return false };
        let session = entry.session.clone();
        let (removed, over) = session.as_ref().map_or((true, None), |session| session.remove());
        if removed {
            shard.remove(&id);
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        drop(shard);
        if let Some(over) = over {
            self.closed(id, true);
            drop(over);
        }
        if let Some(session) = session.filter(|_| !removed) {
            self.kill_session(&session, Kill::Killed);
        }
        true
    }

    /// Forgets what is known of a session's row, which was written without the session.
    pub fn reread(&self, id: SessionId) {
        let session = self.shard(id).get(&id).and_then(|entry| entry.session.clone());
        if let Some(session) = session {
            session.reread();
        }
    }

    /// Returns the last transaction number of a session and whether it is one of a committed transaction, as its row says.
    pub fn last_of(&self, id: SessionId) -> Result<Option<(i64, Ended)>> {
        Ok(rows::read(&self.transactions.read()?, id)?.map(|row| (row.number, row.ended)))
    }

    /// Forgets what is known of the rows, and ends the open transactions: another member leads, or has led until now.
    pub fn forget_terms(&self) {
        self.has_tree.store(false, Ordering::Release);
        for shard in &self.shards {
            let known: Vec<Arc<Session<T>>> = shard.lock().values().filter_map(|entry| entry.session.clone()).collect();
            for session in known {
                let Some(over) = session.forget() else { continue };
                self.closed(session.id, true);
                drop(over);
            }
        }
    }

    /// Ends transactions that are open for longer than `limit`. Returns the sessions whose operation has to end first.
    pub fn abort_expired(&self, limit: Duration) -> Vec<SessionId> {
        let open: Vec<Arc<Session<T>>> = self.lock_open().sessions().cloned().collect();
        let expired = open.into_iter().filter(|session| session.info().is_some_and(|info| info.open_for >= limit));
        expired.filter(|session| self.kill_session(session, Kill::Expired)).map(|session| session.id).collect()
    }

    /// Returns true if an operation has the session, which then ends the transaction.
    fn kill_session(&self, session: &Session<T>, why: Kill) -> bool {
        let (busy, over) = session.kill(why);
        if let Some(over) = over {
            self.closed(session.id, true);
            drop(over);
        }
        busy
    }

    /// Removes the sessions that were not used for [`TIMEOUT`], and their rows.
    pub fn expire(&self, now: Instant) -> Result<Vec<SessionId>> {
        let old = |entry: &Entry<T>| now.saturating_duration_since(entry.used) >= TIMEOUT;
        let mut expired = Vec::new();
        for shard in &self.shards {
            let ids: Vec<SessionId> = shard.lock().iter().filter(|(_, entry)| old(entry)).map(|(id, _)| *id).collect();
            expired.extend(ids.into_iter().filter(|id| self.end(*id)));
        }
        if self.has_tree.load(Ordering::Acquire) {
            for ids in expired.chunks(DELETED_TOGETHER) {
                self.delete_rows(ids)?;
            }
        }
        Ok(expired)
    }

    /// Checks the next rows for those of sessions that a restart has forgotten; `wall` is now. Returns the number of rows
    /// deleted.
    pub fn sweep(&self, wall: i64) -> Result<usize> {
        let oldest = wall - TIMEOUT.as_millis() as i64;
        let mut swept = self.swept.lock();
        let (mut old, mut last, mut seen) = (Vec::new(), None, 0);
        rows::each(&self.transactions.read()?, *swept, |id, row| {
            seen += 1;
            if seen > SWEPT_TOGETHER {
                return ControlFlow::Break(());
            }
            last = Some(id);
            if row.wall < oldest && !self.shard(id).contains_key(&id) {
                old.push(id);
            }
            ControlFlow::Continue(())
        })?;
        *swept = if seen > SWEPT_TOGETHER { last } else { None };
        for ids in old.chunks(DELETED_TOGETHER) {
            self.delete_rows(ids)?;
        }
        Ok(old.len())
    }

    fn delete_rows(&self, ids: &[SessionId]) -> Result<()> {
        let delete = |txn: &mut Transaction| -> Result<()> {
            for id in ids {
                if let Some(row) = rows::read(txn, *id)? {
                    rows::delete(txn, *id, &row);
                }
            }
            Ok(())
        };
        self.transactions.retry(Durability::Applied, delete)?;
        Ok(())
    }

    pub fn all(&self) -> Vec<Listed> {
        let mut all = Vec::with_capacity(self.len());
        for shard in &self.shards {
            all.extend(shard.lock().iter().map(|(id, entry)| Listed { id: *id, idle: entry.used.elapsed() }));
        }
        all
    }

    pub fn contains(&self, id: SessionId) -> bool {
        self.shard(id).contains_key(&id)
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Transactions that are open now.
    pub fn open_transactions(&self) -> Vec<OpenTransactionInfo> {
        self.lock_open().sessions().filter_map(|session| session.info()).collect()
    }

    pub fn open_transaction(&self, id: SessionId) -> Option<OpenTransactionInfo> {
        let session = self.lock_open().get(id).cloned();
        session.and_then(|session| session.info())
    }

    pub fn open_statistics(&self) -> OpenStatistics {
        let mut statistics = OpenStatistics::default();
        for info in self.open_transactions() {
            match info.active {
                true => statistics.active += 1,
                false => statistics.inactive += 1,
            }
        }
        statistics
    }

    /// Every row of the journal, at most `max`.
    pub fn rows(&self, max: usize) -> Result<Vec<ReadRow>> {
        let mut all = Vec::new();
        if max == 0 {
            return Ok(all);
        }
        rows::each(&self.transactions.read()?, None, |session, row| {
            all.push(ReadRow { session, row });
            if all.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(all)
    }

    pub(crate) fn opened(&self, session: &Arc<Session<T>>, owner: u64) {
        self.lock_open().add(session, owner);
    }

    /// Ends a transaction if there are as many as may be.
    ///
    /// Errors: operations of all transactions of the owner with the most are running.
    pub(crate) fn make_room_for_transaction(&self) -> Result<()> {
        let victim = {
            let open = self.lock_open();
            if open.len() < memory::process().snapshots_max(self.limits.transactions_max) {
                return Ok(());
            }
            let idle = |session: &&Arc<Session<T>>| session.info().is_some_and(|info| !info.active);
            open.of_greatest().find(idle).cloned()
        };
        let victim = victim.ok_or(Error::TooManyTransactions)?;
        // If an operation took it meanwhile, the transaction ends with that.
        self.kill_session(&victim, Kill::Killed);
        Ok(())
    }

    pub(crate) fn closed(&self, id: SessionId, aborted: bool) {
        let mut open = self.lock_open();
        // another operation may have begun the next one meanwhile
        if open.get(id).is_some_and(|session| session.info().is_none()) {
            open.remove(id);
            if aborted {
                self.statistics.aborted.add(1);
            }
        }
    }

    /// Errors: there are too many sessions for one more.
    fn with_entry<A>(&self, id: SessionId, work: impl FnOnce(&mut Entry<T>) -> A) -> Result<A> {
        let mut shard = self.shard(id);
        if let Some(entry) = shard.get_mut(&id) {
            entry.used = Instant::now();
            return Ok(work(entry));
        }
        if self.len() >= self.limits.sessions_max {
            drop(shard);
            if !self.forget_some() {
                return Err(Error::TooManySessions);
            }
            shard = self.shard(id);
        }
        let new = || {
            self.len.fetch_add(1, Ordering::Relaxed);
            Entry { used: Instant::now(), session: None }
        };
        Ok(work(shard.entry(id).or_insert_with(new)))
    }

    /// Forgets sessions without an open transaction. Returns true if there were any.
    fn forget_some(&self) -> bool {
        let first = self.forgetting.fetch_add(1, Ordering::Relaxed);
        (0..SHARDS).any(|offset| {
            let number = (first + offset) % SHARDS;
            let shard = self.shards.get(number).expect("a number modulo SHARDS is below SHARDS");
            let forgotten = forget_oldest(&mut shard.lock());
            self.len.fetch_sub(forgotten, Ordering::Relaxed);
            forgotten > 0
        })
    }

    fn shard(&self, id: SessionId) -> MutexGuard<'_, HashMap<SessionId, Entry<T>>> {
        let number = self.hasher.hash_one(id) as usize % SHARDS;
        let shard = self.shards.get(number).expect("a number modulo SHARDS is below SHARDS");
        shard.lock()
    }

    fn lock_open(&self) -> MutexGuard<'_, OpenTransactions<T>> {
        self.open.lock()
    }
}

/// Removes an eighth of the sessions, those that were used longest ago; first such without a state, then such without an
/// open transaction. So a full map is looked through once for many new sessions. Returns how many.
fn forget_oldest<T>(shard: &mut HashMap<SessionId, Entry<T>>) -> usize {
    let stateless = |entry: &Entry<T>| entry.session.is_none();
    let without_work = |entry: &Entry<T>| entry.session.as_ref().is_none_or(|session| session.is_idle());
    match forget_oldest_of(shard, stateless) {
        0 => forget_oldest_of(shard, without_work),
        forgotten => forgotten,
    }
}

fn forget_oldest_of<T>(shard: &mut HashMap<SessionId, Entry<T>>, chosen: impl Fn(&Entry<T>) -> bool) -> usize {
    let mut times: Vec<Instant> = shard.values().filter(|entry| chosen(entry)).map(|entry| entry.used).collect();
    if times.is_empty() {
        return 0;
    }
    let last = times.len() / 8;
    let limit = *times.select_nth_unstable(last).1;
    let before = shard.len();
    shard.retain(|_, entry| {
        let old = entry.used <= limit && chosen(entry);
        // An operation may have taken the session between the two looks.
        !(old && entry.session.as_ref().is_none_or(|session| session.remove_idle()))
    });
    before - shard.len()
}
