//! `startSession`.

use crate::Result;
use crate::call::Call;
use crate::session::{SessionId, TIMEOUT};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let session = SessionId { id: uuid::Uuid::new_v4(), user: call.server.session_user(call.connection) };
    call.server.sessions.touch(session)?;
    let id = arbor_bson::ValueRef::Binary { subtype: 4, bytes: session.id.as_bytes() };
    let lsid = arbor_bson::DocBuf::new().with("id", id);
    call.reply.append("id", &lsid).append("timeoutMinutes", (TIMEOUT.as_secs() / 60) as i32);
    Ok(())
}
