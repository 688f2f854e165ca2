//! `replSetReconfig`: another configuration in the place of the one that stands.

use arbor_bson::DocBuf;

use crate::Result;
use crate::call::Call;
use crate::replication::{Role, not_primary, not_yet_initialized};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let mut force = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "force" => force = field.bool(value)?,
            _ => return Err(field.unknown()),
        }
    }
    let replication = call.replication()?;
    let config = call.field("replSetReconfig").document(call.target())?;
    match replication.standing().role {
        Role::Startup => return Err(not_yet_initialized()),
        Role::Secondary | Role::Removed if !force => return Err(not_primary()),
        _ => {}
    }
    replication.reconfigure(config, force)?;
    let version = replication.standing().config.map_or(0, |config| config.version);
    let says = DocBuf::new().with("msg", "Reconfig set").with("version", version as i32);
    call.server.configuration_changed(replication, &says);
    Ok(())
}
