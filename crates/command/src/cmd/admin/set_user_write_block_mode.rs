//! `setUserWriteBlockMode`: writes of users fail, as a tool wants that moves the data elsewhere. Ends with the process.

use crate::Result;
use crate::call::Call;

const REASONS: &[&str] = &["Unspecified", "ClusterToClusterMigrationInProgress", "DiskUseThresholdExceeded"];

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut global, mut reason) = (None, "Unspecified");
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "global" => global = Some(field.strict_bool(value)?),
            "reason" => reason = field.one_of(value, REASONS)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let global = global.ok_or_else(|| call.field("global").missing())?;
    call.server.write_block.block_users(global, reason)
}
