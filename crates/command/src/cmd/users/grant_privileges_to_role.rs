//! `grantPrivilegesToRole` and `revokePrivilegesFromRole`.

use arbor_auth::{Privilege, privileges};

use super::{check_privileges, find_role, role_name};
use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn grant(call: &mut Call<'_>) -> Result<()> {
    change(call, privileges::add)
}

pub(crate) fn revoke(call: &mut Call<'_>) -> Result<()> {
    change(call, privileges::remove)
}

fn change(call: &mut Call<'_>, change: fn(&mut Vec<Privilege>, &Privilege)) -> Result<()> {
    call.only(&["privileges"])?;
    let name = role_name(call)?;
    let given = Privilege::read_all(call.required("privileges")?)?;
    if given.is_empty() {
        let text = format!("{} command requires a non-empty \"privileges\" array", call.info.name);
        return Err(Error::bad_value(text));
    }
    check_privileges(&name, &given)?;
    let _writing = call.server.accounts.writing();
    let mut role = find_role(call, &name)?;
    given.iter().for_each(|privilege| change(&mut role.privileges, privilege));
    call.server.save_role(&role)
}
