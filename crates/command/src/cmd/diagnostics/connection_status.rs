//! `connectionStatus`: the user of the connection, its roles, and what it may do.

use arbor_auth::roles;
use arbor_bson::{ArrayBuf, DocBuf};

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["showPrivileges"])?;
    let shows_privileges = match call.optional("showPrivileges") {
        Some(value) => call.field("showPrivileges").bool(value)?,
        None => false,
    };
    call.server.refresh_user(call.connection)?;
    let user = call.connection.login.user.as_deref();
    let mut users = ArrayBuf::new();
    if let Some(user) = user {
        users.push(&user.name.to_doc());
    }
    let mut info = DocBuf::new().with("authenticatedUsers", &users);
    let of_user = user.map_or_else(ArrayBuf::new, |user| roles::to_array(&user.roles));
    info.append("authenticatedUserRoles", &of_user);
    if shows_privileges {
        let privileges = user.map_or_else(ArrayBuf::new, |user| user.privileges().to_array());
        info.append("authenticatedUserPrivileges", &privileges);
    }
    call.reply.append("authInfo", &info);
    Ok(())
}
