//! `dropRole` and `dropAllRolesFromDatabase`. Users and roles that have a dropped role lose it first: a failure in between
//! leaves less permitted, and the command can be repeated.

use super::{find_role, role_name};
use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let name = role_name(call)?;
    let _writing = call.server.accounts.writing();
    find_role(call, &name)?;
    call.server.remove_roles(&[name])?;
    Ok(())
}

pub(crate) fn run_all(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let _writing = call.server.accounts.writing();
    let roles = call.server.roles()?;
    let names: Vec<_> = roles.iter().filter(|role| role.name.db == call.db).map(|role| role.name.clone()).collect();
    let count = call.server.remove_roles(&names)?;
    call.reply.append("n", count as i32);
    Ok(())
}
