//! `connectionStatus`: no user is ever authenticated, since there is no access control yet.

use arbor_bson::{ArrayBuf, DocBuf};

use crate::Result;
use crate::call::Call;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["showPrivileges"])?;
    let mut info =
        DocBuf::new().with("authenticatedUsers", &ArrayBuf::new()).with("authenticatedUserRoles", &ArrayBuf::new());
    if let Some(value) = call.body.get("showPrivileges")
        && call.field("showPrivileges").bool(value)?
    {
        info.append("authenticatedUserPrivileges", &ArrayBuf::new());
    }
    call.reply.append("authInfo", &info);
    Ok(())
}
