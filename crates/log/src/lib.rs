//! The commit log: the one place where a write becomes durable.
//!
//! `txn` appends groups of records and waits for the group fsync; recovery, replication and change streams read them
//! back by [`Position`](arbor_base::Position). Payloads are opaque bytes here.
//!
//! | file | what it holds |
//! |---|---|
//! | `format.rs` | byte layout of segments and records, invariants L1-L7 |
//! | `segment.rs` | one open segment file |
//! | `scanner.rs` | sequential reading of one segment |
//! | `recovery.rs` | opening: where the log ends, torn tail or damage |
//! | `writer.rs` | appending, rolling to the next segment |
//! | `shared.rs`, `sync_state.rs` | what the log, its background thread and its readers share |
//! | `sync.rs` | group fsync, the background thread |
//! | `tail.rs` | the end of the log, and when the background thread is alarmed |
//! | `cutting.rs`, `cuts.rs` | epochs, cutting off the end, and who must notice |
//! | `epochs.rs` | which record belongs to which epoch; the comparison of two logs |
//! | `reader.rs` | reading from a position while the log grows |
//! | `member.rs` | `arbor.member`: store UUID and highest epoch |
//! | `log.rs` | [`Log`], which ties them together |
//!
//! **Threads and locks.** The writer mutex is held while a group is encoded and written, never during a group fsync.
//! The sync mutex elects one leader; it is released during the fsync. Order: no thread takes one of the two while it
//! holds the other. Inside the writer mutex the slot of the prepared segment may be locked, and last and briefly the list
//! of segments.
//!
//! ```
//! use std::{path::Path, sync::Arc};
//!
//! use arbor_base::Position;
//! use arbor_disk::FaultyDisk;
//! use arbor_log::{Log, LogOptions};
//!
//! let disk = FaultyDisk::new(); // in memory; `RealDisk` for files
//! let log = Log::open(Arc::new(disk.clone()), Path::new("log"), LogOptions::default())?;
//! let position = log.append(&[b"one", b"two"])?;
//! log.wait_durable(position)?;
//! drop(log);
//!
//! let after_power_failure = Arc::new(disk.crash(1));
//! let log = Log::open(after_power_failure, Path::new("log"), LogOptions::default())?;
//! let records = log.read(Position(2)).collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(records, [(Position(2), b"two".to_vec())]);
//! # Ok::<(), arbor_log::Error>(())
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod cuts;
mod cutting;
mod epochs;
mod error;
mod format;
mod log;
mod member;
mod options;
mod reader;
mod recovery;
mod scanner;
mod segment;
mod shared;
mod stats;
mod sync;
mod sync_state;
mod tail;
mod writer;

pub use epochs::{Epochs, Matching};
pub use error::{Error, Result};
pub use format::PAYLOAD_BYTES_MAX;
pub use log::Log;
pub use member::{MEMBER_FILE, Member};
pub use options::LogOptions;
pub use reader::Reader;
pub use shared::SyncListener;
pub use stats::LogStats;
