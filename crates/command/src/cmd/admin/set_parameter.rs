//! `setParameter`.

use arbor_bson::Code;

use crate::call::Call;
use crate::storage_parameters::{self, StorageParameters};
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let server = call.server;
    let mut count = 0;
    for (name, value) in call.own_fields() {
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
    server.log.set_quiet(server.parameters.bool("quiet"));
    server.log.set_verbosity(server.parameters.int("logLevel").unwrap_or(0).clamp(0, 5) as u8);
    Ok(())
}
