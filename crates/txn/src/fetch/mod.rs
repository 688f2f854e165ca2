//! Trees that members of a set fetch from each other: rows that are in no log.
//!
//! | file | holds |
//! |---|---|
//! | `block.rs` | byte layout of the rows on the way |
//! | `source.rs` | [`Source`]: snapshots that are held for others and for backups, and their trees block by block; [`Peer`] |
//! | `log_block.rs`, `archive.rs` | records of the log on their way to an archive; the log is held for it |
//! | `rows.rs` | the rows of a peer's tree, checked |
//! | `loads.rs` | [`Loads`]: trees that came past the log |
//! | `publish.rs` | the primary has loads fetched, and the others fetch them |
//! | `ahead.rs` | the states that fetched trees have, on the disk (G2) |
//! | `sync.rs`, `marker.rs` | initial sync: all trees of a peer, or of a backup, take the place of what is here |
//!
//! - G1: a member acknowledges a record that refers to a load only with the load on its disk (R10). The number of a load is that of its
//!   tree: a tree is filled once, and ids are never used again.
//! - G2: a tree that was fetched from a later state than this member has applied is *ahead*: operations on it up to that state are passed
//!   over. They would do no harm, since each says what a row is afterwards; but reads must not see it before the member is as far.
//!   `arbor.ahead` says so before the tree has a row, since the member may end meanwhile.
//! - G3: while `arbor.syncing` is there, the directory holds no state that ever was. It is there before anything is removed, and goes when
//!   engine and log are durable.

mod ahead;
mod archive;
pub(crate) mod block;
pub(crate) mod loads;
mod log_block;
pub(crate) mod marker;
mod publish;
mod rows;
mod source;
mod sync;

pub use archive::LogReply;
pub use block::{Row, RowsChecksum, decode as decode_block};
pub use loads::Loads;
pub use log_block::{LogBlock, LogBlockHead};
pub use marker::{SYNCING_FILE, SyncMarker};
pub use source::{BACKGROUND_NICE, BACKUP_IDLE, Begun, Peer, PeerError, Source, TreeFacts, backup_throttle};
pub use sync::{SyncProgress, SyncWatch};
