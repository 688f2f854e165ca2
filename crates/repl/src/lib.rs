//! The replica set as a member sees it: its configuration, the member's role in it, and what the members agree on. Free of
//! sockets, and of the data that a member holds: `command` writes down what a new role or configuration asks for.
//!
//! | file | what |
//! |---|---|
//! | `member` | [`Replication`]: the member, its role and its configuration |
//! | `agreement` | what the members agree on |
//! | `coordinator` | its storage, by compare-and-set: a file, for a set of one |
//! | `isr` | the in-sync set of several members, as a state machine |
//! | `config` | the set's configuration |
//! | `own_facts` | what a member keeps about itself, outside of the log |
//! | `own_address` | which addresses are this member's own |
//! | `permission` | which commands run in which role |
//! | `write_concern` | what the set makes of a write concern |
//! | `defaults` | the set's own read and write concern |
//! | `last_write` | the time of the last write that is on the disk |
//! | `status` | what a member says of itself and the set: `hello`, parts of `replSetGetStatus` |

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod agreement;
mod config;
pub mod coordinator;
mod defaults;
pub mod isr;
mod last_write;
mod member;
mod own_address;
mod own_facts;
mod permission;
mod status;
mod write_concern;

pub use agreement::{Agreement, Epoch, Identity, MemberId, StoreId, Version, Voter, majority_of};
pub use config::{Member, SetConfig};
pub use coordinator::{Coordinator, LocalFile, Replaced, SharedFile};
pub use defaults::{Defaults, SETTINGS_ID};
pub use last_write::OpTime;
pub use member::{
    Election, KEPT_FILE, MemberState, Replication, Role, is_of_several, not_yet_initialized, was_initiated,
};
pub use own_address::OwnAddress;
pub use own_facts::{Facts, OWN_FACTS_FILE, OwnFacts};
pub use permission::not_primary;
pub use status::{Progress, election_id, election_metrics, optimes};
