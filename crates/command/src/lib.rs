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
//! | `registry` | the one alphabetical table of commands: properties and function of each |
//! | `cmd/` | one file per command: its fields, its execution, its reply |
//! | `concerns`, `cluster_time` | read and write concerns, and the exchange of cluster time |
//! | `error`, `error_map` | error type of this crate; the one place that maps errors of other crates to MongoDB's |
//! | `place` | chooses the thread on which a request runs |
//! | `session/` | logical sessions, transactions, retryable writes |
//! | `parameters`, `storage_parameters` | `setParameter` |
//! | `ttl` | passes that delete expired documents |
//! | `index_builds` | index builds resumed after a restart |
//! | `replication/` | operations of a replica set member on its data |
//! | `watcher` | monitoring of long catalogue changes |
//! | `slow_log` | a log line for each slow request |

mod call;
mod cluster_time;
mod cmd;
mod commands;
mod concerns;
mod connection;
mod error;
mod error_map;
mod execution;
mod index_builds;
mod parameters;
mod place;
mod registry;
mod replication;
mod requests;
mod session;
mod slow_log;
mod storage_parameters;
mod ttl;
mod usage;
mod watcher;

pub use commands::{Commands, Host, Options};
pub use connection::Connection;
pub use error::{Error, Result};
pub use parameters::Parameters;

/// The MongoDB release that Arbor presents itself as.
pub const MONGODB_VERSION: &str = "7.0.0";
