//! Resting read transactions, so that beginning a snapshot takes no mutex that other threads want.
//!
//! Beginning an LMDB read transaction locks the reader table; renewing a resting one only writes its own slot. Each
//! thread uses one of [`SHARDS`] pools, which it shares with few others, and a snapshot counts references of that pool
//! only: no counter is written by all threads.

use std::sync::{Arc, Mutex, PoisonError};

use arbor_engine::Result;

use crate::raw::{Env, ReadTxn, Txn};

const SHARDS: usize = 64;
/// Resting transactions keep their slots of the reader table; more than this per pool end. All pools together take an
/// eighth of the slots at most (`LmdbOptions::readers_max`).
const RESTING_MAX: usize = 32;

pub struct Readers {
    shards: Vec<Arc<Shard>>,
}

struct Shard {
    env: Arc<Env>,
    resting: Mutex<Vec<ReadTxn>>,
}

/// A read transaction that goes back to its pool when it is dropped.
pub struct Reader {
    txn: Option<ReadTxn>,
    shard: Arc<Shard>,
}

impl Readers {
    pub fn new(env: &Arc<Env>) -> Readers {
        let shard = || Arc::new(Shard { env: env.clone(), resting: Mutex::new(Vec::new()) });
        Readers { shards: std::iter::repeat_with(shard).take(SHARDS).collect() }
    }

    /// A reader of the newest state.
    pub fn reader(&self) -> Result<Reader> {
        Reader::of(&self.shards[arbor_base::thread_number() % SHARDS])
    }
}

impl Reader {
    fn of(shard: &Arc<Shard>) -> Result<Reader> {
        let resting = shard.resting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let txn = match resting {
            Some(mut txn) => {
                txn.renew()?;
                txn
            }
            None => ReadTxn::begin(&shard.env)?,
        };
        Ok(Reader { txn: Some(txn), shard: shard.clone() })
    }

    /// A reader of the state that is the newest now.
    pub fn newer(&self) -> Result<Reader> {
        Reader::of(&self.shard)
    }

    pub fn page_bytes(&self) -> usize {
        self.shard.env.page_bytes()
    }

    pub fn txn(&self) -> &Txn {
        self.txn.as_ref().expect("a reader has its transaction until it is dropped")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut txn) = self.txn.take() {
            txn.reset();
            let mut resting = self.shard.resting.lock().unwrap_or_else(PoisonError::into_inner);
            if resting.len() < RESTING_MAX {
                resting.push(txn);
            }
        }
    }
}
