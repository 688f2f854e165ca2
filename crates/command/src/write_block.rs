//! Holding up the writes of clients: `fsync` with `lock`, and `setUserWriteBlockMode`.
//!
//! While the files are locked, writes wait; when writes of users are blocked, they fail. Both end with the process. Reads are served.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arbor_bson::{Array, Code, Doc, ValueRef};
use arbor_protocol::CommandInfo;
use arbor_protocol::metrics::Class;
use arbor_query::Interrupt;
use parking_lot::{Condvar, Mutex};

use crate::{Error, Result};

/// Time between two checks whether a waiting write was killed.
const NAP: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct WriteBlock {
    /// Number of `fsync` commands with `lock` that were not undone.
    locks: Mutex<u64>,
    released: Condvar,
    /// A copy of `locks`, for the check without a lock.
    locked: AtomicU64,
    users_blocked: AtomicBool,
    /// As the command gave it that blocked them.
    reason: Mutex<String>,
}

impl WriteBlock {
    /// Returns the number of locks after this one.
    pub(crate) fn lock(&self) -> u64 {
        let mut locks = self.locks.lock();
        *locks += 1;
        self.locked.store(*locks, Ordering::Relaxed);
        *locks
    }

    /// Returns the number of locks that are left. None: there was none.
    pub(crate) fn unlock(&self) -> Option<u64> {
        let mut locks = self.locks.lock();
        *locks = locks.checked_sub(1)?;
        self.locked.store(*locks, Ordering::Relaxed);
        if *locks == 0 {
            self.released.notify_all();
        }
        Some(*locks)
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Relaxed) > 0
    }

    /// Errors: they are blocked for another reason.
    pub(crate) fn block_users(&self, block: bool, reason: &str) -> Result<()> {
        let mut known = self.reason.lock();
        if self.blocks_users() && *known != reason {
            let text = format!(
                "Cannot {} user writes for reason {reason}: they are blocked for reason {known}",
                if block { "block" } else { "unblock" }
            );
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        reason.clone_into(&mut known);
        self.users_blocked.store(block, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn blocks_users(&self) -> bool {
        self.users_blocked.load(Ordering::Relaxed)
    }

    /// Called before a command runs. Errors: writes of users are blocked; the command was interrupted while it waited.
    pub(crate) fn pass(&self, info: &CommandInfo, db: &str, body: Doc<'_>, interrupt: &Interrupt) -> Result<()> {
        if !self.is_locked() && !self.blocks_users() || !changes_data(info, body) {
            return Ok(());
        }
        if self.blocks_users() && !matches!(db, "admin" | "config" | "local") {
            return Err(Error::new(Code::USER_WRITES_BLOCKED, "User writes blocked"));
        }
        let mut locks = self.locks.lock();
        while *locks > 0 {
            interrupt.check()?;
            self.released.wait_for(&mut locks, NAP);
        }
        Ok(())
    }
}

/// Commands with a write concern that change no data of users by themselves.
const OTHERS: &[&str] = &["abortTransaction", "setFeatureCompatibilityVersion"];

fn changes_data(info: &CommandInfo, body: Doc<'_>) -> bool {
    match info.class {
        Class::Write => true,
        Class::Command => info.takes_write_concern() && !OTHERS.contains(&info.name),
        Class::Read => match body.get("pipeline") {
            Some(ValueRef::Array(pipeline)) => info.takes_write_concern() && writes(pipeline),
            _ => false,
        },
    }
}

fn writes(pipeline: Array<'_>) -> bool {
    let name = |stage| match stage {
        ValueRef::Document(stage) => stage.first().map(|(name, _)| name),
        _ => None,
    };
    pipeline.iter().last().and_then(name).is_some_and(|name| matches!(name, "$out" | "$merge"))
}

#[cfg(test)]
mod tests {
    use arbor_bson::{ArrayBuf, DocBuf};

    use super::*;

    #[test]
    fn what_is_held_up() {
        let block = WriteBlock::default();
        let never = Interrupt::never();
        let write = CommandInfo::write("insert", "");
        let read = CommandInfo::read("aggregate", "").writing();
        let stages = |name: &str| -> DocBuf {
            let stage = DocBuf::new().with(name, &DocBuf::new());
            let mut pipeline = ArrayBuf::new();
            pipeline.push(&stage);
            DocBuf::new().with("aggregate", "c").with("pipeline", &pipeline)
        };
        let insert = DocBuf::new().with("insert", "c");
        block.block_users(true, "Unspecified").unwrap();
        assert_eq!(block.block_users(false, "Other").unwrap_err().code, Code::ILLEGAL_OPERATION);
        assert_eq!(block.pass(&write, "db", insert.as_doc(), &never).unwrap_err().code, Code::USER_WRITES_BLOCKED);
        assert_eq!(
            block.pass(&read, "db", stages("$out").as_doc(), &never).unwrap_err().code,
            Code::USER_WRITES_BLOCKED
        );
        assert!(block.pass(&read, "db", stages("$match").as_doc(), &never).is_ok());
        assert!(block.pass(&write, "config", insert.as_doc(), &never).is_ok());
        block.block_users(false, "Unspecified").unwrap();
        assert_eq!((block.lock(), block.lock(), block.unlock(), block.is_locked()), (1, 2, Some(1), true));
        let killed = Interrupt::new(Some(std::time::Instant::now()), Default::default());
        assert!(block.pass(&write, "db", insert.as_doc(), &killed).is_err());
        assert!(block.pass(&read, "db", stages("$match").as_doc(), &killed).is_ok());
        assert_eq!((block.unlock(), block.unlock()), (Some(0), None));
        assert!(block.pass(&write, "db", insert.as_doc(), &killed).is_ok());
    }
}
