//! The open cursors of the server by id.
//!
//! A cursor that makes a batch is checked out: it stays known, but a second `getMore` on it is refused, and killing it
//! interrupts the batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{ShardedCounter, Shares, Stamp, memory};
use arbor_lang::Code;
use arbor_store::Namespace;
use parking_lot::{Mutex, MutexGuard};

use crate::feed::WakeHandle;
use crate::{Cursor, Error, Result};

/// Idle time after which a cursor is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// More cursors than this are not open at a time: each keeps a snapshot, and with it one of the engine's readers, which
/// every other request needs too; fewer where [`Budget::snapshots_max`](memory::Budget::snapshots_max) says so. The owner with the most idle cursors gives up the one that was used longest ago, so one
/// client's cursors never close those of others that have fewer.
pub const OPEN_MAX: usize = 4096;

/// Options of a cursor, set by the client when it was made.
#[derive(Clone, Debug, Default)]
pub struct CursorOptions {
    /// Logical session it belongs to.
    pub session: Option<Vec<u8>>,
    /// The transaction of that session that it belongs to.
    pub transaction: Option<i64>,
    pub no_timeout: bool,
    /// Number of the connection that opened it.
    pub owner: u64,
    /// Digest of the user that opened it; None: none was logged in.
    pub user: Option<[u8; 32]>,
}

impl CursorOptions {
    fn is_of(&self, session: &[u8]) -> bool {
        self.session.as_deref() == Some(session)
    }
}

#[derive(Default)]
pub struct CursorRegistry {
    entries: Mutex<Entries>,
    /// Cursors that were closed because their client did not come back.
    pub timed_out: ShardedCounter,
    pub opened: ShardedCounter,
}

#[derive(Default)]
struct Entries {
    by_id: HashMap<i64, Entry>,
    /// Those that no request uses now.
    idle: Shares<i64>,
}

struct Entry {
    namespace: Namespace,
    options: CursorOptions,
    killed: Arc<AtomicBool>,
    /// Wakes the request that waits for the cursor's next documents.
    wake_handle: Option<WakeHandle>,
    last_used: Instant,
    /// None while it is checked out.
    cursor: Option<Box<Cursor>>,
    /// Its place in `idle`, if it is there.
    stamp: Option<Stamp>,
}

/// A cursor that is making a batch. Dropped without [`CheckedOut::keep`], the cursor is closed.
pub struct CheckedOut<'r> {
    registry: &'r CursorRegistry,
    id: i64,
    cursor: Option<Box<Cursor>>,
}

/// Outcome of [`CursorRegistry::kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    Killed,
    NotFound,
}

/// For currentOp and serverStatus.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    pub id: i64,
    pub namespace: Namespace,
    pub session: Option<Vec<u8>>,
    pub user: Option<[u8; 32]>,
    pub in_use: bool,
    pub no_timeout: bool,
    pub idle: Duration,
}

impl CursorRegistry {
    /// Registers a cursor; returns its id, never 0.
    pub fn insert(&self, mut cursor: Cursor, options: CursorOptions) -> i64 {
        cursor.rest();
        let entry = Entry {
            namespace: cursor.namespace().clone(),
            options,
            killed: cursor.kill_flag(),
            wake_handle: cursor.woken().map(|woken| woken.handle()),
            last_used: Instant::now(),
            cursor: Some(Box::new(cursor)),
            stamp: None,
        };
        let mut entries = self.entries();
        let is_full = entries.by_id.len() >= memory::process().snapshots_max(OPEN_MAX);
        let forgotten = if is_full { entries.take_from_greatest() } else { None };
        let id = loop {
            let id = i64::from_le_bytes(rand::random::<[u8; 8]>()) & i64::MAX;
            if id != 0 && !entries.by_id.contains_key(&id) {
                break id;
            }
        };
        entries.by_id.insert(id, entry);
        entries.rest(id);
        self.opened.add(1);
        // its snapshot is released outside of the lock
        drop(entries);
        drop(forgotten);
        id
    }

    /// For `getMore`; `namespace` is the one that the client names.
    pub fn check_out(&self, id: i64, namespace: &Namespace) -> Result<CheckedOut<'_>> {
        let mut entries = self.entries();
        let entry = entries.by_id.get_mut(&id).ok_or_else(|| not_found(id))?;
        if entry.namespace != *namespace {
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                entry.namespace
            );
            return Err(Error::new(Code::UNAUTHORIZED, message));
        }
        let in_use = || Error::new(Code::CURSOR_IN_USE, format!("cursor id {id} is already in use"));
        let cursor = entry.cursor.take().ok_or_else(in_use)?;
        entries.wake(id);
        Ok(CheckedOut { registry: self, id, cursor: Some(cursor) })
    }

    /// Returns the options that the cursor was made with.
    pub fn options(&self, id: i64) -> Option<CursorOptions> {
        Some(self.entries().by_id.get(&id)?.options.clone())
    }

    /// Closes a cursor of that namespace; with None of any namespace.
    pub fn kill(&self, id: i64, namespace: Option<&Namespace>) -> Killed {
        let mut entries = self.entries();
        match entries.by_id.get(&id) {
            Some(entry) if namespace.is_none_or(|own| *own == entry.namespace) => {
                entry.killed.store(true, Ordering::Relaxed);
                let entry = entries.remove(id);
                drop(entries);
                entry.as_ref().and_then(|entry| entry.wake_handle.as_ref()).inspect(|handle| handle.wake());
                drop(entry);
                Killed::Killed
            }
            _ => Killed::NotFound,
        }
    }

    /// Closes the cursors of a session that ended.
    pub fn kill_session(&self, session: &[u8]) -> usize {
        self.kill_where(|entry| entry.options.is_of(session))
    }

    /// Closes the cursors of a transaction that is over.
    pub fn kill_transaction(&self, session: &[u8], number: i64) -> usize {
        self.kill_where(|entry| entry.options.is_of(session) && entry.options.transaction == Some(number))
    }

    /// Closes the cursors of transactions that are over.
    pub fn kill_transactions_unless(&self, is_open: impl Fn(&[u8], i64) -> bool) -> usize {
        self.kill_where(|entry| match (&entry.options.session, entry.options.transaction) {
            (Some(session), Some(number)) => entry.cursor.is_some() && !is_open(session, number),
            _ => false,
        })
    }

    /// Closes idle cursors; the server calls it periodically. Returns how many.
    pub fn reap(&self, now: Instant, timeout: Duration) -> usize {
        let reaped = self.kill_where(|entry| {
            let idle = now.saturating_duration_since(entry.last_used);
            entry.cursor.is_some() && !entry.options.no_timeout && idle >= timeout
        });
        self.timed_out.add(reaped as u64);
        reaped
    }

    pub fn len(&self) -> usize {
        self.entries().by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn list(&self) -> Vec<CursorInfo> {
        let now = Instant::now();
        let info = |(id, entry): (&i64, &Entry)| CursorInfo {
            id: *id,
            namespace: entry.namespace.clone(),
            session: entry.options.session.clone(),
            user: entry.options.user,
            in_use: entry.cursor.is_none(),
            no_timeout: entry.options.no_timeout,
            idle: now.saturating_duration_since(entry.last_used),
        };
        self.entries().by_id.iter().map(info).collect()
    }

    fn kill_where(&self, mut chosen: impl FnMut(&Entry) -> bool) -> usize {
        let mut entries = self.entries();
        let ids: Vec<i64> = entries.by_id.iter().filter(|(_, entry)| chosen(entry)).map(|(id, _)| *id).collect();
        let closed: Vec<Entry> = ids.into_iter().filter_map(|id| entries.remove(id)).collect();
        // snapshots are released outside of the lock
        drop(entries);
        closed.iter().for_each(|entry| entry.killed.store(true, Ordering::Relaxed));
        closed.iter().filter_map(|entry| entry.wake_handle.as_ref()).for_each(WakeHandle::wake);
        closed.len()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // every change is made in steps that do not panic
        self.entries.lock()
    }
}

impl CheckedOut<'_> {
    pub fn cursor(&mut self) -> &mut Cursor {
        self.cursor.as_mut().expect("a cursor is inside until it is kept")
    }

    /// Gives the cursor back for the next batch.
    pub fn keep(mut self) {
        self.cursor().rest();
        let mut entries = self.registry.entries();
        if let Some(entry) = entries.by_id.get_mut(&self.id) {
            entry.cursor = self.cursor.take();
            entry.last_used = Instant::now();
            entries.rest(self.id);
        }
    }
}

impl Drop for CheckedOut<'_> {
    fn drop(&mut self) {
        if self.cursor.is_some() {
            self.registry.entries().remove(self.id);
        }
    }
}

impl Entries {
    /// The cursor is idle from now on.
    fn rest(&mut self, id: i64) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.stamp = Some(self.idle.add(entry.options.owner, id));
        }
    }

    /// The cursor is used from now on.
    fn wake(&mut self, id: i64) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        if let Some(stamp) = entry.stamp.take() {
            self.idle.remove(entry.options.owner, stamp);
        }
    }

    fn remove(&mut self, id: i64) -> Option<Entry> {
        self.wake(id);
        self.by_id.remove(&id)
    }

    fn take_from_greatest(&mut self) -> Option<Entry> {
        let id = *self.idle.of_greatest().next()?;
        self.remove(id)
    }
}

fn not_found(id: i64) -> Error {
    Error::new(Code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::DocBuf;

    fn namespace(text: &str) -> Namespace {
        Namespace::parse(text).unwrap()
    }

    fn registry_with_one() -> (CursorRegistry, i64) {
        let registry = CursorRegistry::default();
        let id = registry.insert(Cursor::over_documents(namespace("db.c"), [DocBuf::new()]), CursorOptions::default());
        (registry, id)
    }

    #[test]
    fn a_checked_out_cursor_is_in_use_until_it_is_kept_or_dropped() {
        let (registry, id) = registry_with_one();
        let out = registry.check_out(id, &namespace("db.c")).unwrap();
        assert!(registry.check_out(id, &namespace("db.c")).is_err());
        out.keep();
        drop(registry.check_out(id, &namespace("db.c")).unwrap());
        let gone = registry.check_out(id, &namespace("db.c")).err().unwrap();
        assert_eq!(gone.to_string(), format!("cursor id {id} not found"));
        assert!(registry.is_empty());
    }

    #[test]
    fn a_cursor_answers_only_to_its_namespace() {
        let (registry, id) = registry_with_one();
        assert!(registry.check_out(id, &namespace("db.other")).is_err());
        assert_eq!(registry.kill(id, Some(&namespace("db.other"))), Killed::NotFound);
        assert_eq!(registry.kill(id, None), Killed::Killed);
    }

    #[test]
    fn idle_cursors_are_reaped_and_cursors_in_use_are_not() {
        let (registry, id) = registry_with_one();
        let out = registry.check_out(id, &namespace("db.c")).unwrap();
        let later = Instant::now() + IDLE_TIMEOUT + Duration::from_secs(1);
        assert_eq!(registry.reap(later, IDLE_TIMEOUT), 0);
        out.keep();
        assert_eq!(registry.reap(Instant::now(), IDLE_TIMEOUT), 0);
        assert_eq!(registry.reap(later, IDLE_TIMEOUT), 1);
        let stays = CursorOptions { no_timeout: true, ..CursorOptions::default() };
        registry.insert(Cursor::over_documents(namespace("db.c"), []), stays);
        assert_eq!(registry.reap(later, IDLE_TIMEOUT), 0);
    }

    #[test]
    fn cursors_end_with_their_transaction_or_session() {
        let registry = CursorRegistry::default();
        let open = |session: &[u8], transaction| {
            let options =
                CursorOptions { session: Some(session.to_vec()), transaction, owner: 1, ..CursorOptions::default() };
            registry.insert(Cursor::over_documents(namespace("db.c"), []), options)
        };
        let (plain, inside, other) = (open(b"a", None), open(b"a", Some(1)), open(b"b", Some(1)));
        assert_eq!(registry.kill_transaction(b"a", 2), 0);
        assert_eq!(registry.kill_transactions_unless(|_, number| number == 1), 0);
        assert_eq!(registry.kill_transaction(b"a", 1), 1);
        assert!(registry.options(inside).is_none());
        assert_eq!(registry.kill_transactions_unless(|session, _| session == b"a"), 1);
        assert!(registry.options(other).is_none() && registry.options(plain).is_some());
        assert_eq!(registry.kill_session(b"a"), 1);
    }

    #[test]
    fn the_most_idle_cursor_makes_room_for_the_next() {
        let open = |registry: &CursorRegistry| {
            registry.insert(Cursor::over_documents(namespace("db.c"), [DocBuf::new()]), CursorOptions::default())
        };
        let (registry, first) = registry_with_one();
        let second = open(&registry);
        (2..OPEN_MAX).for_each(|_| assert_ne!(open(&registry), 0));
        registry.check_out(first, &namespace("db.c")).unwrap().keep();
        open(&registry);
        assert_eq!(registry.len(), OPEN_MAX);
        assert!(registry.check_out(second, &namespace("db.c")).is_err());
        registry.check_out(first, &namespace("db.c")).unwrap().keep();
    }

    #[test]
    fn the_owner_with_the_most_cursors_makes_room() {
        let open = |registry: &CursorRegistry, owner| {
            let options = CursorOptions { owner, ..CursorOptions::default() };
            registry.insert(Cursor::over_documents(namespace("db.c"), []), options)
        };
        let registry = CursorRegistry::default();
        let modest: Vec<i64> = (0..10).map(|_| open(&registry, 1)).collect();
        let greedy: Vec<i64> = (0..2 * OPEN_MAX).map(|_| open(&registry, 2)).collect();
        assert_eq!(registry.len(), OPEN_MAX);
        assert!(modest.iter().all(|id| registry.options(*id).is_some()));
        assert!(registry.options(greedy[0]).is_none() && registry.options(greedy[2 * OPEN_MAX - 1]).is_some());
        open(&registry, 3);
        assert!(modest.iter().all(|id| registry.options(*id).is_some()));
    }

    #[test]
    fn a_kill_during_a_batch_interrupts_it() {
        let (registry, id) = registry_with_one();
        let mut out = registry.check_out(id, &namespace("db.c")).unwrap();
        assert_eq!(registry.kill(id, None), Killed::Killed);
        assert!(out.cursor().kill_flag().load(Ordering::Relaxed));
        out.keep();
        assert!(registry.is_empty());
    }
}
