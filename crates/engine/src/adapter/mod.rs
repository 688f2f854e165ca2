//! Parts that the adapters of storage libraries have alike: how a background thread is woken and ended, the log's barrier, and which
//! states are held by snapshots.

mod alarm;
mod barrier_slot;
mod state_holds;
mod worker;

pub use alarm::Alarm;
pub use barrier_slot::BarrierSlot;
pub use state_holds::StateHolds;
pub use worker::Worker;
