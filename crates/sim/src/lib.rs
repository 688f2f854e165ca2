//! Deterministic simulation of a replica set: several members, their network, disks, clocks and coordinator in one thread,
//! driven by one seed. Development only; no binary of the server contains it.
//!
//! | file | what |
//! |---|---|
//! | `world` | [`World`]: the members, the queue of events, what each event does |
//! | `member` | one member: its state machine and its data; carries out actions |
//! | `data` | [`Data`]: what a member stores, and a model of it in memory |
//! | `log_data` | the same on the real log (`arbor-log`), on a faulty disk |
//! | `txn_data` | `arbor-txn` with its log, an engine, and sessions |
//! | `rows` | what transactions write there: rows of a tree |
//! | `collections` | or documents of `arbor-store`, whose catalogue changes |
//! | `operation` | what clients write, and the documents that it makes |
//! | `plan` | what a seed chooses: members, timeouts, faults and their frequency |
//! | `nemesis` | injects faults |
//! | `oracle` | checks after every step |
//! | `campaign` | many seeds; the search for defects that are built in on purpose |
//!
//! Events are ordered by virtual time; nothing reads a clock or opens a file, and only changes of the catalogue
//! have a thread, which runs while the others wait. Messages pass the real codecs as bytes. A run has two phases: faults, then none, in which the set must become whole and serve.
//!
//! **Checks.**
//! - O1: commit points extend one history: no primary commits another record at a position.
//! - O2: after every step each member of the recorded in-sync set holds all of it on its disk, unless its disk was
//!   replaced.
//! - O3: what a member has applied is committed, and stays in its log.
//! - O4: members that have applied the same position have equal documents.
//! - O5: acknowledged writes take effect in the order of real time, and so do reads of a primary: the history of all
//!   documents is linearizable, in the order of positions.
//! - O6: as many members hold a record when it is committed as the set's minimum says.
//! - O8: a write that a client requests again, since it does not know the outcome, takes effect once (data with sessions).
//! - O7: after the faults have ended a primary serves, writes are acknowledged, all voters are in sync and equal.

pub mod campaign;
mod collections;
mod data;
mod log_data;
mod member;
mod nemesis;
mod operation;
mod oracle;
mod plan;
mod rows;
mod txn_data;
mod world;

use collections::Collections;
pub use data::{Data, ModelData, Written};
pub use log_data::LogData;
pub use operation::Operation;
pub use plan::{Defect, Plan};
use rows::Plain;
use txn_data::TxnData;
pub use world::{Outcome, World};
