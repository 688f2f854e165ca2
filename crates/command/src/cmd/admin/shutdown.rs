//! `shutdown`: the same clean stop as SIGTERM.

use arbor_protocol::log::{Component, Event};

use crate::Result;
use crate::call::Call;

const ASKED: Event = Event { component: Component::Command, id: 4_615_003, message: "Shutdown command" };

pub fn run(call: &mut Call<'_>) -> Result<()> {
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "force" => drop(field.bool(value)?),
            "timeoutSecs" => drop(field.unsigned(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    call.server.log.info(ASKED, &call.connection.name, arbor_bson::DocBuf::new());
    call.server.interrupt_all();
    call.server.host.shut_down();
    Ok(())
}
