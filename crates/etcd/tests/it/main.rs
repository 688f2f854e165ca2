//! Tests against a real etcd (`scripts/setup etcd`). Without one they say NOTE and pass.

mod a_managed_etcd;
mod bad_endpoints;
mod process;
mod the_contract;
