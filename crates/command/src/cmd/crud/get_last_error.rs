//! `getLastError`, which the clients of the founding texts send behind OP_INSERT, OP_UPDATE and OP_DELETE: what the last
//! write of this connection that had no answer did.

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::write_concern::WriteConcernSpec;
use arbor_repl::election_id;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut journaled, mut asked) = (false, DocBuf::new());
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "j" | "fsync" => journaled |= field.bool(value)?,
            "w" => drop(asked.append(name, value)),
            "wtimeout" => {}
            _ => call.unknown(field)?,
        }
    }
    let refused = resolve(call, asked.as_doc(), &mut journaled)?;
    if journaled {
        let log = call.database().transactions.log();
        log.wait_durable(log.appended()).map_err(|error| Error::new(Code::INTERNAL_ERROR, error.to_string()))?;
    }
    let last = call.connection.last_write.clone().unwrap_or_default();
    call.reply.append("connectionId", call.connection.peer.connection as i32);
    append_outcome(call, last.inserts, last.reply.as_doc());
    if let Some((code, text)) = refused {
        call.reply = call.reply.as_doc().iter().filter(|(name, _)| *name != "err").collect();
        call.reply.append("err", text.as_str()).append("code", code.0);
    }
    if let Some(replication) = call.server.replication.as_ref().filter(|member| member.is_primary()) {
        call.reply.append("lastOp", timestamp(call.database().transactions.time()));
        call.reply.append("electionId", ValueRef::ObjectId(election_id(replication.term())));
    }
    Ok(())
}

/// Resolves the requested `w`; returns why the set cannot satisfy it.
fn resolve(call: &Call<'_>, asked: Doc<'_>, journaled: &mut bool) -> Result<Option<(Code, String)>> {
    let given = WriteConcernSpec::read(asked)?;
    let Some(replication) = &call.server.replication else {
        *journaled |= given.on_standalone()?.journaled;
        return Ok(None);
    };
    let concern = replication.resolve(given);
    *journaled |= concern.journaled;
    Ok(concern.refused.map(|refused| given.refusal(refused)))
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
