//! `rolesInfo`.

use arbor_auth::{Privilege, Privileges, Restrictions, Role, RoleName, Roles, builtin, roles};
use arbor_bson::{ArrayBuf, DocBuf, ValueRef};

use crate::call::Call;
use crate::{Error, Result};

/// Parts of a role that are shown.
#[derive(Clone, Copy)]
struct Shown {
    privileges: bool,
    restrictions: bool,
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let (mut shown, mut builtin) = (Shown { privileges: false, restrictions: false }, false);
    let mut as_user = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match (name, value) {
            ("showPrivileges", ValueRef::String("asUserFragment")) => as_user = true,
            ("showPrivileges", value) => shown.privileges = field.bool(value)?,
            ("showAuthenticationRestrictions", value) => shown.restrictions = field.bool(value)?,
            ("showBuiltinRoles", value) => builtin = field.bool(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let known = call.server.roles()?;
    let names = chosen(call, &known, builtin)?;
    if as_user {
        let fragment = as_user_fragment(&known, &names);
        call.reply.append("userFragment", &fragment);
        return Ok(());
    }
    let mut listed = ArrayBuf::new();
    for name in &names {
        listed.push(&describe(&known, name, shown));
    }
    call.reply.append("roles", &listed);
    Ok(())
}

/// Returns the roles that are asked for and exist.
fn chosen(call: &Call<'_>, known: &Roles, builtin: bool) -> Result<Vec<RoleName>> {
    let named = |value| RoleName::read(value, call.db);
    let names = match call.target() {
        ValueRef::Array(values) => values.iter().map(named).collect::<arbor_protocol::Result<Vec<_>>>()?,
        value @ (ValueRef::String(_) | ValueRef::Document(_)) => vec![named(value)?],
        value if call.field("rolesInfo").integer(value).is_ok_and(|one| one == 1) => {
            let own = known.iter().filter(|role| role.name.db == call.db).map(|role| role.name.clone());
            let built_in = if builtin { arbor_auth::builtin::names(call.db) } else { Vec::new() };
            own.chain(built_in).collect()
        }
        _ => return Err(Error::bad_value("User and role names must be either strings or objects")),
    };
    Ok(names.into_iter().filter(|name| known.exist(name)).collect())
}

fn describe(known: &Roles, name: &RoleName, shown: Shown) -> DocBuf {
    let own: Option<&Role> = known.get(name).filter(|_| !builtin::is_one(name));
    let parents = own.map_or(&[][..], |role| &role.roles);
    let mut doc = DocBuf::new().with("_id", &name.id()).with("role", &name.role).with("db", &name.db);
    if shown.privileges {
        let direct = match own {
            Some(role) => role.privileges.clone(),
            None => builtin::privileges(name).unwrap_or_default(),
        };
        doc.append("privileges", &privileges_of(&direct));
    }
    doc.append("roles", &roles::to_array(parents));
    if let Some(role) = own.filter(|_| shown.restrictions) {
        doc.append(Restrictions::FIELD, &role.restrictions.to_array());
    }
    doc.append("inheritedRoles", &roles::to_array(&known.inherited(parents)));
    if shown.privileges {
        doc.append("inheritedPrivileges", &known.flatten([name]).privileges.to_array());
    }
    if shown.restrictions {
        let mut inherited = ArrayBuf::new();
        for restrictions in &known.flatten(parents).restrictions {
            inherited.push(&restrictions.to_array());
        }
        doc.append("inheritedAuthenticationRestrictions", &inherited);
    }
    doc.with("isBuiltin", own.is_none())
}

fn privileges_of(privileges: &[Privilege]) -> ArrayBuf {
    let mut array = ArrayBuf::new();
    for privilege in privileges {
        array.push(&privilege.to_doc());
    }
    array
}

/// Returns what a user with these roles would have.
fn as_user_fragment(known: &Roles, names: &[RoleName]) -> DocBuf {
    let granted = known.flatten(names);
    let privileges: &Privileges = &granted.privileges;
    DocBuf::new()
        .with("roles", &roles::to_array(names))
        .with("inheritedRoles", &roles::to_array(&granted.roles))
        .with("inheritedPrivileges", &privileges.to_array())
}
