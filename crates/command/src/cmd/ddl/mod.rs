//! Databases, collections, views and indexes: made, changed, dropped, listed.

pub mod coll_mod;
pub mod convert_to_capped;
pub mod create;
pub mod create_indexes;
pub mod drop;
pub mod drop_database;
pub mod drop_indexes;
pub mod list_collections;
pub mod list_databases;
pub mod list_indexes;
pub mod re_index;
pub mod rename_collection;
