//! `killSessions` and `killAllSessions`: end sessions together with what runs in them.

use super::end_sessions::session_ids;
use crate::Result;
use crate::call::Call;
use crate::sessions::SessionId;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let sessions = session_ids(call)?;
    kill(call, &sessions);
    Ok(())
}

/// Without users all sessions belong to everybody.
pub fn run_all(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let sessions: Vec<SessionId> = call.server.sessions.all().into_iter().map(|(id, _)| id).collect();
    kill(call, &sessions);
    Ok(())
}

fn kill(call: &Call<'_>, sessions: &[SessionId]) {
    let own = call.generic.session;
    for session in sessions {
        if own != Some(*session) {
            call.server.operations.kill_session(*session);
        }
        call.database().cursors.kill_session(session);
        call.server.sessions.end(session);
    }
}
