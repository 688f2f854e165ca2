//! Phases and client counts: load, warm up, then a measured step for each number of clients.
//!
//! Client threads run a workload as fast as they can, or by one global schedule; each records into a slot of its own.
//! The thread that started them wakes once per interval, empties the slots, samples the machine and tells the observer
//! of the run (files, progress line). Nothing is shared between client threads but the schedule.

mod interrupt;
mod load;
mod recorder;
mod schedule;
mod step;
mod worker;

pub use interrupt::Interrupt;
pub use load::{Loaded, load, prepare, resume, scan};
pub use recorder::{Latencies, Recorder};
pub use schedule::{Arrival, Schedule};
pub use step::{Interval, Pace, Step, run_step};

/// Told what happens while it happens.
pub trait Watch {
    /// One interval of a step or of a load is complete.
    fn interval(&mut self, system: &str, interval: &Interval);

    /// A phase without figures began.
    fn phase(&mut self, system: &str, what: &str);
}
