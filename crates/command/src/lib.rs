//! Commands: a decoded request in, a reply out. Free of sockets. What a request says in the fields of all commands is read by
//! the crate `protocol`; the member of a replica set is the crate `repl`.
//!
//! | file | what |
//! |---|---|
//! | `commands` | [`Commands`]: what all connections share |
//! | `requests` | the way of a request through this crate: decode, run, encode |
//! | `execution` | the way of one command: what has to hold, its session, its own code, what becomes of the outcome |
//! | `connection` | [`Connection`]: what the server knows of one client |
//! | `call` | one command in flight, as its file in `cmd/` sees it |
//! | `registry` | the one alphabetical table of commands: what is known of each, and its function |
//! | `cmd/` | one file per command: its fields, what it does, its reply |
//! | `concerns`, `cluster_time` | which state is read, what writes wait for, and the time that all tell each other |
//! | `error`, `error_map` | the one error of this crate; the one place that turns other crates' errors into MongoDB's |
//! | `place` | whether a request may run where it arrived |
//! | `session/` | logical sessions, transactions, retryable writes |
//! | `parameters`, `storage_parameters` | `setParameter` |
//! | `ttl` | passes that delete expired documents |
//! | `index_builds` | builds that begin again after a restart |
//! | `replication/` | what the member of a replica set does with its data |
//! | `watcher` | how an operation watches long changes |
//! | `slow_log` | a line for each slow request |

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
