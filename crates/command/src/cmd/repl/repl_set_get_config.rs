//! `replSetGetConfig`: the configuration of the set.

use arbor_repl::not_yet_initialized;

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut wants_commitment = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "commitmentStatus" => wants_commitment = field.bool(value)?,
            _ => call.unknown(field)?,
        }
    }
    let state = call.replication()?.state();
    let config = state.config.as_ref().ok_or_else(not_yet_initialized)?;
    call.reply.append("config", &config.to_doc(state.term));
    if wants_commitment {
        // The configuration is durable on the only member before it is visible.
        call.reply.append("commitmentStatus", true);
    }
    Ok(())
}
