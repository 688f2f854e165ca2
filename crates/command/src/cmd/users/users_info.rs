//! `usersInfo`.

use arbor_auth::{Restrictions, User, UserName, roles};
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_lang::{Context, Filter};

use crate::call::Call;
use crate::{Error, Result};

/// Parts of a user that are shown.
#[derive(Clone, Copy)]
struct Shown {
    credentials: bool,
    custom_data: bool,
    privileges: bool,
    restrictions: bool,
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut shown = Shown { credentials: false, custom_data: true, privileges: false, restrictions: false };
    let mut filter = Doc::empty();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "showCredentials" => shown.credentials = field.bool(value)?,
            "showCustomData" => shown.custom_data = field.bool(value)?,
            "showPrivileges" => shown.privileges = field.bool(value)?,
            "showAuthenticationRestrictions" => shown.restrictions = field.bool(value)?,
            "filter" => filter = field.document(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let (users, exact) = chosen(call)?;
    if (shown.privileges || shown.restrictions) && (!exact || !filter.is_empty()) {
        let text = "Privilege or restriction details require exact-match usersInfo queries";
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    let filter = Filter::parse(filter, &Context::new(arbor_protocol::log::now_ms()))?;
    let mut listed = ArrayBuf::new();
    for user in &users {
        let doc = describe(call, user, shown)?;
        if filter.matches(doc.as_doc())? {
            listed.push(&doc);
        }
    }
    call.reply.append("users", &listed);
    Ok(())
}

/// Returns the users that are asked for, and whether each of them was named.
fn chosen(call: &Call<'_>) -> Result<(Vec<User>, bool)> {
    let named = |value| UserName::read(value, call.db);
    let names = match call.target() {
        ValueRef::Document(doc) if doc.get("forAllDBs").is_some() => return Ok((call.server.users(None)?, false)),
        ValueRef::Array(values) => values.iter().map(named).collect::<arbor_protocol::Result<Vec<_>>>()?,
        value @ (ValueRef::String(_) | ValueRef::Document(_)) => vec![named(value)?],
        value if call.field("usersInfo").integer(value).is_ok_and(|one| one == 1) => {
            return Ok((call.server.users(Some(call.db))?, false));
        }
        _ => return Err(Error::bad_value("User and role names must be either strings or objects")),
    };
    let mut users = Vec::new();
    for name in names {
        users.extend(call.server.find_user(&name)?);
    }
    Ok((users, true))
}

fn describe(call: &Call<'_>, user: &User, shown: Shown) -> Result<DocBuf> {
    let mut doc = user.head();
    if shown.credentials {
        doc.append("credentials", &user.credentials.to_doc());
    }
    if let Some(data) = user.custom_data.as_ref().filter(|_| shown.custom_data) {
        doc.append("customData", data);
    }
    doc.append("roles", &roles::to_array(&user.roles));
    let mechanisms: ArrayBuf = user.credentials.mechanisms().into_iter().collect();
    doc.append("mechanisms", &mechanisms);
    if shown.privileges || shown.restrictions {
        let granted = call.server.roles()?.flatten(&user.roles);
        doc.append("inheritedRoles", &roles::to_array(&granted.roles));
        if shown.privileges {
            doc.append("inheritedPrivileges", &granted.privileges.to_array());
        }
        if shown.restrictions {
            let mut inherited = ArrayBuf::new();
            for restrictions in &granted.restrictions {
                inherited.push(&restrictions.to_array());
            }
            doc.append("inheritedAuthenticationRestrictions", &inherited);
            doc.append(Restrictions::FIELD, &user.restrictions.to_array());
        }
    }
    Ok(doc)
}
