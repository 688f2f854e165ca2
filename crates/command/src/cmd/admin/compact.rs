//! `compact`: gives space of a collection and its indexes back to the file system.

use arbor_bson::Code;

use crate::call::Call;
use crate::cmd::shared::numbers::fitting;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let (mut dry_run, mut target_mb) = (false, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "dryRun" => dry_run = field.bool(value)?,
            "freeSpaceTargetMB" => target_mb = Some(at_least_one(field.integer(value)?)?),
            // It is for primaries of replica sets.
            "force" => drop(field.bool(value)?),
            _ => call.unknown(field)?,
        }
    }
    let store = &call.database().store;
    if store.collection(&namespace).is_none() {
        if store.view(&namespace).is_some() {
            return Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view"));
        }
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, "collection does not exist"));
    }
    // COMPAT: MongoDB passes over a collection from which less than 20 MB can be gained when nothing else is said.
    let enough = match target_mb {
        Some(target) => store.compactable_bytes(&namespace)? >> 20 >= target,
        None => true,
    };
    if dry_run {
        let bytes = if enough { store.compactable_bytes(&namespace)? } else { 0 };
        call.reply.append("estimatedBytesFreed", fitting(bytes));
        return Ok(());
    }
    let interrupt = &call.interrupt;
    let freed = if enough { store.compact(&namespace, &|| interrupt.check().is_err())? } else { 0 };
    call.interrupt.check()?;
    call.reply.append("bytesFreed", fitting(freed));
    Ok(())
}

fn at_least_one(number: i64) -> Result<u64> {
    match u64::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => {
            let text = format!("BSON field 'compact.freeSpaceTargetMB' value must be >= 1, actual value '{number}'");
            Err(Error::bad_value(text))
        }
    }
}
