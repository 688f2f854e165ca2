//! `refreshSessions`.

use crate::Result;
use crate::call::Call;
use crate::cmd::session::end_sessions::session_ids;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    for session in session_ids(call)? {
        call.server.sessions.touch(session)?;
    }
    Ok(())
}
