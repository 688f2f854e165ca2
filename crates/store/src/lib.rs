//! Collections over `txn`: the catalogue, records, index maintenance, index builds.
//!
//! | file | holds |
//! |---|---|
//! | `store.rs`, `collection.rs`, `index.rs`, `latch.rs`, `namespace.rs` | [`Store`] and what it shows |
//! | `record.rs`, `cursor.rs`, `entry.rs` | reading; the layout of records and index entries |
//! | `write.rs`, `index_keys.rs` | [`insert`], [`update`], [`delete`] and the keys of a document |

mod collection;
mod cursor;
mod entry;
mod error;
mod index;
mod keystring;
mod latch;
mod namespace;
mod record;
mod store;
mod validate;
mod write;

pub use collection::{Collection, Held};
pub use cursor::{IndexCursor, RecordCursor};
pub use error::{Error, IndexProblem, Result};
pub use index::{Direction, Index, KeyField};
pub use namespace::{DATABASE_BYTES_MAX, NAMESPACE_BYTES_MAX, Namespace, check_database_name};
pub use record::{count, data_size, id_key, record};
pub use store::{Created, IndexSelection, IndexesCreated, Store, StoreOptions};
pub use validate::{IndexReport, Report};
pub use write::{delete, insert, update};
