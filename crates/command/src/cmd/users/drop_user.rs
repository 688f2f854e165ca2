//! `dropUser` and `dropAllUsersFromDatabase`.

use super::user_name;
use crate::Result;
use crate::access::no_such_user;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let name = user_name(call)?;
    let _writing = call.server.accounts.writing();
    match call.server.remove_users(std::slice::from_ref(&name))? {
        0 => Err(no_such_user(&name)),
        _ => Ok(()),
    }
}

pub(crate) fn run_all(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let _writing = call.server.accounts.writing();
    let names: Vec<_> = call.server.users(Some(call.db))?.into_iter().map(|user| user.name).collect();
    let count = call.server.remove_users(&names)?;
    call.reply.append("n", count as i32);
    Ok(())
}
