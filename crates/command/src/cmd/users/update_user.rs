//! `updateUser`: fields that are given replace those of the user.

use arbor_auth::Mechanism;

use super::{credentials, existing_roles, find_user, mechanisms, restrictions, user_name};
use crate::call::Call;
use crate::{Error, Result};

const FIELDS: &[&str] = &["authenticationRestrictions", "customData", "digestPassword", "mechanisms", "pwd", "roles"];

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(FIELDS)?;
    let name = user_name(call)?;
    if !FIELDS.iter().any(|field| *field != "digestPassword" && call.optional(field).is_some()) {
        return Err(Error::bad_value("Must specify at least one field to update in updateUser"));
    }
    let credentials = match call.optional("pwd") {
        Some(_) if name.db == "$external" => {
            let text = "Cannot set the password for users defined on the '$external' database";
            return Err(Error::bad_value(text));
        }
        Some(value) => Some(credentials(call, &name, call.field("pwd").string(value)?)?),
        None => None,
    };
    let custom_data = match call.optional("customData") {
        Some(value) => Some(call.field("customData").document(value)?.to_buf()),
        None => None,
    };
    let restrictions = restrictions(call)?;
    let _writing = call.server.accounts.writing();
    let roles = call.optional("roles").map(|roles| existing_roles(call, roles)).transpose()?;
    let mut user = find_user(call, &name)?;
    if let Some(credentials) = credentials {
        user.credentials = credentials;
    } else if call.optional("mechanisms").is_some() {
        keep_mechanisms(&mut user, &mechanisms(call)?)?;
    }
    user.roles = roles.unwrap_or(user.roles);
    user.custom_data = custom_data.or(user.custom_data);
    user.restrictions = restrictions.unwrap_or(user.restrictions);
    call.server.save_user(&user)
}

/// Without a password, mechanisms can only be taken away.
fn keep_mechanisms(user: &mut arbor_auth::User, kept: &[Mechanism]) -> Result<()> {
    if kept.iter().any(|mechanism| user.credentials.get(*mechanism).is_none()) {
        return Err(Error::bad_value("mechanisms field must be a subset of previously set mechanisms"));
    }
    if !kept.contains(&Mechanism::ScramSha1) {
        user.credentials.sha1 = None;
    }
    if !kept.contains(&Mechanism::ScramSha256) {
        user.credentials.sha256 = None;
    }
    Ok(())
}
