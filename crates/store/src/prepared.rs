//! Prepared transactions: what they write to keeps its definition until they have ended, since their operations are fixed.

use std::collections::HashMap;

use arbor_base::Position;
use arbor_txn::{Error as TxnError, TransactionId};
use parking_lot::Mutex;

use crate::latch::SharedGuard;
use crate::{Result, Store};

/// The latches of the collections of each prepared transaction.
#[derive(Default)]
pub(crate) struct PreparedLatches(Mutex<HashMap<TransactionId, Vec<SharedGuard>>>);

impl Store {
    pub(crate) fn keep_latches(&self, id: TransactionId, latches: Vec<SharedGuard>) {
        self.prepared.0.lock().insert(id, latches);
        // a decision that was faster has not found them
        if !self.transactions.is_prepared(&id) {
            self.release_latches(&id);
        }
    }

    fn release_latches(&self, id: &TransactionId) {
        let latches = self.prepared.0.lock().remove(id);
        drop(latches);
    }

    /// Takes the latches for what an earlier leader, or the process before this one, has prepared.
    pub(crate) fn latch_prepared(&self) {
        self.forget_prepared();
        for prepared in self.transactions.prepared() {
            let mut latches = Vec::new();
            for name in prepared.trees.iter().filter_map(|tree| self.owner_of(*tree)).map(|(name, _)| name) {
                let Some(collection) = self.collection(&name) else { continue };
                latches.push((name, collection.latch.clone()));
            }
            latches.sort_by(|(one, _), (other, _)| one.cmp(other));
            latches.dedup_by(|(one, _), (other, _)| one == other);
            let latches = latches.into_iter().map(|(_, latch)| latch.read()).collect();
            self.keep_latches(prepared.id, latches);
        }
    }

    /// Releases all of them: another member leads.
    pub fn forget_prepared(&self) {
        let all = std::mem::take(&mut *self.prepared.0.lock());
        drop(all);
    }

    /// Commits a prepared transaction at the time that its coordinator has decided. Errors: `NotPrepared` when it is not prepared here, or has
    /// ended.
    pub fn commit_prepared(&self, id: &TransactionId, commit_time: u64) -> Result<Position> {
        let ended = self.transactions.commit_prepared(id, commit_time);
        self.settled(id, ended)
    }

    /// Aborts a prepared transaction. Errors as [`Store::commit_prepared`].
    pub fn abort_prepared(&self, id: &TransactionId) -> Result<Position> {
        let ended = self.transactions.abort_prepared(id);
        self.settled(id, ended)
    }

    fn settled(&self, id: &TransactionId, ended: Result<Position, TxnError>) -> Result<Position> {
        if !self.transactions.is_prepared(id) {
            self.release_latches(id);
        }
        Ok(ended?)
    }
}
