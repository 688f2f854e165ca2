//! `logRotate`.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    call.server.log.rotate().map_err(|error| Error::new(Code::OPERATION_FAILED, format!("cannot rotate: {error}")))
}
