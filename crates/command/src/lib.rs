//! Commands: a decoded request in, a reply out. Free of sockets. What a request says in the fields of all commands is read by
//! the crate `protocol`; the member of a replica set is the crate `repl`.
//!
//! | file | contents |
//! |---|---|
//! | `commands` | [`Commands`]: state shared by all connections |
//! | `requests` | request path of this crate: decode, run, encode |
//! | `execution` | path of one command: preconditions, session, the command's function, handling of its outcome |
//! | `connection` | [`Connection`]: state of one client connection |
//! | `call` | one command in flight, as its file in `cmd/` sees it |
//! | `access/` | users, roles, logins, and the check of each request |
//! | `registry` | the one alphabetical table of commands: properties and function of each |
//! | `cmd/` | one file per command: its fields, its execution, its reply |
//! | `concerns`, `cluster_time` | read and write concerns, and the exchange of cluster time |
//! | `error`, `error_map` | error type of this crate; the one place that maps errors of other crates to MongoDB's |
//! | `routing` | the seam of a router, whose data is on other servers |
//! | `moves` | chunks that leave this shard, or come to it |
//! | `fencing` | tokens of the holders of locks, of which an earlier one changes nothing here |
//! | `ownership` | versions of what a shard holds, checked against those of requests |
//! | `place` | chooses the thread on which a request runs |
//! | `session/` | logical sessions, transactions, retryable writes |
//! | `parameters`, `storage_parameters` | `setParameter` |
//! | `ttl` | passes that delete expired documents |
//! | `feature_version` | the feature compatibility version |
//! | `index_builds` | index builds resumed after a restart |
//! | `replication/` | operations of a replica set member on its data |
//! | `write_block` | writes held up by `fsync` with `lock` and by `setUserWriteBlockMode` |
//! | `log_components` | levels of log components |
//! | `watcher` | monitoring of long catalogue changes |
//! | `slow_log`, `profiler` | a log line for each slow request; operations recorded in `system.profile` |
//! | `console` | the document of the console |
//! | `slow_shapes` | slow operations by shape |

mod access;
pub mod analysis;
mod audit;
mod call;
mod cluster_time;
mod cmd;
mod commands;
mod concerns;
mod connection;
mod console;
mod error;
mod error_map;
#[cfg(test)]
mod every_command_tests;
mod execution;
mod feature_version;
mod fencing;
mod incoming;
mod index_builds;
mod log_components;
mod moves;
mod ownership;
mod parameters;
mod place;
mod profiler;
mod query_statistics;
mod registry;
mod replication;
mod requests;
mod routing;
mod session;
mod slow_log;
mod slow_shapes;
mod storage_parameters;
mod thread_cpu;
mod ttl;
mod usage;
mod watcher;
mod write_block;

pub use access::{Accounts, ClusterAuth, Identity, Keys};
pub use audit::{Audit, AuditOptions};
pub use cmd::crud::backup_cursor::BACKUP_CURSOR_DIRECTORY;
pub use cmd::diagnostics::small::Recording;
pub use commands::{Commands, Host, Options};
pub use connection::Connection;
pub use error::{Error, Result};
pub use fencing::{FENCING_TOKEN, LOCK_IS_LOST, TOKEN_LIFE, is_of_lock_holders};
pub use moves::MOVE_IS_OVER;
pub use parameters::Parameters;
pub use replication::Membership;
pub use routing::{
    Answer, Balancer, Forwarded, Routed, RoutedCursor, Router, check_bulk_write, check_update, command_info, is_fatal,
};

/// The MongoDB release that Arbor presents itself as.
pub const MONGODB_VERSION: &str = "8.0.0";
