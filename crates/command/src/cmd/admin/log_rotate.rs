//! `logRotate`: of the server's log, of the audit (`logRotate: "audit"`), or of both (`1`).

use arbor_bson::{Code, ValueRef};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["comment"])?;
    let (server, audit) = match call.target() {
        ValueRef::String("server") => (true, false),
        ValueRef::String("audit") => (false, true),
        ValueRef::String(other) => {
            return Err(Error::new(
                Code::NO_SUCH_KEY,
                format!("Unknown log type '{other}'. Valid types: 'server', 'audit'"),
            ));
        }
        _ => (true, true),
    };
    let failed = |error| Error::new(Code::OPERATION_FAILED, format!("cannot rotate: {error}"));
    if server {
        call.server.log.rotate().map_err(failed)?;
    }
    match &call.server.audit {
        Some(log) if audit => log.rotate().map_err(failed),
        None if audit && !server => Err(Error::bad_value("there is no audit to rotate (auditLog.destination)")),
        _ => Ok(()),
    }
}
