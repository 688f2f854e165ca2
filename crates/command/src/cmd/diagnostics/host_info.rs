//! `hostInfo`.

use arbor_protocol::process;

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    process::host_info(&mut call.reply);
    Ok(())
}
