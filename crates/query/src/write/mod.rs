//! Statements that write.
//!
//! | file | holds |
//! |---|---|
//! | `insert.rs`, `update.rs`, `delete.rs`, `find_and_modify.rs` | the statements |
//! | `expire.rs` | deleting what has expired |
//! | `statements.rs` | running the statements of one command in shared transactions |
//! | `validated.rs` | writing what the validator of the collection lets in |
//! | `target.rs` | the documents that a statement is about |
//! | `modifier.rs`, `new_document.rs`, `object_id.rs` | documents after an update, before an insert |

mod delete;
mod expire;
mod find_and_modify;
mod insert;
mod modifier;
mod new_document;
mod object_id;
pub(crate) mod statements;
mod target;
mod unread;
mod update;
mod validated;

pub use delete::delete;
pub use expire::{expire, expire_clustered};
pub use find_and_modify::find_and_modify;
pub use insert::insert;
pub(crate) use modifier::{Modification, Modifier, update_kind};
pub(crate) use new_document::prepare;
pub(crate) use object_id::new_object_id;
pub use unread::UnreadUpdates;

pub(crate) use statements::{Answer, is_full, settle, with_collation};
pub(crate) use target::{Targets, find_one};
pub use update::{check_update, update};
pub(crate) use validated::Validated;
