//! The coordinator of a set of several members: a key of etcd, reached through etcd's JSON gateway; and the etcd process that a
//! server runs by itself.
//!
//! | file | what |
//! |---|---|
//! | `gateway` | requests to one of several endpoints, and what their outcome says |
//! | `coordinator` | [`Etcd`]: the agreement as one key, replaced by comparing its `mod_revision` |
//! | `watch` | the hint that the key has changed |
//! | `value` | the bytes of the key |
//! | `version` | which releases of etcd are used |
//! | `membership` | the members of the etcd cluster |
//! | `keeper` | [`Keeper`]: the processes of all members follow the set's configuration |
//! | `managed` | [`ManagedEtcd`]: the process, its restarts and its end |
//!
//! Safety comes from comparing revisions alone: no lease, no lock, and watches are hints.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod coordinator;
mod gateway;
mod keeper;
mod managed;
mod membership;
mod value;
mod version;
mod watch;

pub use coordinator::{Etcd, EtcdOptions, Health};
pub use gateway::{Error, TlsFiles};
pub use keeper::{Keeper, KeeperOptions};
pub use managed::{ManagedEtcd, ManagedOptions, Ports, end, find_binary};
pub use membership::{EtcdMember, Patience};
pub use version::{OLDEST, Release};
