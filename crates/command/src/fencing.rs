//! Fencing tokens: what a shard knows of the locks of the cluster (`config.locks`).
//!
//! A router that was paused for longer than its lock lives does not know that another one has it. So each command that changes something
//! here for the holder of a lock proves it, by `fencingToken: {lock, token}`. F1: the token is the time of a state of the config servers in which
//! the lock was the sender's; that of a later holder is later. F2: a command with an earlier token than the newest one of its lock is refused
//! before it has done anything. F3: the first command with a newer one waits until those with earlier ones have ended: no two holders work
//! here at once. F4: before it runs, its token is a row of `config.cache.fencingTokens`, on the disk and with the set: a restart, or another
//! primary, refuses the same. F5: where there are many rows, those that are older by [`TOKEN_LIFE`] than a newest token become one bound, the row without
//! a name: a lock that has no row refuses tokens before that. Holders renew their token well before ([`TOKEN_LIFE`]), so the bound refuses those alone
//! that were paused for as long. F6: the token with which a server becomes a shard is its first bound: it has heard of no holder before. Routers that know the shard have
//! read their tokens later. Rejected: a counter, which is one more write for each lock; the clock of a server, which another primary may
//! have set back; rows that go with their collection, since an earlier holder may wake up later.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;
use parking_lot::{Condvar, Mutex};

use crate::incoming::Incoming;
use crate::moves::delete_rows;
use crate::{Commands, Error, Result};

/// Generic field of a command of the holder of a lock.
pub const FENCING_TOKEN: &str = "fencingToken";

/// The message of a refusal: another router has the lock.
pub const LOCK_IS_LOST: &str = "another router has taken the lock of this operation away";

/// Age up to which the token of a holder is taken for certain. Holders renew theirs several times in it.
pub const TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// Rows up to which none is removed.
const LOCKS_MAX: usize = 1000;

/// Name of the row that is a bound for the locks that have none.
const OTHERS: &str = "";

/// Longest wait for commands of earlier holders.
const PATIENCE: Duration = Duration::from_secs(20);

const NEVER: Timestamp = Timestamp { seconds: 0, increment: 0 };

/// Returns true for commands that only the holder of a lock sends.
pub fn is_of_lock_holders(command: &str) -> bool {
    const COMMANDS: &[&str] = &[
        "_shardsvrJoin",
        "_shardsvrLeave",
        "_shardsvrMoveChanges",
        "_shardsvrMoveClose",
        "_shardsvrMoveIn",
        "_shardsvrMoveOpen",
        "_shardsvrMoveOut",
        "_shardsvrMoveRead",
        "_shardsvrMoveWrite",
        "_shardsvrReplaceCollection",
        "_shardsvrSetOwnership",
        "_shardsvrTakeDocuments",
    ];
    COMMANDS.contains(&command)
}

/// The tokens of all locks that this shard has heard of.
#[derive(Default)]
pub(crate) struct Fences {
    known: Mutex<Known>,
    /// Held while old rows become a bound.
    bounding: Mutex<()>,
}

struct Known {
    locks: HashMap<String, Arc<Fence>>,
    /// Locks that are not known begin with it.
    bound: Timestamp,
    /// Number of locks at which old ones are forgotten.
    bounded_at: usize,
}

impl Default for Known {
    fn default() -> Known {
        Known { locks: HashMap::new(), bound: NEVER, bounded_at: LOCKS_MAX }
    }
}

impl Known {
    fn of(&mut self, lock: &str) -> Arc<Fence> {
        match self.locks.get(lock) {
            Some(fence) => fence.clone(),
            None => {
                let state = Mutex::new(State { newest: self.bound, ..State::default() });
                let fence = Arc::new(Fence { state, ended: Condvar::new() });
                self.locks.insert(lock.to_owned(), fence.clone());
                fence
            }
        }
    }
}

struct Fence {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    newest: Timestamp,
    /// The one that is known to be a row.
    stored: Timestamp,
    /// Commands that run with the newest token.
    running: usize,
    /// Commands that run with earlier ones.
    earlier: usize,
}

impl State {
    /// Refuses earlier tokens from now on.
    fn advance(&mut self, token: Timestamp) {
        if token > self.newest {
            self.newest = token;
            self.earlier += std::mem::take(&mut self.running);
        }
    }
}

impl Default for State {
    fn default() -> State {
        State { newest: NEVER, stored: NEVER, running: 0, earlier: 0 }
    }
}

/// Held while a command of the holder of a lock runs.
pub(crate) struct Holding {
    fence: Arc<Fence>,
    token: Timestamp,
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut state = self.fence.state.lock();
        let count = if self.token == state.newest { &mut state.running } else { &mut state.earlier };
        assert!(*count > 0, "a command ends once");
        *count -= 1;
        self.fence.ended.notify_all();
    }
}

impl Fence {
    /// Lets a command in. `store` makes a newer token a row.
    fn enter(self: &Arc<Fence>, token: Timestamp, store: impl FnOnce() -> Result<()>) -> Result<Holding> {
        let until = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        loop {
            if token < state.newest {
                return Err(Error::new(Code::LOCK_BUSY, LOCK_IS_LOST));
            }
            state.advance(token);
            if state.earlier == 0 {
                break;
            }
            if self.ended.wait_until(&mut state, until).timed_out() {
                let text = "commands of an earlier holder of the lock did not end in time";
                return Err(Error::new(Code::LOCK_TIMEOUT, text));
            }
        }
        if state.stored < token {
            store()?;
            state.stored = token;
        }
        state.running += 1;
        Ok(Holding { fence: self.clone(), token })
    }
}

impl Fences {
    fn of(&self, lock: &str) -> Arc<Fence> {
        self.known.lock().of(lock)
    }

    /// Learns what is stored, which the primary before may have done.
    fn learn(&self, rows: &[DocBuf]) {
        let mut known = self.known.lock();
        known.locks.values().for_each(|fence| fence.state.lock().stored = NEVER);
        for row in rows {
            match (row.get("_id"), row.get("token")) {
                (Some(ValueRef::String(OTHERS)), Some(ValueRef::Timestamp(token))) => {
                    known.bound = known.bound.max(token);
                }
                (Some(ValueRef::String(lock)), Some(ValueRef::Timestamp(token))) => {
                    let fence = known.of(lock);
                    let mut state = fence.state.lock();
                    state.stored = token;
                    state.advance(token);
                }
                _ => {}
            }
        }
        // their rows may have become the bound
        known.locks.values().for_each(|fence| fence.state.lock().advance(known.bound));
    }

    /// Returns a later bound for the locks that have no row, if there are many. It holds here from now on.
    fn advance_bound(&self, newest: Timestamp) -> Option<Timestamp> {
        let mut known = self.known.lock();
        if known.locks.len() < known.bounded_at {
            return None;
        }
        known.bounded_at = known.locks.len() * 2;
        let seconds = newest.seconds.saturating_sub(TOKEN_LIFE.as_secs() as u32);
        let bound = Timestamp { seconds, increment: 0 };
        if bound <= known.bound {
            return None;
        }
        known.bound = bound;
        Some(bound)
    }

    /// Refuses tokens before one for all locks from now on, and returns the bound that is to be stored.
    fn begin_with(&self, token: Timestamp) -> Timestamp {
        let mut known = self.known.lock();
        known.bound = known.bound.max(token);
        known.locks.values().for_each(|fence| fence.state.lock().advance(known.bound));
        known.bound
    }

    /// Forgets the locks for which the bound does. Requires that it is stored.
    fn forget_old(&self) {
        let mut known = self.known.lock();
        let bound = known.bound;
        // those in use are held by others, too, who got them with `known` locked
        known.locks.retain(|_, fence| Arc::strong_count(fence) > 1 || fence.state.lock().newest >= bound);
        known.bounded_at = LOCKS_MAX.max(known.locks.len() * 2);
    }
}

impl Commands {
    /// Checks the token of a command that has one. Errors: it has none and needs one; or the lock belongs to another router by now.
    pub(crate) fn enter_as_holder(&self, command: &str, request: &Incoming<'_>) -> Result<Option<Holding>> {
        let Some(fences) = self.ownership.as_ref().map(|ownership| &ownership.fences) else { return Ok(None) };
        let Some(given) = request.body.get(FENCING_TOKEN) else {
            return match is_of_lock_holders(command) {
                true => Err(Field::new(command, FENCING_TOKEN).missing().into()),
                false => Ok(None),
            };
        };
        let given = Field::new(command, FENCING_TOKEN).document(given)?;
        let (Some(ValueRef::String(lock)), Some(ValueRef::Timestamp(token))) = (given.get("lock"), given.get("token"))
        else {
            return Err(Error::bad_value(format!("{FENCING_TOKEN} must have a lock and a token")));
        };
        if lock == OTHERS {
            return Err(Error::bad_value(format!("{FENCING_TOKEN} must have the name of a lock")));
        }
        let holding = fences.of(lock).enter(token, || self.store_token(lock, token))?;
        // where it fails, there are more rows until the next one
        let _ = self.bound_tokens(fences, token);
        Ok(Some(holding))
    }

    fn store_token(&self, lock: &str, token: Timestamp) -> Result<()> {
        let row = DocBuf::new().with("_id", lock).with("token", ValueRef::Timestamp(token));
        self.persist(&rows()?, row.as_doc())?;
        Ok(self.database.make_durable(arbor_txn::Durability::Journaled, None)?)
    }

    /// Replaces old rows by a bound, if there are many (F5).
    fn bound_tokens(&self, fences: &Fences, newest: Timestamp) -> Result<()> {
        let Some(_one) = fences.bounding.try_lock() else { return Ok(()) };
        let Some(bound) = fences.advance_bound(newest) else { return Ok(()) };
        // first, so that there is no state without both
        self.store_token(OTHERS, bound)?;
        let old = DocBuf::new()
            .with("_id", &DocBuf::new().with("$ne", OTHERS))
            .with("token", &DocBuf::new().with("$lt", ValueRef::Timestamp(bound)));
        delete_rows(&Scope::of_server(&self.database), rows()?, &old)?;
        fences.forget_old();
        Ok(())
    }

    /// Refuses what holders of before this command send, of all locks, as a server that becomes a shard does (F6). Requires that the command has a token.
    pub(crate) fn fence_earlier_holders(&self, body: Doc<'_>) -> Result<()> {
        let Some(fences) = self.ownership.as_ref().map(|ownership| &ownership.fences) else { return Ok(()) };
        let given = match body.get(FENCING_TOKEN) {
            Some(ValueRef::Document(given)) => given.get("token"),
            _ => None,
        };
        let Some(ValueRef::Timestamp(token)) = given else { unreachable!("it was checked as the command entered") };
        let _one = fences.bounding.lock();
        self.store_token(OTHERS, fences.begin_with(token))
    }

    /// Reads the tokens that this shard knew before.
    pub(crate) fn begin_fencing(&self, fences: &Fences) -> Result<()> {
        let found = arbor_query::find(&Scope::of(&self.database), &FindSpec::new(rows()?), &Interrupt::never())?;
        fences.learn(&found.all(&Interrupt::never())?);
        Ok(())
    }
}

fn rows() -> Result<Namespace> {
    Ok(Namespace::new("config", "cache.fencingTokens")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u32) -> Timestamp {
        Timestamp { seconds, increment: 1 }
    }

    fn enter(fences: &Fences, seconds: u32) -> Result<Holding> {
        fences.of("db.c").enter(at(seconds), || Ok(()))
    }

    #[test]
    fn earlier_holders_are_refused() {
        let fences = Fences::default();
        drop(enter(&fences, 5).unwrap());
        drop((enter(&fences, 5).unwrap(), enter(&fences, 5).unwrap()));
        drop(enter(&fences, 7).unwrap());
        for earlier in [5, 6] {
            assert_eq!(enter(&fences, earlier).err().map(|error| error.code), Some(Code::LOCK_BUSY));
        }
        assert!(fences.of("db.d").enter(at(1), || Ok(())).is_ok(), "of another lock");
        let row = |lock: &str, seconds| DocBuf::new().with("_id", lock).with("token", ValueRef::Timestamp(at(seconds)));
        let fences = Fences::default();
        fences.learn(&[row("db.c", 7), row("db.d", 3)]);
        assert!(enter(&fences, 6).is_err() && enter(&fences, 7).is_ok() && enter(&fences, 8).is_ok());
    }

    #[test]
    fn many_old_tokens_become_one_bound() {
        let life = TOKEN_LIFE.as_secs() as u32;
        let enter = |fences: &Fences, lock: &str, seconds| fences.of(lock).enter(at(seconds), || Ok(()));
        let fences = Fences::default();
        let held = enter(&fences, "held", 5).unwrap();
        for n in 0..LOCKS_MAX as u32 {
            assert_eq!(fences.advance_bound(at(10 * life)).is_some(), n + 1 >= LOCKS_MAX as u32);
            drop(enter(&fences, &format!("db.c{n}"), if n % 2 == 0 { 10 } else { 10 * life }).unwrap());
        }
        let bound = fences.known.lock().bound;
        assert_eq!(bound, Timestamp { seconds: 9 * life, increment: 0 });
        fences.forget_old();
        assert_eq!(fences.known.lock().locks.len(), LOCKS_MAX / 2 + 1, "the newer ones, and the one in use");
        // earlier holders are refused as before, also of locks that were not known; a renewed token is not
        for lock in ["db.c0", "db.c2", "db.new"] {
            assert!(enter(&fences, lock, 11).is_err() && enter(&fences, lock, 9 * life - 1).is_err());
        }
        assert!(enter(&fences, "db.c0", 9 * life).is_ok() && enter(&fences, "db.c1", 10 * life - 1).is_err());
        drop(held);
        // a primary of before, on which one has a later row now
        let row = |lock: &str, time| DocBuf::new().with("_id", lock).with("token", ValueRef::Timestamp(time));
        let former = Fences::default();
        drop((enter(&former, "db.c0", 3).unwrap(), enter(&former, "db.c1", 3).unwrap()));
        former.learn(&[row(OTHERS, bound), row("db.c1", at(10 * life))]);
        assert!(enter(&former, "db.c0", 11).is_err() && enter(&former, "db.c1", 9 * life).is_err());
        assert!(enter(&former, "db.new", 11).is_err() && enter(&former, "db.c0", 9 * life).is_ok());
    }

    #[test]
    fn a_server_that_becomes_a_shard_takes_no_token_of_before() {
        let fences = Fences::default();
        let joining = enter(&fences, 5).unwrap();
        assert_eq!(fences.begin_with(at(5)), at(5));
        drop(joining);
        for lock in ["db.c", "db.new"] {
            assert!(
                fences.of(lock).enter(at(4), || Ok(())).is_err() && fences.of(lock).enter(at(5), || Ok(())).is_ok()
            );
        }
        assert_eq!(fences.begin_with(at(3)), at(5), "it does not go back");
        // one that was known before
        let fences = Fences::default();
        let running = enter(&fences, 2).unwrap();
        fences.begin_with(at(5));
        assert!(enter(&fences, 2).is_err(), "it has a later one now");
        drop(running);
        assert!(enter(&fences, 6).is_ok());
    }

    #[test]
    fn a_newer_token_is_stored_once_before_its_first_command() {
        let (fences, mut stored) = (Fences::default(), Vec::new());
        for seconds in [1, 1, 2, 2] {
            let entered = fences.of("db.c").enter(at(seconds), || {
                stored.push(seconds);
                Ok(())
            });
            drop(entered.unwrap());
        }
        assert_eq!(stored, [1, 2]);
        let failed = || Err(Error::new(Code::INTERNAL_ERROR, "no disk"));
        assert!(fences.of("db.c").enter(at(3), failed).is_err());
        assert!(enter(&fences, 2).is_err(), "also if the disk has failed");
        assert!(fences.of("db.c").enter(at(3), failed).is_err(), "it is not stored yet");
        assert!(enter(&fences, 3).is_ok());
    }

    #[test]
    fn a_later_holder_waits_for_commands_of_earlier_ones() {
        let fences = Arc::new(Fences::default());
        let running = (enter(&fences, 1).unwrap(), enter(&fences, 1).unwrap());
        let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let waiting = {
            let (fences, ended) = (fences.clone(), ended.clone());
            std::thread::spawn(move || {
                let holding = enter(&fences, 2).unwrap();
                assert!(ended.load(std::sync::atomic::Ordering::Acquire), "it ran next to an earlier one");
                drop(holding);
            })
        };
        while enter(&fences, 1).is_ok() {
            std::thread::yield_now();
        }
        drop(running.0);
        ended.store(true, std::sync::atomic::Ordering::Release);
        drop(running.1);
        waiting.join().unwrap();
    }
}
