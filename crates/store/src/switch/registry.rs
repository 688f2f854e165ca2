//! The collections that are changing their engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{Collection, Error, Result};

/// By collection; the flag is raised when the collection is dropped under the switch.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    running: Mutex<HashMap<Uuid, Arc<AtomicBool>>>,
}

/// One switch, until it is dropped.
#[derive(Debug)]
pub(crate) struct Registered<'s> {
    switches: &'s Switches,
    uuid: Uuid,
    dropped: Arc<AtomicBool>,
}

impl Switches {
    /// Errors: `ConflictingOperation` while the collection is being switched.
    pub(crate) fn register(&self, collection: &Collection) -> Result<Registered<'_>> {
        self.refuse(collection, "change the storage engine of")?;
        let dropped = Arc::new(AtomicBool::new(false));
        let before = self.running.lock().insert(collection.uuid, dropped.clone());
        assert!(before.is_none(), "one switch of {} at a time", collection.namespace);
        Ok(Registered { switches: self, uuid: collection.uuid, dropped })
    }

    /// Refuses changes that a running switch would miss. Requires the collection's latch held exclusively, under which switches begin.
    pub(crate) fn refuse(&self, collection: &Collection, what: &str) -> Result<()> {
        debug_assert!(collection.latch.is_held_exclusively(), "no switch of {} begins now", collection.namespace);
        if self.running.lock().contains_key(&collection.uuid) {
            let name = &collection.namespace;
            let reason = format!("cannot {what} {name} while its storage engine is being changed");
            return Err(Error::ConflictingOperation(reason));
        }
        Ok(())
    }

    /// The collection is being dropped: its switch is to end.
    pub(crate) fn break_off(&self, collection: &Collection) {
        if let Some(dropped) = self.running.lock().get(&collection.uuid) {
            dropped.store(true, Ordering::Relaxed);
        }
    }
}

impl Registered<'_> {
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let was_running = self.switches.running.lock().remove(&self.uuid);
        debug_assert!(was_running.is_some(), "a switch ends once");
    }
}
