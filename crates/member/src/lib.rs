//! A member of a replica set of several, as threads of a server: what drives the state machine `repl::isr`.
//!
//! | file | what |
//! |---|---|
//! | `handle` | [`Handle`]: starting a member, and what the server asks of it |
//! | `driver` | the thread that owns the state machine: its inputs, and most of its actions |
//! | `event` | what happens to it |
//! | `shown` | what all threads may read of it without asking the thread |
//! | `helpers` | threads for what takes long: applying, the coordinator, changes of role |
//! | `lanes` | connections to the other members |
//! | `loads` | trees that come past the log |
//! | `sync` | initial sync, and what comes back that fell too far behind |
//! | `heartbeat` | what the members say of themselves every two seconds |
//! | `protocol` | the commands between members |
//!
//! ```text
//! commit ── log ── Look ──► driver ──► Ship ──► reply to a fetch of the follower
//! follower: reply ── Received ──► driver ──► Append ── sync ── Look ──► next fetch, which acknowledges
//! primary: fetch ── Received ──► driver ──► Commit ──► apply thread ── published ──► the client's thread
//! ```
//!
//! - D1: the state machine's log is the log. While this member leads, records that the machine has not heard of may be at its end; when it
//!   retires, those are cut off: no other member has them, and none was acknowledged.
//! - D2: nothing is appended between the begin of a hand-over and its end.
//! - D3: an action that cannot be carried out ends the process: what was promised in its name is not known.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod dial;
mod driver;
mod event;
mod handle;
mod heartbeat;
mod helpers;
mod lanes;
mod loads;
mod protocol;
mod shown;
mod sync;

pub use dial::{Credentials, Dialer};
pub use handle::{Handle, Setup};
pub use heartbeat::Heard;
pub use loads::{Connect, RemotePeer};
pub use protocol::{Ask, COMMAND, ask};
pub use shown::{Coordinators, Peer, Place, Server};
pub use sync::SyncStatus;
