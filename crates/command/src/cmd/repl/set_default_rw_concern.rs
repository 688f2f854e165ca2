//! `setDefaultRWConcern` and `getDefaultRWConcern`: the set's own read and write concern.

use arbor_bson::{Code, ValueRef};
use arbor_protocol::arguments::is_present;
use arbor_protocol::log::now_ms;
use arbor_repl::Replication;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn get(call: &mut Call<'_>) -> Result<()> {
    call.only(&["inMemory"])?;
    let replication = member(call)?;
    let defaults = replication.defaults();
    let in_memory = match call.body.get("inMemory").filter(|value| is_present(*value)) {
        Some(value) => call.field("inMemory").strict_bool(value)?,
        None => false,
    };
    append(call, &defaults.to_reply());
    if in_memory {
        call.reply.append("inMemory", true);
    }
    Ok(())
}

pub(crate) fn set(call: &mut Call<'_>) -> Result<()> {
    let (mut read, mut write) = (None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "defaultReadConcern" => read = Some(field.document(value)?),
            "defaultWriteConcern" => write = Some(field.document(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let replication = member(call)?;
    let mut defaults = replication.defaults().changed(read, write)?;
    if let Some(refused) = replication.resolve(defaults.write()).refused {
        let (code, text) = defaults.write().refusal(refused);
        return Err(Error::new(code, text));
    }
    defaults.updated = Some((call.database().transactions.time(), now_ms()));
    call.server.set_defaults(replication, defaults)?;
    append(call, &replication.defaults().to_reply());
    Ok(())
}

fn append(call: &mut Call<'_>, defaults: &arbor_bson::DocBuf) {
    for (name, value) in defaults.as_doc() {
        call.reply.append(name, value);
    }
    call.reply.append("localUpdateWallClockTime", ValueRef::DateTime(now_ms()));
}

fn member<'c>(call: &Call<'c>) -> Result<&'c Replication> {
    let command = call.info.name;
    let text = || format!("'{command}' is not supported on standalone nodes.");
    call.server.replication.as_deref().ok_or_else(|| Error::new(Code::ILLEGAL_OPERATION, text()))
}
