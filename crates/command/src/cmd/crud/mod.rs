//! Reading and writing documents.

pub(crate) mod aggregate;
pub(crate) mod backup_cursor;
pub(crate) mod bulk_write;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod distinct;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod get_last_error;
pub(crate) mod get_more;
pub(crate) mod insert;
pub(crate) mod kill_cursors;
pub(crate) mod query_stats;
pub(crate) mod update;
