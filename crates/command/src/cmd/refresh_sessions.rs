//! `refreshSessions`.

use super::end_sessions::session_ids;
use crate::Result;
use crate::call::Call;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    for session in session_ids(call)? {
        call.server.sessions.touch(session)?;
    }
    Ok(())
}
