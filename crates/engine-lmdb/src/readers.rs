//! Resting read transactions, so that beginning a snapshot takes no mutex that other threads want.
//!
//! Beginning an LMDB read transaction locks the reader table; renewing a resting one only writes its own slot. Each
//! thread uses one of [`SHARDS`] pools, which it shares with few others, and a snapshot counts references of that pool
//! only: no counter is written by all threads.
//!
//! LMDB begins no transaction any more, not even a read, after it failed to write a meta page. Readers then share the
//! transaction that the writer kept on the newest state ([`Readers::end_at`]).

use std::sync::{Arc, OnceLock};

use arbor_base::Position;
use arbor_engine::{Error, Result};
use parking_lot::Mutex;

use crate::raw::{Env, ReadTxn, Txn};

const SHARDS: usize = 64;
/// Resting transactions keep their slots of the reader table; more than this per pool end.
const RESTING_MAX: usize = 32;
/// Slots that rest at most, in all pools together; see `LmdbOptions::readers_max`.
pub const RESTING_ALL_MAX: usize = SHARDS * RESTING_MAX;

pub(crate) struct Readers {
    shards: Vec<Arc<Shard>>,
    last: Arc<OnceLock<LastState>>,
}

struct Shard {
    env: Arc<Env>,
    resting: Mutex<Vec<ReadTxn>>,
    last: Arc<OnceLock<LastState>>,
}

/// The newest state of an environment that begins no transactions any more.
#[derive(Clone)]
pub(crate) struct LastState {
    txn: Arc<ReadTxn>,
    pub position: Position,
}

/// A read transaction: one of its own, which goes back to its pool when it is dropped, or the shared last one.
pub(crate) struct Reader {
    /// `None` in `drop` only, or when `last` is there.
    own: Option<ReadTxn>,
    last: Option<LastState>,
    shard: Arc<Shard>,
}

impl Readers {
    pub(crate) fn new(env: &Arc<Env>) -> Readers {
        let last: Arc<OnceLock<LastState>> = Arc::default();
        let shard = || Arc::new(Shard { env: env.clone(), resting: Mutex::new(Vec::new()), last: last.clone() });
        Readers { shards: std::iter::repeat_with(shard).take(SHARDS).collect(), last }
    }

    /// Makes `txn` the state of all later readers that LMDB refuses to begin. Only the first call counts.
    pub(crate) fn end_at(&self, txn: ReadTxn, position: Position) {
        let _first = self.last.set(LastState { txn: Arc::new(txn), position });
    }

    /// A reader of the newest state.
    pub(crate) fn reader(&self) -> Result<Reader> {
        let shard = self.shards.get(arbor_base::thread_number() % SHARDS);
        Reader::of(shard.expect("a remainder is below its divisor"))
    }
}

impl Reader {
    fn of(shard: &Arc<Shard>) -> Result<Reader> {
        let begun = match shard.resting.lock().pop() {
            Some(mut txn) => txn.renew().map(|()| txn),
            None => ReadTxn::begin(&shard.env),
        };
        match (begun, shard.last.get()) {
            (Ok(txn), _) => Ok(Reader { own: Some(txn), last: None, shard: shard.clone() }),
            (Err(Error::Poisoned { .. }), Some(last)) => {
                Ok(Reader { own: None, last: Some(last.clone()), shard: shard.clone() })
            }
            (Err(error), _) => Err(error),
        }
    }

    /// A reader of the state that is the newest now.
    pub(crate) fn newer(&self) -> Result<Reader> {
        Reader::of(&self.shard)
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.shard.env.page_bytes()
    }

    pub(crate) fn txn(&self) -> &Txn {
        let last = || self.last.as_ref().map(|last| &*last.txn);
        self.own.as_ref().or_else(last).expect("a reader has its own transaction or the last one")
    }

    /// The position of the last state, if it is that one.
    pub(crate) fn last_position(&self) -> Option<Position> {
        self.last.as_ref().map(|last| last.position)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut txn) = self.own.take() {
            txn.reset();
            let mut resting = self.shard.resting.lock();
            if resting.len() < RESTING_MAX {
                resting.push(txn);
            }
        }
    }
}
