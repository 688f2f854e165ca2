//! `grantRolesToRole` and `revokeRolesFromRole`.

use super::{check_parents, find_role, role_name, some_roles};
use crate::Result;
use crate::call::Call;

pub(crate) fn grant(call: &mut Call<'_>) -> Result<()> {
    call.only(&["roles"])?;
    let name = role_name(call)?;
    let _writing = call.server.accounts.writing();
    let parents = some_roles(call, call.required("roles")?)?;
    let mut role = find_role(call, &name)?;
    check_parents(&*call.server.roles()?, &name, &parents)?;
    for parent in parents {
        if !role.roles.contains(&parent) {
            role.roles.push(parent);
        }
    }
    call.server.save_role(&role)
}

pub(crate) fn revoke(call: &mut Call<'_>) -> Result<()> {
    call.only(&["roles"])?;
    let name = role_name(call)?;
    let _writing = call.server.accounts.writing();
    let parents = some_roles(call, call.required("roles")?)?;
    let mut role = find_role(call, &name)?;
    role.roles.retain(|parent| !parents.contains(parent));
    call.server.save_role(&role)
}
