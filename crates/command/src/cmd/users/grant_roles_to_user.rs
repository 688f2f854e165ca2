//! `grantRolesToUser` and `revokeRolesFromUser`.

use arbor_auth::{RoleName, User};

use super::{find_user, some_roles, user_name};
use crate::Result;
use crate::call::Call;

pub(crate) fn grant(call: &mut Call<'_>) -> Result<()> {
    change(call, |user, roles| {
        for role in roles {
            if !user.roles.contains(&role) {
                user.roles.push(role);
            }
        }
    })
}

pub(crate) fn revoke(call: &mut Call<'_>) -> Result<()> {
    change(call, |user, roles| user.roles.retain(|role| !roles.contains(role)))
}

fn change(call: &mut Call<'_>, change: impl Fn(&mut User, Vec<RoleName>)) -> Result<()> {
    call.only(&["roles"])?;
    let name = user_name(call)?;
    let _writing = call.server.accounts.writing();
    let roles = some_roles(call, call.required("roles")?)?;
    let mut user = find_user(call, &name)?;
    change(&mut user, roles);
    call.server.save_user(&user)
}
