//! Phases and client counts: load, warm up, then a measured step for each number of clients.
//!
//! | file | what |
//! |---|---|
//! | `step`, `clients`, `worker`, `schedule` | one measured step: client threads, one global schedule for all of them |
//! | `load` | collections made or found, the workload's streams of batches |
//! | `script` | what is done to the server at set times of a step |
//! | `recorder`, `account` | latencies of every operation; what was counted as results |
//! | `trend` | when a step was steady, and where it stalled |
//! | `context` | the running system and step, the run's clock, the observer of events |
//!
//! Client threads run a workload as fast as they can, or by one global schedule; each records into a slot of its own.
//! The thread that started them wakes once per interval, empties the slots, samples the machine and notifies the observers
//! of the run (files, progress line, live page). Nothing is shared between client threads but the schedule.

mod account;
mod clients;
mod context;
mod interrupt;
mod load;
mod moves;
mod ramp;
mod recorder;
mod schedule;
mod script;
mod step;
mod trend;
mod worker;

pub use account::{add_sizes, load_record, points, step_record};
pub(crate) use clients::Clients;
pub use context::Context;
pub use interrupt::Interrupt;
pub use load::{Loaded, load, prepare, resume, scan};
pub use moves::{BeforeMoves, before_moves};
pub use ramp::Ramp;
pub use recorder::{Latencies, Recorder};
pub use schedule::{Arrival, Schedule};
pub use script::{Script, Scripted};
pub use step::{Elsewhere, Interval, Pace, Step, run_step};
pub use trend::{Stall, stalls, steady_from};

use std::time::Duration;

use crate::results::{Event, StepRecord};

/// An observer of a run in progress.
pub trait Watch {
    /// Before the first system: how long the steps of all systems take together, loads not counted.
    fn planned(&mut self, _steps: Duration) {}

    /// One interval of a step or of a load is complete.
    fn interval(&mut self, interval: &Interval);

    /// Something happened; phases begin with [`crate::results::EventKind::Phase`].
    fn event(&mut self, event: &Event);

    /// A step is over.
    fn step(&mut self, _system: &str, _step: &StepRecord) {}
}
