//! `fsync`: everything acknowledged so far is in the log's files and in a checkpoint of the engine. With `lock` writes wait until
//! `fsyncUnlock`.

use arbor_bson::{Code, ValueRef};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut lock = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "lock" => lock = field.bool(value)?,
            // the lock is there at once
            "fsyncLockAcquisitionTimeoutMillis" => match value {
                ValueRef::Int32(_) => {}
                other => return Err(field.wrong_type(other, "int").into()),
            },
            "async" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    let transactions = &call.database().transactions;
    let locked = lock.then(|| call.server.write_block.lock());
    let log = transactions.log();
    let flushed = log
        .wait_durable(log.appended())
        .map_err(|error| Error::new(Code::INTERNAL_ERROR, error.to_string()))
        .and_then(|()| Ok(transactions.checkpoint_now()?));
    if flushed.is_err() && lock {
        call.server.write_block.unlock();
    }
    flushed?;
    match locked {
        Some(count) => {
            call.reply.append("info", "now locked against writes, use db.fsyncUnlock() to unlock");
            call.reply.append("lockCount", count as i64);
            call.reply.append("seeAlso", "http://dochub.mongodb.org/core/fsynccommand");
        }
        None => _ = call.reply.append("numFiles", 1i32),
    }
    Ok(())
}

pub(crate) fn unlock(call: &mut Call<'_>) -> Result<()> {
    let Some(left) = call.server.write_block.unlock() else {
        return Err(Error::new(Code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked"));
    };
    call.reply.append("info", "fsyncUnlock completed").append("lockCount", left as i64);
    Ok(())
}

/// `lockInfo`: the locks that statements can wait for. There is one, that of `fsync`.
pub(crate) fn lock_info(call: &mut Call<'_>) -> Result<()> {
    call.only(&["includeStorageEngineLockInfo"])?;
    let mut locks = arbor_bson::ArrayBuf::new();
    if call.server.write_block.is_locked() {
        let granted = arbor_bson::DocBuf::new()
            .with("mode", "S")
            .with("convertMode", "NONE")
            .with("enqueueAtFront", false)
            .with("compatibleFirst", false)
            .with("debugInfo", "fsyncLock");
        let granted: arbor_bson::ArrayBuf = [ValueRef::from(&granted)].into_iter().collect();
        let lock = arbor_bson::DocBuf::new().with("resourceId", "{2305843009213693953: Global, 1}");
        locks.push(&lock.with("granted", &granted).with("pending", &arbor_bson::ArrayBuf::new()));
    }
    call.reply.append("lockInfo", &locks);
    Ok(())
}
