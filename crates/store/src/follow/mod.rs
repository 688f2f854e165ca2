//! The common part of long changes that do not block writers: they work on a snapshot, follow the log from there, and
//! end under the collection's latch. The users are `switch/` (live change of engines) and `build/` (indexes).
//!
//! | file | holds |
//! |---|---|
//! | `watch.rs` | [`Watch`]: aborting it and watching its progress |
//! | `throttle.rs`, `pace.rs` | the share of the processors it takes; the steps at which it checks |
//! | `load.rs` | rows that may fail on their way into `bulk_load`; the filled trees become part of the log |
//! | `catch_up.rs` | what the log has after the snapshot, carried over by a [`Carry`] |
//! | `last_step.rs` | the rest of the log under the latch |
//!
//! F1: everything that concerns the collection is in the log before the last step holds the latch, or never will be: writers
//! hold the latch until they have committed. The last step reads the log to its end, not only to what is visible, since a
//! commit may wait for space ([`CommittedNotApplied`](arbor_txn::Error::CommittedNotApplied)).

mod catch_up;
mod last_step;
mod load;
mod pace;
mod throttle;
mod watch;

pub(crate) use self::catch_up::{Carry, CatchUp, GROUP_BYTES};
pub(crate) use self::last_step::LastStep;
pub(crate) use self::load::{bulk_load, publish};
pub(crate) use self::pace::Pace;
pub(crate) use self::throttle::Throttle;
pub use self::watch::{Phase, Unwatched, Watch};
