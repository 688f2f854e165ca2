//! `getDefaultRWConcern`: only members of a replica set have one.

use arbor_lang::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["inMemory"])?;
    Err(Error::new(Code::ILLEGAL_OPERATION, "'getDefaultRWConcern' is not supported on standalone nodes."))
}
