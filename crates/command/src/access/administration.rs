//! Rights that a backup and the commands of users and roles need: the right to grant is asked for on the database of each role that is granted,
//! and on each database whose privileges are.

use arbor_auth::Action::{self, *};
use arbor_auth::{Privilege, Restrictions, RoleName, Target, UserName};
use arbor_bson::ValueRef;

use super::Needed;
use crate::incoming::Incoming;

fn fields<'a>(request: &Incoming<'a>, name: &'a str) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
    request.body.iter().skip(1).filter(move |(own, _)| *own == name).map(|(_, value)| value)
}

fn has(request: &Incoming<'_>, name: &str) -> bool {
    request.body.iter().skip(1).any(|(own, _)| own == name)
}

/// Needs an action on the database of each role; names that cannot be read are refused by the command.
fn on_roles(request: &Incoming<'_>, needed: &mut Needed<'_>, action: Action) {
    for value in fields(request, "roles") {
        for role in RoleName::read_all(value, request.db).unwrap_or_default() {
            needed.on_database(&role.db, action);
        }
    }
}

/// Needs an action on the database of each privilege; on `admin` for those that are confined to none.
fn on_privileges(request: &Incoming<'_>, needed: &mut Needed<'_>, action: Action) {
    for value in fields(request, "privileges") {
        for privilege in Privilege::read_all(value).unwrap_or_default() {
            needed.on_database(privilege.resource.confined_to().unwrap_or("admin"), action);
        }
    }
}

fn on_restrictions(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    if has(request, Restrictions::FIELD) {
        needed.on_database(request.db, SetAuthenticationRestriction);
    }
}

/// Needs what the role `backup` has: a backup holds every collection, users and their digests too.
pub(crate) fn backup(_: &Incoming<'_>, needed: &mut Needed<'_>) {
    // No database has that name: only a privilege on all of them permits it.
    needed.on_collection("any database", "any", Find);
    for db in ["config", "local"] {
        needed.on_collection(db, "any", Find);
    }
    for collection in ["system.users", "system.roles"] {
        needed.on_collection("admin", collection, Find);
    }
    needed.on_cluster(AppendOplogNote);
}

pub(crate) fn create_user(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_database(request.db, CreateUser);
    on_roles(request, needed, GrantRole);
    on_restrictions(request, needed);
}

pub(crate) fn update_user(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let name = match request.body.first() {
        Some((_, ValueRef::String(user))) => UserName::new(user, request.db),
        _ => return,
    };
    let own = needed.user().is_some_and(|user| user.name == name);
    let database = Target::Database(request.db);
    for (field, of_own, of_any) in [
        ("pwd", ChangeOwnPassword, ChangePassword),
        ("mechanisms", ChangeOwnPassword, ChangePassword),
        ("customData", ChangeOwnCustomData, ChangeCustomData),
    ] {
        if has(request, field) && !(own && needed.may(database, of_own)) {
            needed.need(database, of_any);
        }
    }
    if has(request, "roles") {
        // the roles that are taken away may be of any database
        needed.need(Target::Database(""), RevokeRole);
        on_roles(request, needed, GrantRole);
    }
    on_restrictions(request, needed);
}

pub(crate) fn grant_roles(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_roles(request, needed, GrantRole);
}

pub(crate) fn revoke_roles(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_roles(request, needed, RevokeRole);
}

pub(crate) fn create_role(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_database(request.db, CreateRole);
    on_contents_of_role(request, needed);
}

pub(crate) fn update_role(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_database(request.db, RevokeRole);
    on_contents_of_role(request, needed);
}

/// Needs the rights for what a role is to have.
fn on_contents_of_role(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_roles(request, needed, GrantRole);
    on_privileges(request, needed, GrantRole);
    on_restrictions(request, needed);
}

pub(crate) fn grant_privileges_to_role(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_privileges(request, needed, GrantRole);
}

pub(crate) fn revoke_privileges_from_role(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_privileges(request, needed, RevokeRole);
}

/// A restore replaces users and roles of all databases.
pub(crate) fn merge_authz_collections(_: &Incoming<'_>, needed: &mut Needed<'_>) {
    for action in [CreateUser, CreateRole, DropUser, DropRole, GrantRole, RevokeRole] {
        needed.need(Target::Database(""), action);
    }
}

/// Everybody sees himself, without credentials.
pub(crate) fn users_info(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let shows_credentials = fields(request, "showCredentials").any(|value| !matches!(value, ValueRef::Bool(false)));
    let mut one = |value: ValueRef<'_>| match UserName::read(value, request.db) {
        Ok(name) if !shows_credentials && needed.user().is_some_and(|user| user.name == name) => {}
        Ok(name) => needed.on_database(&name.db, ViewUser),
        Err(_) => needed.on_database(request.db, ViewUser),
    };
    match request.body.first() {
        Some((_, ValueRef::Document(doc))) if doc.get("forAllDBs").is_some() => needed.on_cluster(ViewUser),
        Some((_, ValueRef::Array(names))) if !names.is_empty() => names.iter().for_each(one),
        Some((_, value)) => one(value),
        None => {}
    }
}

/// Everybody sees his own roles.
pub(crate) fn roles_info(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let mut one = |value: ValueRef<'_>| match RoleName::read(value, request.db) {
        Ok(name) if needed.user().is_some_and(|user| user.granted.roles.contains(&name)) => {}
        Ok(name) => needed.on_database(&name.db, ViewRole),
        Err(_) => needed.on_database(request.db, ViewRole),
    };
    match request.body.first() {
        Some((_, ValueRef::Array(names))) if !names.is_empty() => names.iter().for_each(one),
        Some((_, value)) => one(value),
        None => {}
    }
}
