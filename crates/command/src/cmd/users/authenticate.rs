//! `authenticate`: a login by the certificate of the connection.

use crate::Result;
use crate::access::{X509, unavailable};
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mechanism = match call.optional("mechanism") {
        Some(value) => call.field("mechanism").string(value)?,
        None => "MONGODB-CR",
    };
    if mechanism != X509 {
        return Err(unavailable(mechanism));
    }
    let user = call.optional("user").map(|value| call.field("user").string(value)).transpose()?;
    call.connection.login.speculative = false;
    call.reply = call.server.log_in_by_certificate(call.connection, call.db, user)?;
    Ok(())
}
