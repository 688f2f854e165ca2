//! `hostInfo`.

use crate::call::Call;
use crate::{Result, process};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    process::host_info(&mut call.reply);
    Ok(())
}
