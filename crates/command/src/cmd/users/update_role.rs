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
    let mut role = find_role(call, &name)?;
    if let Some(privileges) = call.optional("privileges") {
        role.privileges = Privilege::read_all(privileges)?;
        check_privileges(&name, &role.privileges)?;
    }
    if let Some(roles) = call.optional("roles") {
        role.roles = existing_roles(call, roles)?;
        check_parents(&*call.server.roles()?, &name, &role.roles)?;
    }
    role.restrictions = restrictions.unwrap_or(role.restrictions);
    call.server.save_role(&role)
}
