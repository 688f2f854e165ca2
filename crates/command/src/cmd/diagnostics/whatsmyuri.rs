//! `whatsmyuri`: the address that the client comes from.

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    call.reply.append("you", &call.connection.peer.client());
    Ok(())
}
