//! State shared by the background work of a forest.

use std::sync::atomic::AtomicU64;

use crate::work::debt::Debt;
use crate::work::pace::{Clock, Rate};
use crate::work::rest::Plan;
use crate::work::scheduler::Scheduler;
use crate::work::shares::Shares;

/// Waiting work, and how fast it is done.
pub struct Work {
    pub scheduler: Scheduler,
    pub shares: Shares,
    pub absorbing: Rate,
    /// Rate at which more could be absorbed without more debt.
    pub flushing: Rate,
    pub debt: Debt,
    pub plan: Plan,
    /// Bytes that were applied since a writer last waited for room.
    pub unpaced: AtomicU64,
    pub clock: Clock,
}

impl Work {
    pub fn of(threads: usize) -> Work {
        Work {
            scheduler: Scheduler::default(),
            shares: Shares::default(),
            absorbing: Rate::of(1),
            flushing: Rate::of(threads),
            debt: Debt::default(),
            plan: Plan::default(),
            unpaced: AtomicU64::new(0),
            clock: Clock::default(),
        }
    }
}
