//! The in-sync set: a state machine without sockets, threads and clocks. Time, messages and the coordinator's results are
//! [`Input`]s, everything it does is an [`Action`].
//!
//! | file | what |
//! |---|---|
//! | `machine` | [`Machine`]: inputs, what is common to all roles, what becomes of agreements |
//! | `follower` | fetching, matching, cutting, taking over |
//! | `relay` | records by way of a member that does not lead |
//! | `primary` | shipping, the commit point, changes of the set |
//! | `epochs` | which epoch each record of the log is of |
//! | `message` | messages between members, and their codec |
//! | `timing` | timeouts |
//! | `mutant` | defects for the tests of tests |
//!
//! Each member has one log; position and epoch identify a record ([`Place`]). Followers fetch, and a fetch is the
//! acknowledgement of what came before. A record is *committed* once the whole in-sync set holds it on disk.
//!
//! **Rules.** Each is an assertion where it is relied on.
//! - R1: one primary per epoch. It becomes primary by replacing the agreement that it read; a member leads an epoch once.
//! - R2: only a member of the recorded in-sync set may do so. It needs no vote: it holds every acknowledged record.
//! - R3: a record is committed when every member of the recorded set has it on disk, and the set has its minimum.
//! - R4: from the moment a change of the set is requested, and until its outcome is known, the union of the old and the
//!   new set is waited for. A newcomer holds everything that is committed, and a record of the present epoch. After an
//!   unknown outcome the agreement is read again; while it has the version that the request expected, the request may
//!   still be executed, so it is repeated, until the version is another one.
//! - R5: a member saves the highest epoch that it has seen before it acts on it, and refuses appends of lower ones.
//! - R6: logs match by (epoch, position); a follower cuts a divergent tail, which holds nothing committed.
//! - R7: only what is committed is applied, and what is committed is never cut.
//! - R8: a primary begins its epoch with an empty record, and serves once that is committed, with all before it.
//! - R9: a member is its id and its data; with other data it is another member.
//! - R10: a member that acknowledges a record which refers to a load has the load.
//!
//! **Reads.** A fetch promises not to take over for a while; the primary shows its state only while all promises of the
//! set are young. A promise is dated by the primary's clock, before it was made. A new primary commits nothing as long as
//! its own promise to another may last.

mod epochs;
mod follower;
mod machine;
mod message;
mod mutant;
mod primary;
mod relay;
#[cfg(test)]
mod tests;
mod timing;

pub use epochs::{Epochs, Place};
pub use machine::{Action, Found, Input, Machine, ReadOutcome, Reconfiguration, Refusal, Shipment, Status};
pub use message::{Envelope, Fetch, Message, Records};
pub use mutant::Mutant;
pub use timing::{Millis, Timing};
