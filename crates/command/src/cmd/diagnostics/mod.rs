//! Commands that report on the server, its data and its clients.

pub mod build_info;
pub mod coll_stats;
pub mod connection_status;
pub mod current_op;
pub mod data_size;
pub mod db_hash;
pub mod db_stats;
pub mod get_cmd_line_opts;
pub mod get_free_monitoring_status;
pub mod get_log;
pub mod hello;
pub mod host_info;
pub mod list_commands;
pub mod ping;
pub mod server_status;
pub mod top;
pub mod validate;
pub mod whatsmyuri;
