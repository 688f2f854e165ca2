//! Several engines as one: each tree lives in one of them, under one log and one snapshot.
//!
//! ```text
//! txn ─ EngineSet ─┬─ home     made the directory; ledger, catalogue, trees that name no engine
//!                  └─ others   trees whose CreateTree names them
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `set.rs` | [`EngineSet`], the engine |
//! | `open.rs` | opening, and taking in another member |
//! | `adapt.rs` | operations of another member of a replica set, as this one stores them |
//! | `apply.rs`, `plan.rs` | a group of batches goes to the members that it concerns |
//! | `gate.rs`, `snapshot.rs` | one snapshot of all members |
//! | `routes.rs` | which member a tree lives in |
//! | `kind.rs` | what a set is opened with |
//! | `roster.rs` | the file that lists the members |
//!
//! Invariants:
//!
//! - **S1** A tree is in one member, from its creation to its drop. Ids are never used again.
//! - **S2** Every member has applied all batches up to the set's position that concern it. A member that is not concerned
//!   may say a lower position; before a checkpoint it gets an empty batch at the set's.
//! - **S3** The log is kept from the lowest durable position of all members on; that of a member that cannot be opened is
//!   unknown, so then the log is kept whole.
//! - **S4** A name is in the roster before anything that needs the member is logged; where another member of a replica set
//!   has logged it, before it is applied.
//! - **S5** A snapshot shows each member at the same position: a group that concerns several members, or moves trees,
//!   is applied behind the gate; one that concerns a single member is published by that member alone, and the set's
//!   position shows a reader that it has passed between two of them.
//!
//! Locks, in this order: `joining`, `writer`, the gate. With one member a snapshot takes none of them.
//!
//! A crash leaves the members at different positions, each with a first part of what concerns it. The lowest is
//! where the replay begins; the others pass over what they have. On the way a batch may change trees that its member,
//! being further, has dropped already: up to the highest position such changes are left out.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod adapt;
mod apply;
mod gate;
mod kind;
mod open;
mod plan;
mod roster;
mod routes;
mod set;
mod snapshot;

pub use adapt::{SetOptions, WarnOfSettings};
pub use kind::Kind;
pub use set::EngineSet;
