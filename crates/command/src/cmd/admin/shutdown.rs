//! `shutdown`: the same clean stop as SIGTERM.

use arbor_protocol::log::events;

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "force" => drop(field.bool(value)?),
            "timeoutSecs" => drop(field.unsigned(value)?),
            _ => call.unknown(field)?,
        }
    }
    call.server.log.info(events::SHUTDOWN_ASKED, &call.connection.name, arbor_bson::DocBuf::new());
    call.server.interrupt_all();
    call.server.host.shut_down();
    Ok(())
}
