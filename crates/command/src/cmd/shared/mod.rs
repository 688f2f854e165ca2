//! Helpers used by several commands.

pub(crate) mod capped;
pub(crate) mod clustered;
pub(crate) mod coll_mod_index;
pub(crate) mod collection_uuid;
pub(crate) mod cursor_reply;
pub(crate) mod encrypted_fields;
pub(crate) mod hint;
pub(crate) mod id_index;
pub(crate) mod images;
pub(crate) mod numbers;
pub(crate) mod oplog;
pub(crate) mod time_series;
pub(crate) mod validation;
pub(crate) mod write_reply;
