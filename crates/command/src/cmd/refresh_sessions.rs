//! `refreshSessions`.

use arbor_lang::Code;

use super::end_sessions::session_ids;
use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    for session in session_ids(call)? {
        let too_many = |_| Error::new(Code::TOO_MANY_LOGICAL_SESSIONS, "cannot add session into the cache");
        call.server.sessions.touch(session).map_err(too_many)?;
    }
    Ok(())
}
