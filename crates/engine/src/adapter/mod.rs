//! Parts that the adapters of storage libraries have alike: how a background thread is woken and ended, the log's barrier, which states are
//! held by snapshots, and where the library is.

mod alarm;
mod barrier_slot;
mod shared_library;
mod state_holds;
mod worker;

pub use alarm::Alarm;
pub use barrier_slot::BarrierSlot;
pub use shared_library::SharedLibrary;
pub use state_holds::StateHolds;
pub use worker::Worker;
