//! `getLastError`, which the clients of the founding texts send behind OP_INSERT, OP_UPDATE and OP_DELETE: what the last
//! write of this connection that had no answer did.

use arbor_bson::{Doc, ValueRef};
use arbor_lang::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let mut journaled = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "j" | "fsync" => journaled |= field.bool(value)?,
            "w" if matches!(value, ValueRef::String("majority")) => {}
            "w" if matches!(field.integer(value)?, 0 | 1) => {}
            "w" => return Err(Error::bad_value("cannot use 'w' > 1 when a host is not replicated")),
            "wtimeout" => {}
            _ => return Err(field.unknown()),
        }
    }
    if journaled {
        let log = call.database().transactions.log();
        log.wait_durable(log.appended()).map_err(|error| Error::new(Code::INTERNAL_ERROR, error.to_string()))?;
    }
    let last = call.connection.last_write.clone().unwrap_or_default();
    call.reply.append("connectionId", call.connection.peer.connection as i32);
    append_outcome(call, last.inserts, last.reply.as_doc());
    Ok(())
}

/// The reply of a write command in the form of old.
fn append_outcome(call: &mut Call<'_>, inserts: bool, last: Doc<'_>) {
    let reply = &mut call.reply;
    let n = last.get("n").unwrap_or(ValueRef::Int32(0));
    if let Some(ValueRef::Array(upserted)) = last.get("upserted") {
        reply.append("updatedExisting", false);
        if let Some(ValueRef::Document(first)) = upserted.get(0)
            && let Some(id) = first.get("_id")
        {
            reply.append("upserted", id);
        }
    } else if last.get("nModified").is_some() {
        reply.append("updatedExisting", !matches!(n, ValueRef::Int32(0)));
    }
    // Inserts were never counted here.
    reply.append("n", if inserts { ValueRef::Int32(0) } else { n });
    let failed = match last.get("writeErrors") {
        Some(ValueRef::Array(errors)) => match errors.get(0) {
            Some(ValueRef::Document(first)) => Some(first),
            _ => None,
        },
        _ => last.get("errmsg").is_some().then_some(last),
    };
    match failed {
        None => reply.append("err", ValueRef::Null),
        Some(failed) => {
            reply.append("code", failed.get("code").unwrap_or(ValueRef::Int32(8)));
            reply.append("err", failed.get("errmsg").unwrap_or(ValueRef::String("unknown error")))
        }
    };
}
