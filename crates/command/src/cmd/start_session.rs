//! `startSession`.

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::Code;

use crate::call::Call;
use crate::sessions::TIMEOUT;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let mut id: [u8; 16] = rand::random();
    // A version 4 UUID.
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    let too_many = |_| Error::new(Code::TOO_MANY_LOGICAL_SESSIONS, "cannot add session into the cache");
    call.server.sessions.touch(id).map_err(too_many)?;
    let lsid = DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: &id });
    call.reply.append("id", &lsid).append("timeoutMinutes", (TIMEOUT.as_secs() / 60) as i32);
    Ok(())
}
