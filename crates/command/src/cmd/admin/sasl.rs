//! Authentication: not in this build yet, and said so.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(_call: &mut Call<'_>) -> Result<()> {
    let text = "Authentication failed: this server has no access control yet; connect without credentials";
    Err(Error::new(Code::AUTHENTICATION_FAILED, text))
}

pub fn logout(_call: &mut Call<'_>) -> Result<()> {
    Ok(())
}
