//! `replSetGetStatus`: the set and its members as this one sees them.

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["initialSync", "heartbeatInformation"])?;
    let replication = call.replication()?;
    call.server.set_status(replication, &mut call.reply)
}
