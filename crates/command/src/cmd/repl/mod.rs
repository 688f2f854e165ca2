//! The replica set and its oplog.

pub(crate) mod append_oplog_note;
pub(crate) mod apply_ops;
pub(crate) mod arbor_member;
pub(crate) mod arbor_tree;
pub(crate) mod repl_expire_oplog;
pub(crate) mod repl_set_freeze;
pub(crate) mod repl_set_get_config;
pub(crate) mod repl_set_get_status;
pub(crate) mod repl_set_heartbeat;
pub(crate) mod repl_set_initiate;
pub(crate) mod repl_set_others;
pub(crate) mod repl_set_reconfig;
pub(crate) mod repl_set_resize_oplog;
pub(crate) mod repl_set_step_down;
pub(crate) mod set_default_rw_concern;
