//! Commands that report on the server, its data and its clients.

pub(crate) mod build_info;
pub(crate) mod coll_stats;
pub(crate) mod connection_status;
pub(crate) mod current_op;
pub(crate) mod data_size;
pub(crate) mod db_hash;
pub(crate) mod db_stats;
pub(crate) mod engine_status;
pub(crate) mod file_md5;
pub(crate) mod get_cmd_line_opts;
pub(crate) mod get_free_monitoring_status;
pub(crate) mod get_log;
pub(crate) mod hello;
pub(crate) mod host_info;
pub(crate) mod list_commands;
pub(crate) mod ping;
pub(crate) mod server_status;
pub(crate) mod small;
pub(crate) mod top;
pub(crate) mod validate;
pub(crate) mod validate_db_metadata;
pub(crate) mod whatsmyuri;
