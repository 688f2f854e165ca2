//! `beginTransaction` of TokuMX: everything that the connection sends from now on is one transaction, until
//! `commitTransaction`, `rollbackTransaction`, or the end of the connection.

use arbor_bson::Code;

use crate::call::Call;
use crate::session::InSession;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            // both are what a snapshot gives
            "isolation" => match field.string(value)? {
                "mvcc" | "serializable" | "readUncommitted" => {}
                other => return Err(Error::bad_value(format!("unknown isolation level '{other}'"))),
            },
            _ => call.unknown(field)?,
        }
    }
    if call.connection.bound.is_some() {
        let text = "no transaction can begin inside of another transaction";
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    let bound = InSession::begin_bound(call.server, call.connection, call.body, &call.interrupt)?;
    call.connection.bound = Some(bound);
    call.reply.append("status", "transaction began");
    Ok(())
}
