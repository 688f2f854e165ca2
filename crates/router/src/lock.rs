//! Locks of names, by which one router at a time changes what is known of each of them.
//!
//! L1: each command that changes something on a shard is that of the holder of a lock, and proves it ([`Guard::fenced`]): a shard that has heard of a
//! later holder refuses it. L2: a lock is deleted once all shards are in line with the config servers, and is left to grow old where they may not
//! be ([`Guard::leave`]). Who takes an old lock over completes what is left and brings all shards in line first ([`Request::take_over`]), so
//! nothing that an earlier holder has sent, or sends later, stays on any of them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_command::{Error, FENCING_TOKEN, LOCK_IS_LOST, Result, TOKEN_LIFE};
use arbor_query::Interrupt;

use crate::catalog::updates;
use crate::{Request, Router, fields};

/// A lock that is older than this belongs to a router that has ended.
const LOCK_AGE_MAX_MS: i64 = 120_000;
/// One that is renewed every [`RENEWAL`], as those of moves are.
const RENEWED_AGE_MAX_MS: i64 = 15_000;
const RENEWAL: Duration = Duration::from_secs(2);
const HELD_NAP: Duration = Duration::from_millis(20);
const LOCK_PATIENCE: Duration = Duration::from_secs(20);

/// A token that is older is read again.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(TOKEN_LIFE.as_secs() / 6);

/// The lock of `config.tags`.
const ZONES: &str = "config.tags";

/// The lock of a namespace in `config.locks`.
pub(crate) struct Guard<'r> {
    router: &'r Router,
    id: DocBuf,
    token: Token,
    /// Time of its last renewal.
    renewed: Cell<Instant>,
    is_left: Cell<bool>,
}

/// The time of a state of the config servers in which a lock was this one's. Those of later holders are later.
///
/// It is read again where it is older than [`TOKEN_AGE_MAX`], so that no shard forgets it (F5 of `fencing`), or than what the router knows of a shard, which
/// takes none of before it became one (F6). Where that fails, as when the config servers cannot be asked, the one before may do: the shards decide.
struct Token {
    time: Cell<Timestamp>,
    /// Time at which that was read.
    read: Cell<Instant>,
}

impl Token {
    /// A token that no shard takes.
    fn none() -> Token {
        Token { time: Cell::new(Timestamp { seconds: 0, increment: 0 }), read: Cell::new(Instant::now()) }
    }

    /// Returns the token of a command that is sent now. `age_max`: beyond that it is read again; `shard_found`: time at which the newest shard became known.
    fn current(
        &self,
        age_max: Duration,
        shard_found: Option<Instant>,
        read: impl FnOnce() -> Result<Timestamp>,
    ) -> Timestamp {
        if self.read.get().elapsed() > age_max || shard_found.is_some_and(|found| found >= self.read.get()) {
            let _ = self.renew(read);
        }
        self.time.get()
    }

    /// Reads a later one. Errors: also that another router has the lock.
    fn renew(&self, read: impl FnOnce() -> Result<Timestamp>) -> Result<()> {
        let begun = Instant::now();
        self.time.set(read()?.max(self.time.get()));
        self.read.set(begun);
        Ok(())
    }
}

/// Says at its end that something is over.
struct EndMark<'o>(&'o AtomicBool);

impl Drop for EndMark<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Guard<'_> {
    /// Returns the command that makes the lock young; in a transaction it also proves that the lock is held.
    pub(crate) fn renewal(&self) -> DocBuf {
        renewal(&self.id)
    }

    pub(crate) fn name(&self) -> &str {
        fields::string(self.id.as_doc(), "_id").unwrap_or_default()
    }

    /// Returns a command with the proof of the lock for a shard, which refuses it once it has heard of a later holder.
    pub(crate) fn fenced(&self, command: DocBuf) -> DocBuf {
        let (router, found) = (self.router, self.router.catalog.shard_found());
        let token = self.token.current(TOKEN_AGE_MAX, found, || self.read_token(&router.within(RENEWAL)));
        let token = DocBuf::new().with("lock", self.name()).with("token", ValueRef::Timestamp(token));
        command.with(FENCING_TOKEN, &token)
    }

    pub(crate) fn is_of_zones(&self) -> bool {
        self.name() == ZONES
    }

    /// Ends what this holder has begun without knowing its outcome: a transaction, since this writes the lock as they do, and commands on shards, which
    /// wait for earlier tokens, and refuse them afterwards. Errors: also that another router has the lock.
    pub(crate) fn end_begun(&self, interrupt: &Interrupt) -> Result<()> {
        self.router.catalog.write(self.renewal(), interrupt)?;
        let before = self.token.time.get();
        self.token.renew(|| self.read_token(interrupt))?;
        match self.token.time.get() > before {
            true => Ok(()),
            false => Err(Error::new(Code::INTERNAL_ERROR, "the config servers have read a state of before a renewal")),
        }
    }

    fn read_token(&self, interrupt: &Interrupt) -> Result<Timestamp> {
        self.router.catalog.time_of_lock(&self.id, interrupt)?.ok_or_else(lock_is_lost)
    }

    /// Keeps the lock young while something runs that does not do so itself.
    pub(crate) fn held_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let (router, id, over) = (self.router, &self.id, AtomicBool::new(false));
        std::thread::scope(|scope| {
            // also if it panics
            let _end = EndMark(&over);
            let over = &over;
            scope.spawn(move || {
                let mut renewed = Instant::now();
                while !over.load(Ordering::Acquire) {
                    std::thread::sleep(HELD_NAP);
                    if renewed.elapsed() >= RENEWAL {
                        // one that fails is tried again; a lock that was taken away stays so
                        let _ = router.catalog.write(renewal(id), &router.within(RENEWAL));
                        renewed = Instant::now();
                    }
                }
            });
            work()
        })
    }

    /// From now on the end of this holder leaves the lock to grow old: its next one is to complete the work.
    pub(crate) fn leave(&self) {
        self.is_left.set(true);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.is_left.get()
    }

    /// Nothing is left to complete.
    pub(crate) fn settled(&self) {
        self.is_left.set(false);
    }

    /// Makes the lock young again, if it is time. Errors: another router has taken it away.
    pub(crate) fn renew(&self, interrupt: &Interrupt) -> Result<()> {
        if self.renewed.get().elapsed() < RENEWAL {
            return Ok(());
        }
        let reply = self.router.catalog.write(self.renewal(), interrupt)?;
        if fields::int(reply.as_doc(), "n") == 0 {
            return Err(lock_is_lost());
        }
        self.renewed.set(Instant::now());
        Ok(())
    }
}

fn renewal(id: &DocBuf) -> DocBuf {
    let now = ValueRef::DateTime(arbor_protocol::log::now_ms());
    let set = DocBuf::new().with("$set", &DocBuf::new().with("when", now).with("renewed", true));
    updates("locks", &[DocBuf::new().with("q", id).with("u", &set)])
}

pub(crate) fn lock_is_lost() -> Error {
    Error::new(Code::LOCK_BUSY, LOCK_IS_LOST)
}

/// Returns true for an error after which the holder of a lock is to do nothing more: another router has it.
pub(crate) fn is_lock_lost(error: &Error) -> bool {
    error.code == Code::LOCK_BUSY && error.message == LOCK_IS_LOST
}

/// Returns true for the lock of a router that has ended.
pub(crate) fn is_old(lock: Doc<'_>) -> bool {
    let age_max = if lock.get("renewed").is_some() { RENEWED_AGE_MAX_MS } else { LOCK_AGE_MAX_MS };
    matches!(lock.get("when"), Some(ValueRef::DateTime(when)) if when < arbor_protocol::log::now_ms() - age_max)
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.is_left.get() {
            return;
        }
        // where it fails, the lock grows old
        let interrupt = self.router.within(Duration::from_secs(10));
        let _ = self.router.catalog.delete("locks", &self.id, &interrupt);
    }
}

impl<'r> Request<'r> {
    /// Takes the lock of a namespace, so that one change at a time is made to it.
    pub(crate) fn lock(&self, name: &str) -> Result<Guard<'r>> {
        self.lock_as(name, false)
    }

    /// Takes the lock of all ranges of zones. Others are taken before it, and it is held for a few requests only: changes of zones do not wait for moves.
    pub(crate) fn lock_zones(&self) -> Result<Guard<'r>> {
        self.lock_renewed(ZONES)
    }

    /// Takes a lock that the holder renews, so that it is old soon after the holder has ended.
    pub(crate) fn lock_renewed(&self, name: &str) -> Result<Guard<'r>> {
        self.lock_as(name, true)
    }

    fn lock_as(&self, name: &str, is_renewed: bool) -> Result<Guard<'r>> {
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            match self.try_lock_as(name, is_renewed)? {
                Some(guard) => return Ok(guard),
                None if Instant::now() > until => {
                    let text = format!("another operation on {name} is in progress");
                    return Err(Error::new(Code::LOCK_BUSY, text));
                }
                None => {
                    self.interrupt().check()?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Takes the lock of a collection, which is held for a few requests only, like [`Request::completed`].
    pub(crate) fn lock_collection(&self, namespace: &str) -> Result<Guard<'r>> {
        self.completed(self.lock(namespace)?)
    }

    /// Completes what a change of a collection before has left whose lock this is. Errors: also that another router is completing it.
    pub(crate) fn completed(&self, guard: Guard<'r>) -> Result<Guard<'r>> {
        self.finish_change(guard.name(), &guard)?;
        Ok(guard)
    }

    /// `is_renewed`: the holder renews the lock from now on, so it is old soon after the holder has ended. None: it is held by another router.
    pub(crate) fn try_lock_as(&self, name: &str, is_renewed: bool) -> Result<Option<Guard<'r>>> {
        let lock = self.new_lock(name, is_renewed);
        match self.catalog().insert("locks", std::slice::from_ref(&lock), self.interrupt()) {
            Ok(()) => self.guard_of(&lock, false),
            Err(error) if error.code == Code::DUPLICATE_KEY => {
                match self.catalog().read_one("locks", name.into(), self.interrupt())? {
                    Some(held) if is_old(held.as_doc()) => self.take_over(held.as_doc()),
                    _ => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the lock of a holder that has ended, as it was then, and completes what that one has left. None: another router was faster.
    pub(crate) fn take_over(&self, held: Doc<'_>) -> Result<Option<Guard<'r>>> {
        let name = fields::string(held, "_id").unwrap_or_default();
        let lock = self.new_lock(name, true);
        let statement = DocBuf::new().with("q", held).with("u", &lock);
        let reply = self.catalog().write(updates("locks", &[statement]), self.interrupt())?;
        if fields::int(reply.as_doc(), "n") == 0 {
            return Ok(None);
        }
        let guard = self.guard_of(&lock, true)?;
        if let Some(guard) = &guard {
            guard.held_while(|| self.complete(name, guard))?;
            guard.settled();
        }
        Ok(guard)
    }

    fn new_lock(&self, name: &str, is_renewed: bool) -> DocBuf {
        let lock = DocBuf::new()
            .with("_id", name)
            .with("state", 2i32)
            .with("ts", ValueRef::ObjectId(arbor_protocol::topology::new_object_id()))
            .with("who", self.router.address.as_str())
            .with("when", ValueRef::DateTime(arbor_protocol::log::now_ms()));
        if is_renewed { lock.with("renewed", true) } else { lock }
    }

    /// Begins to hold a lock that was written. None: another router has taken it away.
    fn guard_of(&self, lock: &DocBuf, is_left: bool) -> Result<Option<Guard<'r>>> {
        let id = lock.as_doc().iter().filter(|(name, _)| matches!(*name, "_id" | "ts")).collect();
        let (renewed, is_left) = (Cell::new(Instant::now()), Cell::new(is_left));
        let guard = Guard { router: self.router, id, token: Token::none(), renewed, is_left };
        match guard.token.renew(|| guard.read_token(self.interrupt())) {
            Err(error) if is_lock_lost(&error) => Ok(None),
            taken => taken.map(|()| Some(guard)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    fn at(seconds: u32) -> Timestamp {
        Timestamp { seconds, increment: 1 }
    }

    fn token(seconds: u32) -> Token {
        let token = Token::none();
        token.renew(|| Ok(at(seconds))).unwrap();
        token
    }

    fn unread() -> Result<Timestamp> {
        unreachable!("the token is young")
    }

    #[test]
    fn an_old_token_is_read_again() {
        let token = token(5);
        assert_eq!(token.current(LONG, None, unread), at(5));
        assert_eq!(token.current(NONE, None, || Ok(at(7))), at(7));
        assert_eq!(token.current(LONG, None, unread), at(7));
        assert_eq!(token.current(NONE, None, || Ok(at(6))), at(7), "a member that is behind has said it");
    }

    #[test]
    fn a_token_of_before_a_shard_is_read_again() {
        let token = token(5);
        let found = Instant::now();
        assert_eq!(token.current(LONG, Some(found), || Ok(at(7))), at(7));
        assert_eq!(token.current(LONG, Some(found), unread), at(7));
    }

    #[test]
    fn a_holder_that_could_not_renew_its_token_has_the_one_before_and_tries_again() {
        let (token, tries) = (token(5), Cell::new(0));
        let failing = |error: fn() -> Error| {
            tries.set(tries.get() + 1);
            Err(error())
        };
        let lost = || Error::new(Code::HOST_UNREACHABLE, "the config servers cannot be reached");
        let errors: [fn() -> Error; 3] = [lost, lock_is_lost, lost];
        for (tried, error) in (1..).zip(errors) {
            assert_eq!((token.current(NONE, None, || failing(error)), tries.get()), (at(5), tried));
        }
        assert_eq!(token.current(NONE, None, || Ok(at(7))), at(7));
        assert_eq!(
            token.renew(lock_is_lost_now).unwrap_err().code,
            Code::LOCK_BUSY,
            "where it is asked for, it is said"
        );
        assert_eq!(token.current(LONG, None, unread), at(7));
    }

    fn lock_is_lost_now() -> Result<Timestamp> {
        Err(lock_is_lost())
    }
}
