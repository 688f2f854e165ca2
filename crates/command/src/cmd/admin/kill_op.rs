//! `killOp`. An operation that is not there (any more) is no error, as in MongoDB.

use crate::Result;
use crate::call::Call;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["op"])?;
    let value = call.body.get("op").ok_or_else(|| call.field("op").missing())?;
    let id = call.field("op").integer(value)?;
    call.server.operations.kill(id.max(0) as u64);
    call.database().feed.wake_all();
    call.reply.append("info", "attempting to kill op");
    Ok(())
}
