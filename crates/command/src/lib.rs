//! Commands: a decoded request in, a reply out. Free of sockets.
//!
//! | file | what |
//! |---|---|
//! | `commands` | [`Commands`]: what all connections share |
//! | `requests` | the way of a request through this crate: decode, run, encode |
//! | `execution` | the way of one command: what has to hold, its session, its own code, what becomes of the outcome |
//! | `connection` | [`Connection`]: what the server knows of one client |
//! | `call` | one command in flight, as its file in `cmd/` sees it |
//! | `registry` | the one alphabetical table of commands: what is known of each (`command_info`), and its function |
//! | `cmd/` | one file per command: its fields, what it does, its reply |
//! | `arguments` | reading a field, or MongoDB's error for it |
//! | `generic` | the fields that every command takes |
//! | `concerns`, `read_concern`, `write_concern`, `cluster_time` | which state is read, what writes wait for, and the time that all tell each other |
//! | `error`, `error_map` | the one error of this crate; the one place that turns other crates' errors into MongoDB's |
//! | `place` | whether a request may run where it arrived |
//! | `operation` | what runs now: `currentOp`, `killOp` |
//! | `session/` | logical sessions, transactions, retryable writes |
//! | `fail_points`, `parameters`, `storage_parameters` | `configureFailPoint`, `setParameter` |
//! | `metrics`, `process` | counts for `serverStatus`; figures of the process and the machine |
//! | `ttl` | passes that delete expired documents |
//! | `index_builds` | builds that begin again after a restart |
//! | `replication/`, `topology` | this server as the member of a replica set; what waiting clients are told of its role |
//! | `watcher` | how an operation watches long changes |
//! | `log`, `slow_log` | JSON log lines in MongoDB's layout |

mod arguments;
mod call;
mod cluster_time;
mod cmd;
mod command_info;
mod commands;
mod concerns;
mod connection;
mod error;
mod error_map;
mod execution;
mod fail_points;
mod generic;
mod index_builds;
pub mod log;
mod metrics;
mod operation;
mod parameters;
mod place;
mod process;
mod read_concern;
mod registry;
pub mod replication;
mod requests;
mod session;
mod slow_log;
mod stable_api;
mod storage_parameters;
mod topology;
mod ttl;
mod usage;
mod watcher;
mod write_concern;

pub use commands::{After, Commands, Host, NetworkFigures, Options};
pub use connection::{Connection, Peer};
pub use error::{Error, Result};
pub use parameters::Parameters;
pub use place::Place;

/// The MongoDB release that Arbor presents itself as.
pub const MONGODB_VERSION: &str = "7.0.0";
