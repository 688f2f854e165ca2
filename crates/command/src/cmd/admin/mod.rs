//! Settings of the running server, users, and work that an administrator asks for.

pub mod cluster_parameter;
pub mod compact;
pub mod configure_fail_point;
pub mod fsync;
pub mod get_parameter;
pub mod kill_op;
pub mod log_rotate;
pub mod plan_cache_clear;
pub mod profile;
pub mod roles_info;
pub mod sasl;
pub mod set_feature_compatibility_version;
pub mod set_parameter;
pub mod shutdown;
pub mod users_info;
