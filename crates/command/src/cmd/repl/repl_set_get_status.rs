//! `replSetGetStatus`: the set and its members as this one sees them.

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["initialSync", "heartbeatInformation"])?;
    let replication = call.replication()?;
    let with_last_sync = match call.optional("initialSync") {
        Some(value) => call.field("initialSync").bool(value)?,
        None => false,
    };
    call.server.set_status(replication, &mut call.reply)?;
    if with_last_sync
        && call.reply.get("initialSyncStatus").is_none()
        && let Some(sync) = call.server.last_sync()
    {
        call.reply.append("initialSyncStatus", &sync);
    }
    Ok(())
}
