//! The steps of a long copy: after each it sleeps if it took too much, reports its progress, and checks whether to continue.

use arbor_txn::Transactions;

use super::throttle::Throttle;
use super::{Phase, Watch};
use crate::{Error, Result};

const STEP_BYTES: usize = 64 << 10;
/// Bytes after which the target is asked for room again.
const ROOM_BYTES: usize = 1 << 20;
const _: () = assert!(STEP_BYTES <= ROOM_BYTES, "room is asked for at a step");

pub(crate) struct Pace<'s> {
    pub transactions: &'s Transactions,
    watch: &'s dyn Watch,
    throttle: &'s mut Throttle,
    phase: Phase,
    /// Rows or documents.
    pub done: u64,
    total: u64,
    /// Bytes since the last check, and since the target was asked for room.
    step: usize,
    room: usize,
}

impl<'s> Pace<'s> {
    pub(crate) fn new(
        transactions: &'s Transactions,
        watch: &'s dyn Watch,
        throttle: &'s mut Throttle,
        phase: Phase,
        total: u64,
    ) -> Pace<'s> {
        Pace { transactions, watch, throttle, phase, done: 0, total, step: 0, room: 0 }
    }

    /// Counts one more, of `bytes` bytes. Errors: `Interrupted`.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<()> {
        self.done += 1;
        self.step += bytes;
        if self.step < STEP_BYTES {
            return Ok(());
        }
        self.room += std::mem::take(&mut self.step);
        if self.room >= ROOM_BYTES {
            self.room = 0;
            self.transactions.engine().wait_for_room();
        }
        self.check()
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.watch.progress(self.phase, self.done, self.total.max(self.done));
        self.throttle.pause();
        if self.watch.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
