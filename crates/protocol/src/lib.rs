//! A request before its execution: the fields common to all commands, the properties of commands apart from their code, and the
//! errors that clients receive. No store, no query, no transactions.
//!
//! | file | contents |
//! |---|---|
//! | `transport` | the thread on which a request runs, the action after its reply, peers, network statistics |
//! | `command_info` | [`CommandInfo`]: properties of a command |
//! | `arguments` | reading a field, or MongoDB's error for it |
//! | `generic` | the fields that every command takes |
//! | `request` | the fields about the session: `lsid`, `txnNumber`, `autocommit`, `startTransaction` |
//! | `read_concern`, `write_concern`, `cluster_time` | parsing and checks; the semantics on a member are in `repl` and `command` |
//! | `stable_api` | version 1 of the stable API |
//! | `error`, `labels` | [`Error`]: code, text and details of a refusal; error labels |
//! | `metrics` | counts for `serverStatus` |
//! | `operation` | running operations: `currentOp`, `killOp` |
//! | `fail_points` | `configureFailPoint` |
//! | `topology` | changes of this server's role, counted for the clients that wait for one |
//! | `process` | statistics of the process and the machine |
//! | `log` | JSON log lines in MongoDB's layout |

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

pub mod arguments;
pub mod cluster_time;
mod command_info;
mod error;
pub mod fail_points;
pub mod generic;
pub mod labels;
pub mod log;
pub mod metrics;
pub mod operation;
pub mod process;
pub mod read_concern;
pub mod request;
pub mod stable_api;
pub mod topology;
pub mod transport;
pub mod write_concern;

pub use command_info::{CommandInfo, Runs};
pub use error::{Error, Result};
