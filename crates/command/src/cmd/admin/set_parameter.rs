//! `setParameter`.

use arbor_bson::{Code, ValueRef};

use crate::call::Call;
use crate::log_components;
use crate::storage_parameters::{self, StorageParameters};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let server = call.server;
    let mut count = 0;
    for (name, value) in call.own_fields() {
        if name == log_components::NAME {
            let level = server.parameters.int("logLevel").unwrap_or(0) as i32;
            if count == 0 {
                call.reply.append("was", &server.log_components.shown(level));
            }
            if let Some(level) = server.log_components.set(call.field(name).document(value)?)? {
                server.parameters.set("logLevel", ValueRef::Int32(level.clamp(0, 5)))?;
            }
            count += 1;
            continue;
        }
        let before = match storage_parameters::is_one(name) {
            true => StorageParameters(&server.database.transactions).set(name, value)?,
            false => Some(server.parameters.set(name, value)?),
        };
        if let (0, Some(before)) = (count, before) {
            call.reply.append("was", &before);
        }
        count += 1;
    }
    if count == 0 {
        return Err(Error::new(Code::INVALID_OPTIONS, "no option found to set, use help:true to see options"));
    }
    server.apply_parameters();
    Ok(())
}
