//! The log's barrier, once there is one.

use arbor_base::Position;
use parking_lot::Mutex;

use crate::{Barrier, Result};

/// Holds what [`Engine::set_barrier`](crate::Engine::set_barrier) was called with.
#[derive(Default)]
pub struct BarrierSlot(Mutex<Option<Barrier>>);

impl BarrierSlot {
    pub fn set(&self, barrier: Barrier) {
        *self.0.lock() = Some(barrier);
    }

    pub fn get(&self) -> Option<Barrier> {
        self.0.lock().clone()
    }

    /// Has the log made durable up to `position`, before the engine makes durable what it says. Without a barrier there is no log.
    pub fn wait_for_log(&self, position: Position) -> Result<()> {
        self.get().map_or(Ok(()), |barrier| barrier(position))
    }
}
