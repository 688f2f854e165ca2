//! One tree: inner nodes with their slots, the published version, and how changes are installed.
//!
//! - [`node`]: inner nodes, slots, runs; all resident, immutable, path-copied
//! - [`install`]: changing a node: path copy, splits, growing and shrinking of the root
//! - [`version`]: what readers load: the active memtable part, frozen parts, the root
//!
//! Invariants:
//! - (I1) For one key, everything higher in the tree is newer, and later runs of a slot are newer than earlier ones. Frozen
//!   parts and the active part are the newest, in this order.
//! - (I2) Flushing consumes the oldest runs of a slot, so for one key sequence numbers rise from level to level.
//! - (I3) A run counts only inside its slot's bounds. Slots with runs are never merged with neighbours; splitting a slot
//!   copies its runs to both halves.

mod bounds;
pub mod install;
pub mod node;
pub mod version;

pub use bounds::Bounds;
pub use install::Place;
pub use node::{Child, Inner, Placed, Run, Slot};
pub use version::{Tree, TreeVersion};
