//! Fencing tokens: what a shard knows of the locks of the cluster (`config.locks`).
//!
//! A router that was paused for longer than its lock lives does not know that another one has it. So each command that changes something
//! here for the holder of a lock proves it, by `fencingToken: {lock, token}`. F1: the token is the time of a state of the config servers in which
//! the lock was the sender's; that of a later holder is later. F2: a command with an earlier token than the newest one of its lock is refused
//! before it has done anything. F3: the first command with a newer one waits until those with earlier ones have ended: no two holders work
//! here at once. F4: before it runs, its token is a row of `config.cache.fencingTokens`, on the disk and with the set: a restart, or another
//! primary, refuses the same. Rejected: a counter, which is one more write for each lock; the clock of a server, which another primary may have set back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_protocol::arguments::Field;
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;
use parking_lot::{Condvar, Mutex};

use crate::incoming::Incoming;
use crate::{Commands, Error, Result};

/// Generic field of a command of the holder of a lock.
pub const FENCING_TOKEN: &str = "fencingToken";

/// The message of a refusal: another router has the lock.
pub const LOCK_IS_LOST: &str = "another router has taken the lock of this operation away";

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
pub(crate) struct Fences(Mutex<HashMap<String, Arc<Fence>>>);

#[derive(Default)]
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
            if token > state.newest {
                // earlier ones are refused from now on
                state.newest = token;
                state.earlier += std::mem::take(&mut state.running);
            }
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
        let mut known = self.0.lock();
        match known.get(lock) {
            Some(fence) => fence.clone(),
            None => known.entry(lock.to_owned()).or_default().clone(),
        }
    }

    /// Learns what is stored, which the primary before may have done.
    fn learn(&self, rows: &[DocBuf]) {
        self.0.lock().values().for_each(|fence| fence.state.lock().stored = NEVER);
        for row in rows {
            let (Some(ValueRef::String(lock)), Some(ValueRef::Timestamp(token))) = (row.get("_id"), row.get("token"))
            else {
                continue;
            };
            let fence = self.of(lock);
            let mut state = fence.state.lock();
            state.stored = token;
            if token > state.newest {
                state.newest = token;
                state.earlier += std::mem::take(&mut state.running);
            }
        }
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
        let row = DocBuf::new().with("_id", lock).with("token", ValueRef::Timestamp(token));
        fences.of(lock).enter(token, || self.store_token(row.as_doc())).map(Some)
    }

    fn store_token(&self, row: Doc<'_>) -> Result<()> {
        self.persist(&rows()?, row)?;
        Ok(self.database.make_durable(arbor_txn::Durability::Journaled, None)?)
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
