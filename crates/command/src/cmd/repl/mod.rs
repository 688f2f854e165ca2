//! The replica set and its oplog.

pub mod append_oplog_note;
pub mod apply_ops;
pub mod repl_set_freeze;
pub mod repl_set_get_config;
pub mod repl_set_get_status;
pub mod repl_set_initiate;
pub mod repl_set_others;
pub mod repl_set_reconfig;
pub mod repl_set_resize_oplog;
pub mod repl_set_step_down;
pub mod set_default_rw_concern;
