//! Stopping work that takes too long or is killed. Every loop that may run long calls [`Interrupt::check`] periodically.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_base::memory::{self, Allocated};
use arbor_lang::Code;

use crate::Error;

/// MongoDB's texts.
pub const TIME_EXPIRED: &str = "operation exceeded time limit";
pub const KILLED: &str = "operation was interrupted";
const OUT_OF_MEMORY: &str = "the operation has allocated more memory than the limit of the process leaves for it";

/// Belongs to one operation. The kill flag is shared with those that may kill the operation.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    deadline: Option<Instant>,
    killed: Option<Arc<AtomicBool>>,
    /// A second flag: that of the cursor that the operation reads from.
    cursor_killed: Option<Arc<AtomicBool>>,
}

impl Interrupt {
    /// Never interrupts.
    pub fn never() -> Interrupt {
        Interrupt::default()
    }

    pub fn new(deadline: Option<Instant>, killed: Arc<AtomicBool>) -> Interrupt {
        Interrupt { deadline, killed: Some(killed), cursor_killed: None }
    }

    pub fn check(&self) -> Result<(), Error> {
        if is_raised(&self.killed) {
            return Err(Error::Killed);
        }
        if is_raised(&self.cursor_killed) {
            return Err(Error::new(Code::CURSOR_KILLED, "cursor killed"));
        }
        if memory::process().must_stop(|| BEGUN.get().since()) {
            return Err(Error::new(Code::EXCEEDED_MEMORY_LIMIT, OUT_OF_MEMORY));
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::TimeExpired),
            _ => Ok(()),
        }
    }

    /// Does work whose expressions and filters stop when this does.
    pub fn guard<T>(&self, work: impl FnOnce() -> T) -> T {
        let _begun = Begun::now();
        let own = self.clone();
        let check = move || match own.check() {
            Ok(()) => Ok(()),
            Err(Error::Lang(error)) => Err(error),
            Err(Error::TimeExpired) => Err(arbor_lang::Error::new(Code::MAX_TIME_MS_EXPIRED, TIME_EXPIRED)),
            Err(_) => Err(arbor_lang::Error::new(Code::INTERRUPTED, KILLED)),
        };
        arbor_lang::stop::stoppable(check, work)
    }

    /// Time left until the deadline; None without one.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Like `self`, but without a deadline: for work that ends in time by itself.
    pub fn without_deadline(&self) -> Interrupt {
        Interrupt { deadline: None, ..self.clone() }
    }

    /// Like `self`, but with a deadline no later than `limit` from now.
    pub fn within(&self, limit: Duration) -> Interrupt {
        let end = Instant::now() + limit;
        Interrupt { deadline: Some(self.deadline.map_or(end, |own| own.min(end))), ..self.clone() }
    }

    /// Like `self`, but for an operation that reads from a cursor with this flag.
    pub(crate) fn with_cursor(&self, killed: Arc<AtomicBool>) -> Interrupt {
        Interrupt { cursor_killed: Some(killed), ..self.clone() }
    }
}

thread_local! {
    /// Allocation counter at the begin of this thread's statement.
    static BEGUN: Cell<Allocated> = const { Cell::new(Allocated::NOTHING) };
}

/// Notes the begin of a statement, unless it is part of one that has begun.
struct Begun {
    is_first: bool,
}

impl Begun {
    fn now() -> Begun {
        let is_first = BEGUN.get() == Allocated::NOTHING;
        if is_first {
            BEGUN.set(Allocated::now());
        }
        Begun { is_first }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.is_first {
            BEGUN.set(Allocated::NOTHING);
        }
    }
}

fn is_raised(flag: &Option<Arc<AtomicBool>>) -> bool {
    flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_and_a_kill_interrupt() {
        assert!(Interrupt::never().check().is_ok());
        let flag = Arc::new(AtomicBool::new(false));
        let interrupt = Interrupt::new(None, flag.clone());
        assert!(interrupt.check().is_ok());
        assert!(matches!(interrupt.within(Duration::ZERO).check(), Err(Error::TimeExpired)));
        flag.store(true, Ordering::Relaxed);
        assert!(matches!(interrupt.check(), Err(Error::Killed)));
    }
}
