//! What was committed to the old trees since the snapshot, carried over to the new ones.

use std::collections::HashMap;

use arbor_base::{Position, TreeId};
use arbor_engine::Op;
use arbor_txn::{Durability, Follower, Transaction, Transactions, View};

use super::throttle::Throttle;
use super::{Phase, Watch};
use crate::{Error, Result};

/// Bytes of one transaction of the catching up: some milliseconds of the commit path.
const GROUP_BYTES: usize = 256 << 10;
/// Records that are read before a new look at the clock, when they concern other collections.
const STEP_RECORDS: u64 = 512;

pub(super) struct CatchUp<'s> {
    pub transactions: &'s Transactions,
    pub follower: Follower,
    /// New trees by old ones.
    pub trees: HashMap<TreeId, TreeId>,
    /// Records read.
    pub records: u64,
}

impl CatchUp<'_> {
    /// Records that are not read yet.
    pub fn lag(&self) -> u64 {
        self.follower.end().0.saturating_sub(self.follower.position().0)
    }

    /// Carries over everything that is visible when it begins.
    pub fn round(&mut self, watch: &dyn Watch, throttle: &mut Throttle) -> Result<()> {
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
        Ok(())
    }

    /// Carries over everything up to `end`, the last part of it by the transaction that is given back.
    ///
    /// Requires a view that shows at least everything up to `end`.
    pub fn rest(&mut self, end: Position, view: &impl View) -> Result<Transaction> {
        loop {
            let mut txn = self.transactions.begin()?;
            self.group(&mut txn, end, view, None)?;
            if self.follower.position() >= end {
                return Ok(txn);
            }
            txn.commit(Durability::Applied)?;
        }
    }

    fn group(&mut self, txn: &mut Transaction, end: Position, view: &impl View, most: Option<u64>) -> Result<()> {
        let until = most.map_or(u64::MAX, |most| self.records + most);
        while txn.size_bytes() < GROUP_BYTES && self.records < until {
            let Some((_, ops)) = self.follower.next(end)? else { return Ok(()) };
            self.records += 1;
            for op in ops {
                self.carry_over(txn, op, view)?;
            }
        }
        Ok(())
    }

    fn carry_over(&self, txn: &mut Transaction, op: Op, view: &impl View) -> Result<()> {
        let new = |tree: &TreeId| self.trees.get(tree).copied();
        match op {
            Op::Put { tree, key, value } => new(&tree).into_iter().for_each(|to| txn.put(to, &*key, &*value)),
            Op::Delete { tree, key } => new(&tree).into_iter().for_each(|to| txn.delete(to, &*key)),
            Op::DeleteRange { tree, from, to: end } => {
                new(&tree).into_iter().for_each(|to| txn.delete_range(to, &*from, end.clone()));
            }
            // The row as it became by this update or later; what came later comes again.
            Op::Update { tree, key, .. } => {
                if let Some(to) = new(&tree) {
                    match view.get(tree, &key)? {
                        Some(row) => txn.put(to, key, &*row),
                        None => txn.delete(to, key),
                    }
                }
            }
            Op::DropTree { tree } if new(&tree).is_some() => return Err(Error::Interrupted),
            Op::DropTree { .. } | Op::CreateTree { .. } => {}
        }
        Ok(())
    }
}
