//! `listCommands`: the registry.

use arbor_bson::DocBuf;

use crate::call::Call;
use crate::{Result, registry};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let mut commands = DocBuf::new();
    for row in registry::rows() {
        let entry = DocBuf::new()
            .with("help", row.help)
            .with("requiresAuth", false)
            .with("secondaryOk", true)
            .with("adminOnly", row.admin_only);
        let versions: arbor_bson::ArrayBuf = row.is_in_stable_api().then_some("1").into_iter().collect();
        commands.append(row.name, &entry.with("apiVersions", &versions));
    }
    call.reply.append("commands", &commands);
    Ok(())
}
