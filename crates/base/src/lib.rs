//! Foundations that every crate may use: the identities that cross crate walls, and counters.

mod ids;
mod sharded;

pub use ids::{Position, TreeId};
pub use sharded::{ShardedCounter, thread_number};
