//! MySQL and MariaDB, for founding text 001 (SELECT against HANDLER) and sysbench.
//!
//! The client is the crate `mysql`, not `mysql_async`: a client thread of the laboratory is one blocking connection, as
//! of sysbench's C client, and a runtime between thread and socket would measure itself (spec/workloads.md 4.3). It is
//! in builds with the feature `mysql` only.

#[cfg(feature = "mysql")]
mod client;
mod mariadb;
#[cfg(feature = "mysql")]
mod session;

#[cfg(feature = "mysql")]
pub use client::MySql;
pub use mariadb::{MariaDb, MySqlBuild};

use super::Target;
use crate::Result;

/// Returns true if a target's URI is one for this client.
pub fn is_uri(uri: &str) -> bool {
    uri.starts_with("mysql://") || uri.starts_with("mysql+handler://")
}

/// `mysql://user:password@host:port`, or `mysql+handler://...` for point queries by HANDLER.
#[cfg(feature = "mysql")]
pub fn parse(name: Option<&str>, uri: &str) -> Result<Box<dyn Target>> {
    Ok(Box::new(MySql::parse(name, uri)?))
}

#[cfg(not(feature = "mysql"))]
pub fn parse(_name: Option<&str>, _uri: &str) -> Result<Box<dyn Target>> {
    Err(absent())
}

#[cfg(not(feature = "mysql"))]
fn absent() -> crate::Error {
    crate::Error::Usage("this build has no MySQL client; build with --features mysql".to_owned())
}
