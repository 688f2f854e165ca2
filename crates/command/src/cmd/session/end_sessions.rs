//! `endSessions`: closes what the sessions left open.

use arbor_protocol::request;

use crate::Result;
use crate::call::Call;
use crate::session::{self, SessionId};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    for session in session_ids(call)? {
        call.server.sessions.end(session);
        call.database().cursors.kill_session(&session::bytes(session));
        if call.connection.session_touched.is_some_and(|(touched, _)| touched == session) {
            call.connection.session_touched = None;
        }
    }
    Ok(())
}

/// The array of `{ id: UUID }` behind the command's name.
pub fn session_ids(call: &Call<'_>) -> Result<Vec<SessionId>> {
    let sessions = call.field(call.info.name).documents(call.target())?;
    Ok(sessions.into_iter().map(request::lsid).collect::<arbor_protocol::Result<_>>()?)
}
