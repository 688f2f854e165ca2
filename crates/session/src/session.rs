//! One session: its transaction number, its open transaction, and the operation that has it now.
//!
//! S1: one operation has a session at a time; others that come with a transaction number wait.
//! S2: an open transaction is either with that operation ([`CheckedOut`]) or in the state, never in both.
//! S3: a session is removed from the registry only while no operation has it; a caller that finds it removed looks it up again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_oplog::{Retry, SessionId};
use arbor_txn::Transaction;
use parking_lot::{Condvar, Mutex};

use crate::journal::{self, Journal, Stored};
use crate::machine::{Machine, Phase};
use crate::row::{Ended, Row};
use crate::{Error, Intent, Outcome, Result, Sessions};

/// Interval at which a thread that waits for a session checks whether it was interrupted.
const PATIENCE: Duration = Duration::from_millis(50);

/// The reason to end a transaction while one of its operations runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// By a command, or with its session.
    Killed,
    /// It was open for too long.
    Expired,
}

/// An open transaction, as `currentOp` shows it.
#[derive(Clone, Debug)]
pub struct OpenTransactionInfo {
    pub session: SessionId,
    pub number: i64,
    /// An operation of it runs.
    pub active: bool,
    pub open_for: Duration,
    pub active_for: Duration,
    /// Time of its begin, milliseconds since 1970.
    pub begun_wall: i64,
    /// Description given at its begin.
    pub about: Arc<[u8]>,
}

pub(crate) struct Session<T> {
    pub id: SessionId,
    state: Mutex<State<T>>,
    free: Condvar,
}

pub(crate) struct State<T> {
    busy: bool,
    removed: bool,
    /// Asked of the operation that has the session.
    kill: Option<Kill>,
    /// The knowledge of that operation is void: it began in an earlier term.
    forgotten: bool,
    machine: Machine,
    /// `None`: its row was not read yet.
    stored: Option<Stored>,
    open: Option<Open>,
    /// Boxed, since most sessions have none.
    work: Option<Box<T>>,
}

/// Facts of an open transaction.
struct Open {
    number: i64,
    begun: Instant,
    begun_wall: i64,
    /// Total time of its completed operations.
    active_for: Duration,
    /// Begin of the running operation.
    active_since: Option<Instant>,
    about: Arc<[u8]>,
}

impl<T> Session<T> {
    pub(crate) fn new(id: SessionId) -> Session<T> {
        let state = State {
            busy: false,
            removed: false,
            kill: None,
            forgotten: false,
            machine: Machine::default(),
            stored: None,
            open: None,
            work: None,
        };
        Session { id, state: Mutex::new(state), free: Condvar::new() }
    }

    /// Waits until no operation has the session, and acquires it. False: it was removed.
    pub(crate) fn acquire(&self, interrupted: &dyn Fn() -> bool) -> Result<bool> {
        let mut state = self.state.lock();
        while state.busy {
            self.free.wait_for(&mut state, PATIENCE);
            if state.busy && interrupted() {
                return Err(Error::Interrupted);
            }
        }
        if state.removed {
            return Ok(false);
        }
        state.busy = true;
        state.kill = None;
        Ok(true)
    }

    /// Undoes [`Session::acquire`].
    pub(crate) fn release(&self) {
        self.state.lock().busy = false;
        self.free.notify_one();
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.state.lock().stored.is_some()
    }

    /// Loads the row, before the session's first operation.
    pub(crate) fn load(&self, row: Option<&Row>) {
        let mut state = self.state.lock();
        let phase = |ended| match ended {
            Ended::Statements => Phase::Statements,
            Ended::Committed => Phase::Committed,
        };
        state.machine = row.map_or(Machine::default(), |row| Machine { number: row.number, phase: phase(row.ended) });
        let stored = row.map_or((-1, false), |row| (row.number, row.further > 0));
        state.stored = Some(Stored { number: stored.0, further: stored.1 });
    }

    /// Continues the transaction, or replaces it by a newer one. Returns the known state of the row, the open transaction to
    /// continue, and one that is over. Requires an acquired and loaded session.
    pub(crate) fn take(&self, number: i64, intent: Intent) -> Result<Admission<T>> {
        let mut state = self.state.lock();
        let older = state.machine.number < number;
        let outcome = state.machine.take(self.id, number, intent)?;
        let stored = state.stored.unwrap_or(Stored { number: i64::MAX, further: true });
        let over = if older { state.close() } else { None };
        let work = match intent {
            Intent::Continue | Intent::Commit | Intent::Abort => state.work.take(),
            Intent::Write | Intent::Begin => None,
        };
        if let Some(open) = &mut state.open {
            open.active_since = Some(Instant::now());
        }
        // its first operation failed: it is unknown what it read
        let lost = work.is_none() && intent == Intent::Continue;
        if lost {
            state.machine.end(Phase::Aborted);
            return Err(Error::Aborted { number });
        }
        Ok(Admission { outcome, stored, work, over })
    }

    /// Ends the open transaction, now or when its operation ends. Returns whether an operation has the session, and the
    /// transaction that was open.
    pub(crate) fn kill(&self, why: Kill) -> (bool, Option<Box<T>>) {
        let mut state = self.state.lock();
        if state.busy {
            state.kill.get_or_insert(why);
            return (true, None);
        }
        state.machine.end(Phase::Aborted);
        (false, state.close())
    }

    /// Forgets the number and the row, which another member may change from now on; the next operation reads the row. Returns the
    /// transaction that was open; of an operation that has the session it ends with the operation.
    pub(crate) fn forget(&self) -> Option<Box<T>> {
        let mut state = self.state.lock();
        (state.machine, state.stored) = (Machine::default(), None);
        if state.busy {
            state.forgotten = true;
            state.kill.get_or_insert(Kill::Killed);
            return None;
        }
        state.close()
    }

    /// Has the next operation read the row, unless a transaction is open or an operation has the session: these know its number.
    pub(crate) fn reread(&self) {
        let mut state = self.state.lock();
        if !state.busy && state.open.is_none() {
            (state.machine, state.stored) = (Machine::default(), None);
        }
    }

    /// Removes the session, with its open transaction. False: an operation has it.
    pub(crate) fn remove(&self) -> (bool, Option<Box<T>>) {
        let mut state = self.state.lock();
        if state.busy {
            return (false, None);
        }
        state.removed = true;
        state.machine.end(Phase::Aborted);
        (true, state.close())
    }

    /// Returns true if no operation has it and no transaction is open: all of it can be read again from its row.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        !state.busy && state.open.is_none()
    }

    /// Removes the session if it is idle; returns whether it was.
    pub(crate) fn remove_idle(&self) -> bool {
        let mut state = self.state.lock();
        let idle = !state.busy && state.open.is_none();
        state.removed |= idle;
        idle
    }

    pub(crate) fn info(&self) -> Option<OpenTransactionInfo> {
        let state = self.state.lock();
        let open = state.open.as_ref()?;
        Some(OpenTransactionInfo {
            session: self.id,
            number: open.number,
            active: open.active_since.is_some(),
            open_for: open.begun.elapsed(),
            active_for: open.active_for + open.active_since.map(|since| since.elapsed()).unwrap_or_default(),
            begun_wall: open.begun_wall,
            about: open.about.clone(),
        })
    }
}

impl<T> State<T> {
    fn close(&mut self) -> Option<Box<T>> {
        self.open = None;
        self.work.take()
    }
}

/// A request that [`Session::take`] accepted.
pub(crate) struct Admission<T> {
    pub outcome: Outcome,
    pub stored: Stored,
    pub work: Option<Box<T>>,
    pub over: Option<Box<T>>,
}

/// A session that one operation has checked out, until it is dropped. Dropping it before the intended transaction has
/// begun aborts the transaction.
pub struct CheckedOut<'s, T> {
    sessions: &'s Sessions<T>,
    session: Arc<Session<T>>,
    number: i64,
    intent: Intent,
    outcome: Outcome,
    work: Option<Box<T>>,
    journal: Journal,
    /// Phase in which this operation ended the transaction.
    ended: Option<Phase>,
}

impl<'s, T> CheckedOut<'s, T> {
    pub(crate) fn new(
        sessions: &'s Sessions<T>,
        session: Arc<Session<T>>,
        request: (i64, Intent),
        admission: Admission<T>,
        journal: Journal,
    ) -> CheckedOut<'s, T> {
        let (number, intent) = request;
        CheckedOut {
            sessions,
            session,
            number,
            intent,
            outcome: admission.outcome,
            work: admission.work,
            journal,
            ended: None,
        }
    }

    pub fn id(&self) -> SessionId {
        self.session.id
    }

    pub fn number(&self) -> i64 {
        self.number
    }

    pub fn intent(&self) -> Intent {
        self.intent
    }

    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The statements of a retryable write.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The open transaction.
    pub fn work(&self) -> Option<&T> {
        self.work.as_deref()
    }

    /// Makes room for the transaction that is to begin, if there are as many as may be.
    pub fn make_room(&self) -> Result<()> {
        self.sessions.make_room_for_transaction()
    }

    /// The transaction that was to begin has begun, on the connection `owner`. `about` is kept for the list of open
    /// transactions.
    pub fn begin(&mut self, work: T, owner: u64, begun_wall: i64, about: Vec<u8>) {
        self.work = Some(Box::new(work));
        let now = Instant::now();
        let open = Open {
            number: self.number,
            begun: now,
            begun_wall,
            active_for: Duration::ZERO,
            active_since: Some(now),
            about: about.into(),
        };
        self.session.state.lock().open = Some(open);
        self.sessions.opened(&self.session, owner);
        self.sessions.statistics().started.add(1);
    }

    /// Takes the transaction out, to be committed or aborted; the caller reports the end afterwards.
    pub fn take_work(&mut self) -> Option<T> {
        self.work.take().map(|work| *work)
    }

    /// Records the commit in the transaction itself, for retries of the commit.
    pub fn record_commit(&self, txn: &mut Transaction, wall: i64) {
        let stored = self.journal.stored();
        if stored.further {
            crate::rows::delete_further(txn, self.session.id);
        }
        journal::put(txn, self.session.id, &Row::new(self.number, Ended::Committed, wall), Retry::Transaction);
        self.sessions.statistics().rows_written.add(1);
    }

    pub fn committed(&mut self) {
        self.sessions.statistics().committed.add(1);
        self.ended = Some(Phase::Committed);
    }

    /// The commit is in the log, and whether it counts is not known here: the next operation reads the row, which says so.
    pub fn unsettled(&mut self) {
        self.work = None;
        self.session.state.lock().forgotten = true;
    }

    /// Aborts the open transaction.
    pub fn abort(&mut self) {
        self.work = None;
        if self.ended.is_none() {
            self.ended = Some(Phase::Aborted);
        }
    }

    /// Returns the reason for which the operation has to end, if it has to.
    pub fn kill_requested(&self) -> Option<Kill> {
        self.session.state.lock().kill
    }

    fn is_of_transaction(&self) -> bool {
        self.intent != Intent::Write
    }

    fn stored(&self) -> Stored {
        match self.ended {
            Some(Phase::Committed) => Stored { number: self.number, further: false },
            _ => self.journal.stored(),
        }
    }
}

impl<T> Drop for CheckedOut<'_, T> {
    fn drop(&mut self) {
        let mut state = self.session.state.lock();
        let forgotten = std::mem::take(&mut state.forgotten);
        state.stored = (!forgotten).then(|| self.stored());
        if forgotten {
            state.machine = Machine::default();
        }
        let killed = state.kill.take().is_some();
        let mut over = None;
        let mut aborted = false;
        if self.is_of_transaction() && state.machine.phase == Phase::InProgress {
            let work = self.work.take();
            match self.ended {
                Some(phase) => {
                    aborted = phase == Phase::Aborted;
                    state.machine.end(phase);
                    over = work;
                }
                None if killed || work.is_none() || std::thread::panicking() => {
                    aborted = true;
                    state.machine.end(Phase::Aborted);
                    over = work;
                }
                None => state.work = work,
            }
        }
        if forgotten {
            aborted |= self.work.is_some();
            over = over.or_else(|| self.work.take()).or_else(|| state.work.take());
        }
        let still_open = state.work.is_some();
        match &mut state.open {
            Some(open) if still_open => {
                let since = open.active_since.take();
                open.active_for += since.map(|since| since.elapsed()).unwrap_or_default();
            }
            _ => state.open = None,
        }
        state.busy = false;
        drop(state);
        self.session.free.notify_one();
        if self.is_of_transaction() && !still_open {
            self.sessions.closed(self.session.id, aborted);
        }
        // releases its snapshot and its claims
        drop(over);
    }
}
