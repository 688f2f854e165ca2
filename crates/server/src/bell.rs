//! Wakes the connections whose requests wait for an event ([`After::Wait`](crate::After::Wait)). There is no polling: a waiting
//! connection is a sleeping task.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// One per server; rung from any thread.
#[derive(Clone, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// All that wait look again.
    pub fn ring(&self) {
        self.0.notify_waiters();
    }

    pub(crate) fn rung(&self) -> Notified<'_> {
        self.0.notified()
    }
}
