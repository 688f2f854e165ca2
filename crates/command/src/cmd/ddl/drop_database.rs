//! `dropDatabase`.

use arbor_bson::{Code, ValueRef};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    if !matches!(call.field("dropDatabase").integer(call.target()), Ok(1))
        && !matches!(call.target(), ValueRef::Bool(true))
    {
        return Err(Error::new(Code(5255100), "Have to pass 1 as 'dropDatabase' parameter"));
    }
    if matches!(call.db, "admin" | "config" | "local") {
        let text = format!("Dropping the '{}' database is prohibited.", call.db);
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    if call.database().store.drop_database(call.db)? {
        call.server.usages.forget_database(call.db);
        call.reply.append("dropped", call.db);
    }
    Ok(())
}
