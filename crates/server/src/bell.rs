//! Wakes the connections whose requests wait for news ([`After::Wait`](crate::After::Wait)). Nobody polls: a waiting connection
//! is a task that sleeps.

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
