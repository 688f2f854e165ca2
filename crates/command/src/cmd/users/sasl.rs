//! `saslStart`, `saslContinue` and `logout`.

use arbor_bson::Code;

use crate::access::{Started, read_payload};
use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn start(call: &mut Call<'_>) -> Result<()> {
    let started = Started::read(call.db, call.own_fields())?;
    call.connection.login.speculative = false;
    call.reply = call.server.begin_login(call.connection, &started)?;
    Ok(())
}

pub(crate) fn proceed(call: &mut Call<'_>) -> Result<()> {
    call.only(&["conversationId", "payload"])?;
    let id = call.field("conversationId").integer(call.required("conversationId")?)?;
    let payload = read_payload(call.field("payload"), call.required("payload")?)?;
    let wrong = || Error::new(Code::PROTOCOL_ERROR, "sasl: Mismatched conversation id");
    let id = i32::try_from(id).map_err(|_| wrong())?;
    call.reply = call.server.continue_login(call.connection, id, payload)?;
    Ok(())
}

pub(crate) fn logout(call: &mut Call<'_>) -> Result<()> {
    call.server.log_out(call.connection);
    Ok(())
}
