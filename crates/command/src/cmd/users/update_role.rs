//! `updateRole`: fields that are given replace those of the role.

use arbor_auth::Privilege;

use super::{check_parents, check_privileges, existing_roles, find_role, restrictions, role_name};
use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    const FIELDS: &[&str] = &["authenticationRestrictions", "privileges", "roles"];
    call.only(FIELDS)?;
    let name = role_name(call)?;
    if !FIELDS.iter().any(|field| call.optional(field).is_some()) {
        return Err(Error::bad_value("Must specify at least one field to update in updateRole"));
    }
    let restrictions = restrictions(call)?;
    let _writing = call.server.accounts.writing();
    let privileges = call.optional("privileges").map(Privilege::read_all).transpose()?;
    let parents = call.optional("roles").map(|roles| existing_roles(call, roles)).transpose()?;
    let mut role = find_role(call, &name)?;
    if let Some(privileges) = privileges {
        role.privileges = privileges;
        check_privileges(&name, &role.privileges)?;
    }
    if let Some(parents) = parents {
        role.roles = parents;
        check_parents(&*call.server.roles()?, &name, &role.roles)?;
    }
    role.restrictions = restrictions.unwrap_or(role.restrictions);
    call.server.save_role(&role)
}
