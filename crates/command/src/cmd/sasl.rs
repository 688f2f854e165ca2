//! Authentication: not in this build yet, and said so.

use arbor_lang::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let text = format!("{}: this server has no access control yet; connect without credentials", call.row.name);
    Err(Error::new(Code::AUTHENTICATION_FAILED, text))
}

pub fn logout(_call: &mut Call<'_>) -> Result<()> {
    Ok(())
}
