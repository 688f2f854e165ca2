//! `_mergeAuthzCollections`: how tools restore users and roles. They put the documents into other collections first, so
//! that what is there is replaced only once all of it has arrived.

use std::collections::HashSet;

use arbor_auth::{Role, RoleName, User, UserName};
use arbor_bson::DocBuf;
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["tempUsersCollection", "tempRolesCollection", "db", "drop"])?;
    let text = |name: &str| match call.optional(name) {
        Some(value) => Ok::<_, Error>(call.field(name).string(value)?),
        None => Ok(""),
    };
    let (users, roles, db) = (text("tempUsersCollection")?, text("tempRolesCollection")?, text("db")?);
    let drops = match call.optional("drop") {
        Some(value) => call.field("drop").bool(value)?,
        None => false,
    };
    if users.is_empty() && roles.is_empty() {
        let text = "Must provide at least one of \"tempUsersCollection\" and \"tempRolescollection\"";
        return Err(Error::bad_value(text));
    }
    let is_chosen = |own: &str| db.is_empty() || own == db;
    let _writing = call.server.accounts.writing();
    if !roles.is_empty() {
        let mut kept = HashSet::new();
        for doc in documents(call, roles)? {
            let role = Role::read(doc.as_doc())?;
            if is_chosen(&role.name.db) {
                kept.insert(role.name.clone());
                call.server.save_role(&role)?;
            }
        }
        let known = call.server.roles()?;
        let gone =
            known.iter().map(|role| role.name.clone()).filter(|name| is_chosen(&name.db) && !kept.contains(name));
        let gone: Vec<RoleName> = gone.filter(|_| drops).collect();
        call.server.remove_roles(&gone)?;
    }
    if !users.is_empty() {
        let mut kept = HashSet::new();
        for doc in documents(call, users)? {
            let user = User::read(doc.as_doc())?;
            if is_chosen(&user.name.db) {
                kept.insert(user.name.clone());
                call.server.save_user(&user)?;
            }
        }
        let known = call.server.users(None)?.into_iter().map(|user| user.name);
        let gone: Vec<UserName> = known.filter(|name| drops && is_chosen(&name.db) && !kept.contains(name)).collect();
        call.server.remove_users(&gone)?;
    }
    call.server.note_schema_version()
}

fn documents(call: &Call<'_>, namespace: &str) -> Result<Vec<DocBuf>> {
    let spec = FindSpec::new(Namespace::parse(namespace)?);
    let never = Interrupt::never();
    Ok(arbor_query::find(&Scope::of(call.database()), &spec, &never)?.all(&never)?)
}
