//! Catching up: carrying over what was committed since the snapshot.

use arbor_base::Position;
use arbor_engine::Op;
use arbor_txn::{Durability, Follower, ReadView, Transaction, Transactions, View};

use super::throttle::Throttle;
use super::{Phase, Watch};
use crate::{Error, Result};

/// Bytes of one transaction of the catching up: some milliseconds of the commit path.
pub(crate) const GROUP_BYTES: usize = 256 << 10;
/// Records that are read before the time is checked again, when they concern other collections.
const STEP_RECORDS: u64 = 512;
/// Catching up ends when fewer records than this are left...
const LAG_RECORDS: u64 = 64;
/// ...or after this many rounds.
const ROUNDS_MAX: u32 = 64;

/// The receiver of changes from the log.
pub(crate) trait Carry {
    /// Carries over one change. `view` shows it, and maybe later ones.
    fn carry(&mut self, txn: &mut Transaction, op: Op, view: &ReadView) -> Result<()>;

    /// Called when everything that `view` shows is carried over and committed.
    fn caught_up(&mut self, view: ReadView);
}

pub(crate) struct CatchUp<'s, C> {
    pub transactions: &'s Transactions,
    pub follower: Follower,
    pub carry: C,
    /// Records read.
    pub records: u64,
}

impl<'s, C: Carry> CatchUp<'s, C> {
    pub(crate) fn new(transactions: &'s Transactions, follower: Follower, carry: C) -> CatchUp<'s, C> {
        CatchUp { transactions, follower, carry, records: 0 }
    }

    /// Records that are not read yet.
    fn lag(&self) -> u64 {
        self.follower.end().0.saturating_sub(self.follower.position().0)
    }

    /// Runs rounds until little is left; returns their number. When writers commit faster than this copies, its share grows.
    pub(crate) fn rounds(&mut self, watch: &dyn Watch, throttle: &mut Throttle) -> Result<u32> {
        for round in 1..=ROUNDS_MAX {
            let lag = self.lag();
            if lag <= LAG_RECORDS {
                return Ok(round);
            }
            self.round(watch, throttle)?;
            if self.lag() > lag / 2 {
                throttle.press_on();
            }
        }
        Ok(ROUNDS_MAX)
    }

    /// Carries over everything that is visible when it begins.
    pub(crate) fn round(&mut self, watch: &dyn Watch, throttle: &mut Throttle) -> Result<()> {
        let view = self.transactions.read()?;
        let end = view.position();
        let total = self.lag();
        while self.follower.position() < end {
            if watch.is_stopped() {
                return Err(Error::Interrupted);
            }
            let mut txn = self.transactions.begin()?;
            self.group(&mut txn, end, &view, Some(STEP_RECORDS))?;
            txn.commit(Durability::Applied)?;
            self.follower.release();
            watch.progress(Phase::CatchingUp, total.saturating_sub(self.lag()), total);
            throttle.pause();
        }
        self.carry.caught_up(view);
        Ok(())
    }

    /// Carries over everything up to `end`, the last part of it by the returned transaction.
    ///
    /// Requires a view that shows at least everything up to `end`.
    pub(crate) fn rest(&mut self, end: Position, view: &ReadView) -> Result<Transaction> {
        assert!(view.position() >= end, "F1: the view shows all that is carried over");
        loop {
            let mut txn = self.transactions.begin()?;
            self.group(&mut txn, end, view, None)?;
            if self.follower.position() >= end {
                return Ok(txn);
            }
            txn.commit(Durability::Applied)?;
        }
    }

    fn group(&mut self, txn: &mut Transaction, end: Position, view: &ReadView, most: Option<u64>) -> Result<()> {
        let until = most.map_or(u64::MAX, |most| self.records + most);
        while txn.size_bytes() < GROUP_BYTES && self.records < until {
            let Some((at, ops)) = self.follower.next(end)? else { return Ok(()) };
            debug_assert!(at <= end, "{at} is past {end}");
            self.records += 1;
            for op in ops {
                self.carry.carry(txn, op, view)?;
            }
        }
        Ok(())
    }
}
