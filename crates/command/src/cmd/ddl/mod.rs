//! Databases, collections, views and indexes: made, changed, dropped, listed.

pub(crate) mod clone_collection_as_capped;
pub(crate) mod coll_mod;
pub(crate) mod convert_to_capped;
pub(crate) mod create;
pub(crate) mod create_indexes;
pub(crate) mod drop;
pub(crate) mod drop_database;
pub(crate) mod drop_indexes;
pub(crate) mod list_collections;
pub(crate) mod list_databases;
pub(crate) mod list_indexes;
pub(crate) mod partitions;
pub(crate) mod re_index;
pub(crate) mod rename_collection;
pub(crate) mod search_indexes;
pub(crate) mod set_index_commit_quorum;
