//! `listCommands`: the registry.

use arbor_bson::DocBuf;

use crate::call::Call;
use crate::{Result, registry};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let mut commands = DocBuf::new();
    for info in registry::commands() {
        let entry = DocBuf::new()
            .with("help", info.help)
            .with("requiresAuth", false)
            .with("secondaryOk", true)
            .with("adminOnly", info.admin_only);
        let versions: arbor_bson::ArrayBuf = info.is_in_stable_api().then_some("1").into_iter().collect();
        commands.append(info.name, &entry.with("apiVersions", &versions));
    }
    call.reply.append("commands", &commands);
    Ok(())
}
