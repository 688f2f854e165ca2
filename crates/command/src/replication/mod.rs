//! Replica set operations on the member's data; the member itself is the crate `repl`.
//!
//! | file | contents |
//! |---|---|
//! | `primary` | becoming primary and stepping down |
//! | `local_settings` | settings of a member, and the collections of `local` that show them |
//! | `several` | a set of several members |
//! | `status` | `replSetGetStatus` |

mod local_settings;
mod others_changes;
mod primary;
mod several;
pub(crate) mod status;

pub(crate) use local_settings::{LocalCollections, OplogSize};
pub(crate) use primary::note_noop;
pub use several::Membership;
pub(crate) use several::{Several, no_successor};
