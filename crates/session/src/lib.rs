//! Logical sessions: the sessions in use, the one transaction that each may have, and which of its writes were done.
//!
//! ```text
//! request ── Sessions::check_out ──> CheckedOut (one operation at a time) ──┬─ open transaction, kept between requests
//!                 │                                                          └─ Journal: statements that were done
//!            state machine of the transaction number                              rows in a fixed tree, written by the
//!                                                                                 transaction that does the work
//! ```
//!
//! This crate knows neither documents nor commands: what is open is a type parameter, the reply of a statement is bytes.
//!
//! | file | holds |
//! |---|---|
//! | `registry.rs` | [`Sessions`]: all sessions, their ends, what has expired |
//! | `session.rs` | one session's state, and the operation that has it |
//! | `open.rs` | the open transactions, and which of them makes room |
//! | `machine.rs` | the transaction number and what became of it |
//! | `journal.rs` | [`Journal`]: the statements of a retryable write |
//! | `row.rs`, `runs.rs` | the layout of the journal's rows |
//! | `rows.rs` | reading, listing and deleting rows |
//! | `carried.rs` | statements that go to another server with their documents |
//! | `statistics.rs` | statistics for `serverStatus` |
//! | `error.rs` | errors, with MongoDB's codes and texts |
//!
//! Lock order: a shard of the registry, then the state of a session. Neither is held while anything is read or written.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod carried;
mod error;
mod journal;
mod machine;
mod open;
mod registry;
mod row;
mod rows;
mod runs;
mod session;
mod statistics;

pub use arbor_base::Intent;
pub use arbor_bson::SessionId;
pub use carried::Carried;
pub use error::{Error, Result};
pub use journal::Journal;
pub use machine::Outcome;
pub use registry::{Limits, Listed, ReadRow, SESSIONS_MAX, Sessions, TIMEOUT, TRANSACTIONS_MAX};
pub use row::{Ended, Row};
pub use session::{CheckedOut, Kill, OpenTransactionInfo};
pub use statistics::{OpenStatistics, Statistics};
