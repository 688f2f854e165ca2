//! `fsync`: everything acknowledged so far is in the log's files and in a checkpoint of the engine.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "lock" if field.bool(value)? => return Err(Error::not_supported("fsync with lock")),
            "lock" | "async" | "fsyncLockAcquisitionTimeoutMillis" => {}
            _ => call.unknown(field)?,
        }
    }
    let transactions = &call.database().transactions;
    let log = transactions.log();
    log.wait_durable(log.appended()).map_err(|error| Error::new(Code::INTERNAL_ERROR, error.to_string()))?;
    transactions.checkpoint_now()?;
    call.reply.append("numFiles", 1i32);
    Ok(())
}

pub fn unlock(_call: &mut Call<'_>) -> Result<()> {
    Err(Error::new(Code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked"))
}
