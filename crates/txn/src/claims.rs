//! Claims: the write intents of open transactions. A transaction of several statements that would lose at its commit finds out
//! at once, and two of them never continue with writes of one key.
//!
//! Keys are remembered by a 64-bit hash, as in `conflict.rs`. Other transactions neither claim keys nor check claims.
//!
//! Lock order: this one and the commit lock are never held together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::conflict::ByHash;

#[derive(Default)]
pub(crate) struct Claims {
    /// The owner of each claimed key.
    owners: Mutex<HashMap<u64, u64, ByHash>>,
    next_owner: AtomicU64,
}

/// The claims of one transaction, released when dropped.
pub(crate) struct OwnClaims {
    claims: Arc<Claims>,
    owner: u64,
    hashes: Vec<u64>,
}

impl Claims {
    pub(crate) fn open(self: &Arc<Self>) -> OwnClaims {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed);
        OwnClaims { claims: self.clone(), owner, hashes: Vec::new() }
    }
}

impl OwnClaims {
    /// Returns true if the key is this transaction's from now on (or was before).
    pub(crate) fn claim(&mut self, hash: u64) -> bool {
        let mut owners = self.claims.owners.lock();
        match owners.get(&hash) {
            Some(owner) => *owner == self.owner,
            None => {
                owners.insert(hash, self.owner);
                self.hashes.push(hash);
                true
            }
        }
    }
}

impl Drop for OwnClaims {
    fn drop(&mut self) {
        if self.hashes.is_empty() {
            return;
        }
        let mut owners = self.claims.owners.lock();
        for hash in &self.hashes {
            let owner = owners.remove(hash);
            debug_assert_eq!(owner, Some(self.owner), "a claim was released by another transaction");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_key_is_free_again_when_its_transaction_ends() {
        let claims = Arc::new(Claims::default());
        let (mut one, mut other) = (claims.open(), claims.open());
        assert!(one.claim(7) && one.claim(7) && other.claim(8));
        assert!(!other.claim(7) && !one.claim(8));
        drop(one);
        assert!(other.claim(7));
        drop(other);
        assert!(claims.owners.lock().is_empty());
    }
}
