//! `rolesInfo`: there are no roles, for there is no access control yet.

use arbor_bson::ArrayBuf;

use crate::Result;
use crate::call::Call;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["showAuthenticationRestrictions", "showBuiltinRoles", "showPrivileges", "filter"])?;
    call.reply.append("roles", &ArrayBuf::new());
    Ok(())
}
