//! The sessions with an open transaction, and which of them makes room for one more.

use std::sync::Arc;

use arbor_base::{Shares, Stamp};
use arbor_oplog::SessionId;
use hashbrown::HashMap;

use crate::session::Session;

pub(crate) struct OpenTransactions<T> {
    by_id: HashMap<SessionId, Place<T>>,
    shares: Shares<SessionId>,
}

struct Place<T> {
    session: Arc<Session<T>>,
    owner: u64,
    stamp: Stamp,
}

impl<T> Default for OpenTransactions<T> {
    fn default() -> OpenTransactions<T> {
        OpenTransactions { by_id: HashMap::new(), shares: Shares::default() }
    }
}

impl<T> OpenTransactions<T> {
    pub(crate) fn add(&mut self, session: &Arc<Session<T>>, owner: u64) {
        self.remove(session.id);
        let stamp = self.shares.add(owner, session.id);
        self.by_id.insert(session.id, Place { session: session.clone(), owner, stamp });
    }

    pub(crate) fn remove(&mut self, id: SessionId) {
        if let Some(place) = self.by_id.remove(&id) {
            self.shares.remove(place.owner, place.stamp);
        }
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Arc<Session<T>>> {
        self.by_id.get(&id).map(|place| &place.session)
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Arc<Session<T>>> {
        self.by_id.values().map(|place| &place.session)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the sessions of the owner with the most, oldest first.
    pub(crate) fn of_greatest(&self) -> impl Iterator<Item = &Arc<Session<T>>> {
        self.shares.of_greatest().filter_map(|id| self.get(*id))
    }
}
