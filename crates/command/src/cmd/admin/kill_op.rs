//! `killOp`. An operation that is not there (any more) is no error, as in MongoDB.

use arbor_auth::{Action, Target};
use arbor_bson::Code;
use arbor_lang::number;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["op"])?;
    let missing = || Error::new(Code::NO_SUCH_KEY, "Did not provide \"op\" field");
    let value = call.body.get("op").ok_or_else(missing)?;
    let id = call.field("op").integer(value)?;
    let beyond = || Error::new(Code(26823), format!("invalid op : {id}. Op ID cannot be represented with 32 bits"));
    if i32::try_from(id).is_err() {
        return Err(beyond());
    }
    if number::exact_i64(value).is_none() {
        return Err(Error::bad_value(
            "Expected field \"op\" to have a value exactly representable as a 64-bit integer",
        ));
    }
    // a router asks on behalf of a user only where that may not end the operations of others
    let id = id.max(0) as u64;
    let any = call.connection.on_behalf.is_none();
    match any && call.server.permits(call.connection, Target::Cluster, Action::KillOp) {
        true => drop(call.server.operations.kill(id)),
        false if call.server.operations.kill_of(id, call.server.session_user(call.connection)) => {}
        false => return Err(Error::new(Code::UNAUTHORIZED, "Unauthorized")),
    }
    call.database().feed.wake_all();
    call.reply.append("info", "attempting to kill op");
    Ok(())
}
