//! Changes in MongoDB's terms: the meaning of the notes in the records of the log.
//!
//! ```text
//! store notes a change ── Change::encode ──> txn's record (the document's bytes are stored there once)
//! local.oplog.rs, change streams <── entry::entries <── txn::History
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `change.rs` | [`Change`]: one note, and its bytes |
//! | `place.rs` | [`Place`]: the collection that a note is about |
//! | `statement.rs` | [`Statement`]: the session and transaction number of a whole record |
//! | `entry.rs` | [`entries`]: records as the documents of `local.oplog.rs` |
//! | `delta/` | the `$v: 2` delta of two documents: making it, applying it, converting it to an update description |

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod bytes;
mod change;
pub mod delta;
mod entry;
mod place;
mod statement;

pub use arbor_bson::SessionId;
pub use bytes::Malformed;
pub use change::{Change, Kind};
pub use entry::{Event, document_key, entries, event_at, events};
pub use place::Place;
pub use statement::{Retry, Statement};
