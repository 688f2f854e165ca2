//! `replSetReconfig`: replaces the configuration.

use arbor_bson::DocBuf;
use arbor_repl::{Role, not_primary, not_yet_initialized};

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut force = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "force" => force = field.bool(value)?,
            _ => call.unknown(field)?,
        }
    }
    let replication = call.replication()?;
    let config = call.field("replSetReconfig").document(call.target())?;
    match replication.state().role {
        Role::Startup => return Err(not_yet_initialized().into()),
        Role::Secondary | Role::Startup2 | Role::Removed if !force => return Err(not_primary().into()),
        _ => {}
    }
    let config = replication.next_config(config, force)?;
    if config.members.len() > 1 || call.server.several.handle().is_some() {
        call.server.reconfigure_several(replication, &config, force)?;
        call.server.note(&DocBuf::new().with("msg", "Reconfig set").with("version", config.version as i32));
        return Ok(());
    }
    replication.reconfigure(config)?;
    let version = replication.state().config.map_or(0, |config| config.version);
    let says = DocBuf::new().with("msg", "Reconfig set").with("version", version as i32);
    call.server.configuration_changed(replication, &says);
    Ok(())
}
