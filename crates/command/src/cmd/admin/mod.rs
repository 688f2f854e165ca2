//! Settings of the running server, users, and work that an administrator asks for.

pub(crate) mod arbor_backup;
pub(crate) mod auto_compact;
pub(crate) mod cluster_parameter;
pub(crate) mod compact;
pub(crate) mod configure_fail_point;
pub(crate) mod encrypted_data;
pub(crate) mod fsync;
pub(crate) mod get_parameter;
pub(crate) mod index_filters;
pub(crate) mod kill_op;
pub(crate) mod kill_operations;
pub(crate) mod log_rotate;
pub(crate) mod profile;
pub(crate) mod query_settings;
pub(crate) mod rotate_certificates;
pub(crate) mod set_feature_compatibility_version;
pub(crate) mod set_parameter;
pub(crate) mod set_user_write_block_mode;
pub(crate) mod shutdown;
