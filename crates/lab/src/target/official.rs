//! The crate `mongodb` in place of our own client, to see what a full driver costs. In builds with the feature
//! `official-driver` only.

use super::Target;
use super::mongodb::MongoDb;
use crate::{Error, Result};

pub(super) fn wrap(_target: MongoDb) -> Result<Box<dyn Target>> {
    Err(Error::Usage("this build has no other driver; build with --features official-driver".to_owned()))
}
