//! `top`: use per collection.

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    call.reply.append("totals", &call.server.usages.totals());
    Ok(())
}
