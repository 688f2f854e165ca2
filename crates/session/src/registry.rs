//! All sessions by id.
//!
//! A session that only its cursors and its last use tell of takes one entry of the map; the state of a transaction is made
//! with its first transaction number.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arbor_oplog::SessionId;
use arbor_txn::{Durability, Transaction, Transactions};
use hashbrown::HashMap;

use crate::figures::{Figures, Open as OpenFigures};
use crate::journal::{Journal, Stored};
use crate::row::Row;
use crate::rows;
use crate::session::{CheckedOut, Kill, OpenTransactionInfo, Session};
use crate::{Error, Intent, Result};

/// `logicalSessionTimeoutMinutes`.
pub const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// More sessions than this at a time are refused.
pub const SESSIONS_MAX: usize = 1_000_000;

const SHARDS: usize = 16;

/// Rows that one transaction deletes.
const DELETED_TOGETHER: usize = 1000;
/// Rows that one call of [`Sessions::sweep`] looks at.
const SWEPT_TOGETHER: usize = 20_000;

pub struct Sessions<T> {
    transactions: Arc<Transactions>,
    shards: [Mutex<HashMap<SessionId, Entry<T>>>; SHARDS],
    len: AtomicUsize,
    sessions_max: usize,
    /// Those with an open transaction.
    open: Mutex<HashMap<SessionId, Arc<Session<T>>>>,
    figures: Arc<Figures>,
    has_tree: AtomicBool,
    /// Where the next sweep goes on.
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
        Sessions::with_limit(transactions, SESSIONS_MAX)
    }

    pub fn with_limit(transactions: Arc<Transactions>, sessions_max: usize) -> Sessions<T> {
        Sessions {
            transactions,
            shards: Default::default(),
            len: AtomicUsize::new(0),
            sessions_max,
            open: Mutex::default(),
            figures: Arc::default(),
            has_tree: AtomicBool::new(false),
            swept: Mutex::default(),
        }
    }

    pub fn figures(&self) -> &Figures {
        &self.figures
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
        let taken = self.load(&session).and_then(|()| session.take(number, intent));
        match taken {
            Err(error) => {
                session.release();
                Err(error)
            }
            Ok(mut taken) => {
                if let Some(over) = taken.over.take() {
                    self.closed(id, true);
                    drop(over);
                }
                let journal = self.journal(id, number, taken.stored, wall);
                Ok(CheckedOut::new(self, session, (number, intent), taken, journal))
            }
        }
    }

    fn journal(&self, id: SessionId, number: i64, stored: Stored, wall: i64) -> Journal {
        Journal::new(self.transactions.clone(), self.figures.clone(), id, number, stored, wall)
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

    /// Forgets a session; its open transaction is over, at the latest with the operation that has it. Answers whether it was
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

    /// Ends transactions that are open for longer than `limit`. Answers the sessions whose operation has to end first.
    pub fn abort_expired(&self, limit: Duration) -> Vec<SessionId> {
        let open: Vec<Arc<Session<T>>> = self.lock_open().values().cloned().collect();
        let expired = open.into_iter().filter(|session| session.info().is_some_and(|info| info.open_for >= limit));
        expired.filter(|session| self.kill_session(session, Kill::Expired)).map(|session| session.id).collect()
    }

    /// Answers whether an operation has the session, which then ends the transaction.
    fn kill_session(&self, session: &Session<T>, why: Kill) -> bool {
        let (busy, over) = session.kill(why);
        if let Some(over) = over {
            self.closed(session.id, true);
            drop(over);
        }
        busy
    }

    /// Forgets the sessions that nobody used for [`TIMEOUT`], and their rows.
    pub fn expire(&self, now: Instant) -> Result<Vec<SessionId>> {
        let old = |entry: &Entry<T>| now.saturating_duration_since(entry.used) >= TIMEOUT;
        let mut expired = Vec::new();
        for shard in &self.shards {
            let ids: Vec<SessionId> = lock(shard).iter().filter(|(_, entry)| old(entry)).map(|(id, _)| *id).collect();
            expired.extend(ids.into_iter().filter(|id| self.end(*id)));
        }
        if self.has_tree.load(Ordering::Acquire) {
            for ids in expired.chunks(DELETED_TOGETHER) {
                self.delete_rows(ids)?;
            }
        }
        Ok(expired)
    }

    /// Looks at the next rows for those of sessions that were forgotten by a restart; `wall` is now. Answers how many were
    /// deleted.
    pub fn sweep(&self, wall: i64) -> Result<usize> {
        let oldest = wall - TIMEOUT.as_millis() as i64;
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
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
            all.extend(lock(shard).iter().map(|(id, entry)| Listed { id: *id, idle: entry.used.elapsed() }));
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
        self.lock_open().values().filter_map(|session| session.info()).collect()
    }

    pub fn open_transaction(&self, id: SessionId) -> Option<OpenTransactionInfo> {
        let session = self.lock_open().get(&id).cloned();
        session.and_then(|session| session.info())
    }

    pub fn open_figures(&self) -> OpenFigures {
        let mut figures = OpenFigures::default();
        for info in self.open_transactions() {
            match info.active {
                true => figures.active += 1,
                false => figures.inactive += 1,
            }
        }
        figures
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

    pub(crate) fn opened(&self, session: &Arc<Session<T>>) {
        self.lock_open().insert(session.id, session.clone());
    }

    pub(crate) fn closed(&self, id: SessionId, aborted: bool) {
        let mut open = self.lock_open();
        // another operation may have begun the next one meanwhile
        if open.get(&id).is_some_and(|session| session.info().is_none()) {
            open.remove(&id);
            if aborted {
                self.figures.aborted.add(1);
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
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.sessions_max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TooManySessions);
        }
        let entry = shard.entry(id).or_insert_with(|| Entry { used: Instant::now(), session: None });
        Ok(work(entry))
    }

    fn shard(&self, id: SessionId) -> MutexGuard<'_, HashMap<SessionId, Entry<T>>> {
        let number = usize::from(id.id.as_bytes()[0]) % SHARDS;
        let shard = self.shards.get(number).expect("a number modulo SHARDS is below SHARDS");
        lock(shard)
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session<T>>>> {
        lock(&self.open)
    }
}

/// Every change of these maps is one insert or remove.
fn lock<M>(mutex: &Mutex<M>) -> MutexGuard<'_, M> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
