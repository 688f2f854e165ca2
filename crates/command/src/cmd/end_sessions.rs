//! `endSessions`: closes what the sessions left open.

use arbor_bson::ValueRef;

use crate::call::Call;
use crate::sessions::SessionId;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    for session in session_ids(call)? {
        call.server.sessions.end(&session);
        call.database().cursors.kill_session(&session);
        if call.connection.session_told.is_some_and(|(told, _)| told == session) {
            call.connection.session_told = None;
        }
    }
    Ok(())
}

/// The array of `{ id: UUID }` behind the command's name.
pub fn session_ids(call: &Call<'_>) -> Result<Vec<SessionId>> {
    let field = call.field(call.row.name);
    let sessions = field.documents(call.target())?;
    let id = |doc: arbor_bson::Doc<'_>| match doc.get("id") {
        Some(ValueRef::Binary { subtype: 4, bytes }) => bytes.try_into().ok(),
        _ => None,
    };
    sessions
        .into_iter()
        .map(|doc| id(doc).ok_or_else(|| Error::type_mismatch("a session id is { id: <UUID> }")))
        .collect()
}
