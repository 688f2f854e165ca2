//! `createRole`.

use arbor_auth::{Privilege, Role, builtin};
use arbor_bson::Code;

use super::{check_parents, check_privileges, existing_roles, restrictions, role_name};
use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["authenticationRestrictions", "privileges", "roles"])?;
    let name = role_name(call)?;
    if name.db == "local" || name.db == "$external" {
        return Err(Error::bad_value(format!("Cannot create roles in the {} database", name.db)));
    }
    if builtin::is_one(&name) {
        return Err(Error::bad_value("Cannot create roles with the same name as a built-in role"));
    }
    let privileges = Privilege::read_all(call.required("privileges")?)?;
    check_privileges(&name, &privileges)?;
    let (roles, restrictions) = (call.required("roles")?, restrictions(call)?.unwrap_or_default());
    let _writing = call.server.accounts.writing();
    let is_first = call.connection.login.user.is_none() && call.server.accounts.enabled;
    if is_first && call.server.has_accounts()? {
        return Err(Error::new(Code::UNAUTHORIZED, "Command createRole requires authentication"));
    }
    let roles = existing_roles(call, roles)?;
    let known = call.server.roles()?;
    if known.get(&name).is_some() {
        return Err(Error::new(Code(51002), format!("Role \"{name}\" already exists")));
    }
    check_parents(&known, &name, &roles)?;
    call.server.note_schema_version()?;
    call.server.save_role(&Role { name, privileges, roles, restrictions })
}
