//! Helpers used by several commands.

pub mod capped;
pub mod clustered;
pub mod coll_mod_index;
pub mod cursor_reply;
pub mod hint;
pub mod images;
pub mod oplog;
pub mod time_series;
pub mod validation;
pub mod write_reply;
