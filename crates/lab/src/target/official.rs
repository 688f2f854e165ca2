//! The crate `mongodb` in place of our own client, to see what a full driver costs: one client object for all threads,
//! documents in its own types, its pool and its runtime between thread and socket. In builds with the feature
//! `official-driver` only; it executes sysbench's statements and YCSB's. What is not measured (making, loading, counting)
//! is done by our own client.

#[cfg(feature = "official-driver")]
mod driver;
#[cfg(feature = "official-driver")]
mod sysbench;
#[cfg(feature = "official-driver")]
mod ycsb;

use super::Target;
use super::mongodb::MongoDb;
use crate::Result;

#[cfg(feature = "official-driver")]
pub(super) fn wrap(target: MongoDb) -> Result<Box<dyn Target>> {
    Ok(Box::new(driver::Official::new(target)?))
}

#[cfg(not(feature = "official-driver"))]
pub(super) fn wrap(_target: MongoDb) -> Result<Box<dyn Target>> {
    let missing = "this build has no other driver; build with --features official-driver";
    Err(crate::Error::Usage(missing.to_owned()))
}
