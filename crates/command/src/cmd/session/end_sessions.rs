//! `endSessions`: closes what the sessions left open.

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_protocol::arguments::is_present;
use arbor_protocol::request;

use crate::Result;
use crate::call::Call;
use crate::cmd::session::kill_sessions::on_shards;
use crate::session::{self, SessionId};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let sessions = session_ids(call)?;
    for session in sessions.iter().copied() {
        call.server.sessions.end(session);
        call.database().cursors.kill_session(&session::bytes(session));
        if call.connection.session_touched.is_some_and(|(touched, _)| touched == session) {
            call.connection.session_touched = None;
        }
    }
    let named: Vec<DocBuf> = sessions.iter().map(|session| session.to_doc()).collect();
    // a shard that cannot be reached ends them by itself, in time
    let _ = on_shards(call, "endSessions", &named.iter().collect());
    Ok(())
}

/// The array of `{ id: UUID }` behind the command's name.
pub(crate) fn session_ids(call: &Call<'_>) -> Result<Vec<SessionId>> {
    let given: ArrayBuf =
        call.field(call.info.name).array(call.target())?.iter().filter(|value| is_present(*value)).collect();
    let sessions = call.field(call.info.name).documents((&given).into())?;
    sessions.into_iter().map(|doc| call.server.session_of(call.connection, request::lsid(doc)?)).collect()
}
