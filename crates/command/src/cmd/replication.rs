//! `replSetGetStatus`, `replSetGetConfig`, `replSetInitiate`: a standalone says that it is no member of a set, with the code
//! that shells and monitors know it by.

use arbor_lang::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn not_running(_call: &mut Call<'_>) -> Result<()> {
    Err(Error::new(Code::NO_REPLICATION_ENABLED, "not running with --replSet"))
}

pub fn initiate(_call: &mut Call<'_>) -> Result<()> {
    Err(Error::new(Code::NO_REPLICATION_ENABLED, "This node was not started with replication enabled."))
}
