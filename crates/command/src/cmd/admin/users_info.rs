//! `usersInfo`: there are no users, for there is no access control yet.

use arbor_bson::ArrayBuf;

use crate::Result;
use crate::call::Call;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["showAuthenticationRestrictions", "showCredentials", "showCustomData", "showPrivileges", "filter"])?;
    call.reply.append("users", &ArrayBuf::new());
    Ok(())
}
