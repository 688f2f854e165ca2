//! `killCursors`.

use arbor_auth::{Action, Target};
use arbor_bson::{ArrayBuf, ValueRef};
use arbor_protocol::arguments::is_present;
use arbor_query::Killed;

use crate::Result;
use crate::call::Call;

/// Collection name that `wire` supplies for OP_KILL_CURSORS, which names none.
const ANY_COLLECTION: &str = "$legacy";

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["cursors"])?;
    let any = call.db == "admin" && matches!(call.target(), ValueRef::String(ANY_COLLECTION));
    if !any {
        call.namespace()?;
    }
    let cursors = call.required("cursors")?;
    let (mut killed, mut not_found) = (ArrayBuf::new(), ArrayBuf::new());
    for value in call.field("cursors").array(cursors)?.iter().filter(|value| is_present(*value)) {
        let ValueRef::Int64(id) = value else { return Err(call.field("cursors").wrong_type(value, "long").into()) };
        check_owner(call, id)?;
        match call.database().cursors.kill(id, None) {
            Killed::Killed => killed.push(id),
            Killed::NotFound => not_found.push(id),
        };
    }
    let reply = &mut call.reply;
    reply.append("cursorsKilled", &killed).append("cursorsNotFound", &not_found);
    reply.append("cursorsAlive", &ArrayBuf::new()).append("cursorsUnknown", &ArrayBuf::new());
    Ok(())
}

/// Refuses to close the cursor of another user, unless the user may close any.
fn check_owner(call: &Call<'_>, id: i64) -> Result<()> {
    if !call.server.accounts.enabled {
        return Ok(());
    }
    let owner = call.database().cursors.options(id);
    match owner.is_none_or(|owner| owner.user == call.cursor_owner().user) {
        true => Ok(()),
        false => call.server.need(call.connection, Target::Cluster, Action::KillAnyCursor),
    }
}
