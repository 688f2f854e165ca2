//! `arbor lab replset`: costs of a replica set, of one member (transactions, the history that the set keeps, change streams) and of several (write
//! concerns, failovers, members that follow).
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line, and the order of what is measured |
//! | `load.rs` | clients that repeat one piece of work as fast as they can |
//! | `work.rs` | plain writes and transactions |
//! | `delivery.rs` | from a write to its event in a change stream |
//! | `concerns.rs` | latency and throughput by write concern |
//! | `service.rs` | clients that continue after a failover |
//! | `history.rs` | what they saw: gaps, rates |
//! | `events.rs` | failovers, and secondaries that are lost |
//! | `following.rs` | catching up, and initial sync |
//! | `outcome.rs` | tables, page and files |

pub(crate) mod arguments;
mod concerns;
mod delivery;
mod events;
mod following;
mod history;
mod load;
mod outcome;
mod service;
mod work;

use crate::Result;
use crate::target::Driver;
use crate::target::managed::{Flags, Managed, Setup};

/// Starts a server that is the one member of a set.
fn set(engine: &str, setup: &Setup) -> Result<Managed> {
    Managed::start(engine, Driver::Lean, setup, &Flags { oplog: true, ..Flags::default() })
}
