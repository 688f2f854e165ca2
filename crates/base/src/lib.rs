//! Foundations that every crate may use: identities that cross crate boundaries, counters, shares, the memory budget, the throttle of work
//! in the background, random numbers, fields of bytes, assertions.

pub mod aside;
mod control_group;
mod durability;
mod fields;
mod ids;
mod intent;
pub mod invariants;
pub mod memory;
mod prefetch;
mod random;
mod sharded;
mod shares;
mod throttle;
pub mod work;

pub use durability::Durability;
pub use fields::{Fields, put_text};
pub use ids::{Position, TreeId};
pub use intent::Intent;
pub use prefetch::Prefetch;
pub use random::{Random, scatter};
pub use sharded::{ShardedCounter, thread_number};
pub use shares::{Shares, Stamp};
pub use throttle::{ThreadThrottle, Throttle, thread_time};

/// Stack of a thread that runs statements, with room to spare in a debug build, whose frames are the largest:
///
/// | recursion | bytes, 2026-11-23 |
/// |---|---|
/// | 180 levels of operators in an expression or a filter, over documents of 200 levels | 2 MiB (release: below 0.5 MiB) |
/// | 1,200 stages, one around the other, of 8 KiB for a `$group` | 9.4 MiB |
///
/// Unused parts of a stack cost address space only.
pub const STATEMENT_STACK_BYTES: usize = 16 << 20;
