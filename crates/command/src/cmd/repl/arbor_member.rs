//! `_arborMember`: what the members of a set say to each other. See `arbor_member`.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_member::Ask;
use arbor_repl::not_yet_initialized;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let replication = call.replication()?;
    let set = match call.body.get("set") {
        Some(value) => call.field("set").string(value)?,
        None => return Err(call.field("set").missing().into()),
    };
    if set != replication.name() {
        let text =
            format!("replica set names do not match: this server is of '{}', not of '{set}'", replication.name());
        return Err(Error::new(Code::INCONSISTENT_REPLICA_SET_NAMES, text));
    }
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "set" => {}
            "probe" => {
                let store = call.server.several.store().map(|store| store.0).unwrap_or_default();
                call.reply = DocBuf::new()
                    .with("initiated", replication.is_initiated())
                    .with("empty", call.server.is_empty_member())
                    .with("store", ValueRef::Binary { subtype: 4, bytes: &store });
                if let Some(id) = replication.state().config.as_ref().and_then(|config| config.settings.set_id) {
                    call.reply.append("setId", ValueRef::ObjectId(id));
                }
            }
            "join" => {
                let join = field.document(value)?;
                let known = Ask::join(join).ok_or_else(|| Error::bad_value("'join' is no agreement of a set"))?;
                call.server.join(replication, known)?;
            }
            "message" => {
                let ValueRef::Binary { bytes, .. } = value else {
                    return Err(field.wrong_type(value, "binData").into());
                };
                let handle = call.server.several.handle().ok_or_else(not_yet_initialized)?;
                let Some((from, reply)) = handle.receive(bytes) else {
                    return Err(Error::bad_value("'message' is no message to this member"));
                };
                if let Some(reply) = reply {
                    call.connection.member = Some(from);
                    call.reply.append("message", ValueRef::Binary { subtype: 0, bytes: &reply });
                }
            }
            _ => call.unknown(field)?,
        }
    }
    Ok(())
}
