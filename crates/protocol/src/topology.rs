//! Topology version of this server: each change of its role increments the counter and wakes the waiting clients.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::{DocBuf, ObjectId, ValueRef};
use parking_lot::Mutex;

pub struct Topology {
    /// Differs with each start.
    process: ObjectId,
    changes: AtomicI64,
    /// Held while the role changes.
    changing: Mutex<()>,
}

/// Topology version that a client has seen last: `topologyVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyVersion {
    pub process: ObjectId,
    pub counter: i64,
}

impl Default for Topology {
    fn default() -> Topology {
        Topology { process: new_object_id(), changes: AtomicI64::new(0), changing: Mutex::default() }
    }
}

impl Topology {
    /// Increments the counter. The caller must wake the waiters afterwards.
    pub fn count_up(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes the role and increments the counter. The caller must wake the waiters afterwards.
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let _held = self.changing.lock();
        let changed = change();
        self.count_up();
        changed
    }

    /// Returns the version behind the latest change of role. Drivers ignore an error of the version that they know already, so that an
    /// error of the new role must not have the version of the old one.
    pub fn version_behind_changes(&self) -> TopologyVersion {
        let _held = self.changing.lock();
        self.version()
    }

    pub fn version(&self) -> TopologyVersion {
        TopologyVersion { process: self.process, counter: self.changes.load(Ordering::SeqCst) }
    }
}

impl TopologyVersion {
    pub fn to_doc(self) -> DocBuf {
        DocBuf::new().with("processId", ValueRef::ObjectId(self.process)).with("counter", self.counter)
    }
}

/// Returns a new unique id.
pub fn new_object_id() -> ObjectId {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
    let mut id: [u8; 12] = rand::random();
    for (to, from) in id.iter_mut().zip(seconds.to_be_bytes()) {
        *to = from;
    }
    ObjectId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_counts() {
        let topology = Topology::default();
        let before = topology.version();
        topology.count_up();
        assert_eq!(topology.version(), TopologyVersion { counter: 1, ..before });
        assert_ne!(Topology::default().version().process, before.process);
    }
}
