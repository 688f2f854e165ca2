//! Reading and writing documents.

pub mod aggregate;
pub mod bulk_write;
pub mod count;
pub mod delete;
pub mod distinct;
pub mod explain;
pub mod find;
pub mod find_and_modify;
pub mod get_last_error;
pub mod get_more;
pub mod insert;
pub mod kill_cursors;
pub mod update;
