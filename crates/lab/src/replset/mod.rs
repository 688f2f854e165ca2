//! `arbor lab replset`: what a replica set of one member costs.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line, and the order of what is measured |
//! | `load.rs` | clients that repeat one piece of work as fast as they can |
//! | `work.rs` | plain writes and transactions |
//! | `delivery.rs` | from a write to its event in a change stream |

pub(crate) mod arguments;
mod delivery;
mod load;
mod work;
