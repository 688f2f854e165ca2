//! `createUser`.

use arbor_auth::{Credentials, User};
use arbor_bson::Code;
use uuid::Uuid;

use super::{credentials, existing_roles, restrictions, user_name};
use crate::call::Call;
use crate::{Error, Result};

const FIELDS: &[&str] = &["authenticationRestrictions", "customData", "digestPassword", "mechanisms", "pwd", "roles"];

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(FIELDS)?;
    let name = user_name(call)?;
    if name.db == "local" {
        return Err(Error::bad_value("Cannot create users in the local database"));
    }
    let is_external = name.db == "$external";
    let credentials = match call.optional("pwd") {
        Some(_) if is_external => {
            let text = "Cannot set the password for users defined on the '$external' database";
            return Err(Error::bad_value(text));
        }
        Some(value) => credentials(call, &name, call.field("pwd").string(value)?)?,
        None if is_external => Credentials { external: true, ..Credentials::default() },
        None => {
            let text = "Must provide a 'pwd' field for all user documents, except those with '$external' as the \
                        user's source db";
            return Err(Error::bad_value(text));
        }
    };
    let custom_data = match call.optional("customData") {
        Some(value) => Some(call.field("customData").document(value)?.to_buf()),
        None => None,
    };
    let roles = call.required("roles")?;
    let restrictions = restrictions(call)?.unwrap_or_default();
    call.server.check_external_user(&name)?;
    let _writing = call.server.accounts.writing();
    let is_first = call.connection.login.user.is_none() && call.server.accounts.enabled;
    if is_first && call.server.has_accounts()? {
        // another one was first
        return Err(Error::new(Code::UNAUTHORIZED, "Command createUser requires authentication"));
    }
    let roles = existing_roles(call, roles)?;
    if call.server.find_user(&name)?.is_some() {
        return Err(Error::new(Code(51003), format!("User \"{name}\" already exists")));
    }
    call.server.note_schema_version()?;
    call.server.save_user(&User { name, id: Some(Uuid::new_v4()), credentials, roles, restrictions, custom_data })
}
