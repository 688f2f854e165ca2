//! Users, roles, and logins.

pub(crate) mod authenticate;
pub(crate) mod create_role;
pub(crate) mod create_user;
pub(crate) mod drop_role;
pub(crate) mod drop_user;
pub(crate) mod grant_privileges_to_role;
pub(crate) mod grant_roles_to_role;
pub(crate) mod grant_roles_to_user;
pub(crate) mod invalidate_user_cache;
pub(crate) mod merge_authz_collections;
pub(crate) mod roles_info;
pub(crate) mod sasl;
pub(crate) mod update_role;
pub(crate) mod update_user;
pub(crate) mod users_info;

use arbor_auth::{Credentials, Mechanism, Restrictions, Role, RoleName, Roles, Stored, User, UserName, builtin};
use arbor_bson::{Code, ValueRef};

use crate::access::{no_such_role, no_such_user};
use crate::call::Call;
use crate::{Error, Result};

/// Returns the user behind the command's name.
fn user_name(call: &Call<'_>) -> Result<UserName> {
    let user = call.field(call.info.name).string(call.target())?;
    if user.is_empty() {
        return Err(Error::bad_value("User document needs 'user' field to be non-empty"));
    }
    if user.contains('\0') {
        return Err(Error::bad_value("Username cannot contain NULL characters"));
    }
    Ok(UserName::new(user, call.db))
}

/// Returns the role behind the command's name.
fn role_name(call: &Call<'_>) -> Result<RoleName> {
    let role = call.field(call.info.name).string(call.target())?;
    if role.is_empty() {
        return Err(Error::bad_value("Role name must be non-empty"));
    }
    Ok(RoleName::new(role, call.db))
}

fn find_user(call: &Call<'_>, name: &UserName) -> Result<User> {
    call.server.find_user(name)?.ok_or_else(|| no_such_user(name))
}

/// Returns a role that may be changed.
fn find_role(call: &Call<'_>, name: &RoleName) -> Result<Role> {
    if builtin::is_one(name) {
        let text = format!("{name} is a built-in role and cannot be modified.");
        return Err(Error::new(Code::INVALID_ROLE_MODIFICATION, text));
    }
    call.server.roles()?.get(name).cloned().ok_or_else(|| no_such_role(name))
}

/// Reads `roles`, which have to exist.
fn existing_roles(call: &Call<'_>, value: ValueRef<'_>) -> Result<Vec<RoleName>> {
    call.field("roles").array(value)?;
    let roles = call.server.roles()?;
    let mut names: Vec<RoleName> = Vec::new();
    for name in RoleName::read_all(value, call.db)? {
        if !roles.exist(&name) {
            return Err(no_such_role(&name));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Reads a list of roles that must not be empty.
fn some_roles(call: &Call<'_>, value: ValueRef<'_>) -> Result<Vec<RoleName>> {
    match call.field("roles").array(value)?.is_empty() {
        true => Err(Error::bad_value(format!("{} command requires a non-empty \"roles\" array", call.info.name))),
        false => existing_roles(call, value),
    }
}

/// Refuses roles that a role of one database may not inherit.
fn check_parents(roles: &Roles, name: &RoleName, parents: &[RoleName]) -> Result<()> {
    if let Some(foreign) = parents.iter().find(|parent| name.db != "admin" && parent.db != name.db) {
        let text =
            format!("Roles on the '{}' database cannot be granted roles from other databases: {foreign}", name.db);
        return Err(Error::new(Code::INVALID_ROLE_MODIFICATION, text));
    }
    if let Some(parent) = roles.would_cycle(name, parents) {
        let text = format!("Granting {parent} to {name} would introduce a cycle in the role graph.");
        return Err(Error::new(Code::INVALID_ROLE_MODIFICATION, text));
    }
    Ok(())
}

/// Refuses privileges that a role of one database may not have.
fn check_privileges(name: &RoleName, privileges: &[arbor_auth::Privilege]) -> Result<()> {
    let foreign = |privilege: &&arbor_auth::Privilege| privilege.resource.confined_to() != Some(name.db.as_str());
    if name.db != "admin" && privileges.iter().any(|privilege| foreign(&privilege)) {
        let text = format!(
            "Roles on the '{}' database cannot be granted privileges that target other databases or the cluster",
            name.db
        );
        return Err(Error::new(Code::INVALID_ROLE_MODIFICATION, text));
    }
    Ok(())
}

/// Reads `mechanisms`; without the field those of a new user.
fn mechanisms(call: &Call<'_>) -> Result<Vec<Mechanism>> {
    let Some(value) = call.optional("mechanisms") else { return Ok(Mechanism::ALL.to_vec()) };
    let field = call.field("mechanisms");
    let mut mechanisms = Vec::new();
    for value in field.array(value)?.iter() {
        let name = field.string(value)?;
        let unknown = || Error::bad_value(format!("Unknown auth mechanism '{name}'"));
        mechanisms.push(Mechanism::by_name(name).ok_or_else(unknown)?);
    }
    match mechanisms.is_empty() {
        true => Err(Error::bad_value("mechanisms field must not be empty")),
        false => Ok(mechanisms),
    }
}

/// Digests a password.
fn credentials(call: &Call<'_>, name: &UserName, password: &str) -> Result<Credentials> {
    let digests = match call.optional("digestPassword") {
        Some(value) => call.field("digestPassword").bool(value)?,
        None => true,
    };
    if password.is_empty() {
        return Err(Error::bad_value("Password cannot be empty"));
    }
    let mut credentials = Credentials::default();
    for mechanism in mechanisms(call)? {
        if !digests && mechanism == Mechanism::ScramSha256 {
            return Err(Error::bad_value("Use of SCRAM-SHA-256 requires undigested passwords"));
        }
        let stored = match digests {
            true => {
                let secret = mechanism
                    .secret(&name.user, password)
                    .map_err(|reason| Error::bad_value(format!("Error preflighting UTF-8 conversion: {reason}")))?;
                Stored::of(mechanism, &secret, rounds(call, mechanism))
            }
            false => Stored::of(mechanism, password.as_bytes(), rounds(call, mechanism)),
        };
        credentials.set(mechanism, stored);
    }
    Ok(credentials)
}

/// Returns the iterations of new credentials.
fn rounds(call: &Call<'_>, mechanism: Mechanism) -> u32 {
    let parameter = match mechanism {
        Mechanism::ScramSha1 => "scramIterationCount",
        Mechanism::ScramSha256 => "scramSHA256IterationCount",
    };
    let given = call.server.parameters.int(parameter).and_then(|rounds| u32::try_from(rounds).ok());
    given.filter(|rounds| *rounds >= ROUNDS_MIN).unwrap_or(mechanism.rounds())
}

/// MongoDB's least number of iterations, above the 4096 that clients insist on.
const ROUNDS_MIN: u32 = 5000;

fn restrictions(call: &Call<'_>) -> Result<Option<Restrictions>> {
    match call.optional(Restrictions::FIELD) {
        Some(value) => Ok(Some(Restrictions::read(value)?)),
        None => Ok(None),
    }
}
