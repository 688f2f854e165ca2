//! Names of users and roles: a name and the database that defines it.

use std::fmt::{self, Display, Formatter};

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::Error;
use sha2::{Digest, Sha256};

use crate::Result;

/// The database of users whose credentials are elsewhere: in a certificate.
pub const EXTERNAL: &str = "$external";

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserName {
    pub db: String,
    pub user: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoleName {
    pub db: String,
    pub role: String,
}

impl UserName {
    pub fn new(user: impl Into<String>, db: impl Into<String>) -> UserName {
        UserName { db: db.into(), user: user.into() }
    }

    /// Returns the name of the members of a cluster, which is in no collection.
    pub fn system() -> UserName {
        UserName::new("__system", "local")
    }

    /// Returns true for the name of the members of a cluster.
    pub fn is_system(&self) -> bool {
        self.user == "__system" && self.db == "local"
    }

    /// Returns the `_id` in `admin.system.users`.
    pub fn id(&self) -> String {
        format!("{}.{}", self.db, self.user)
    }

    /// Returns `{user, db}`.
    pub fn to_doc(&self) -> DocBuf {
        DocBuf::new().with("user", &self.user).with("db", &self.db)
    }

    /// Returns the digest that names the owner of a session.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_string().as_bytes()).into()
    }

    /// Reads a name, or a document with a name and a database; a name alone is of `db`.
    pub fn read(value: ValueRef<'_>, db: &str) -> Result<UserName> {
        let (user, db) = pair(value, "user", db)?;
        Ok(UserName { db, user })
    }
}

impl RoleName {
    pub fn new(role: impl Into<String>, db: impl Into<String>) -> RoleName {
        RoleName { db: db.into(), role: role.into() }
    }

    /// Returns the `_id` in `admin.system.roles`.
    pub fn id(&self) -> String {
        format!("{}.{}", self.db, self.role)
    }

    /// Returns `{role, db}`.
    pub fn to_doc(&self) -> DocBuf {
        DocBuf::new().with("role", &self.role).with("db", &self.db)
    }

    /// Reads a name, or a document with a name and a database; a name alone is of `db`.
    pub fn read(value: ValueRef<'_>, db: &str) -> Result<RoleName> {
        let (role, db) = pair(value, "role", db)?;
        Ok(RoleName { db, role })
    }

    /// Reads an array of names.
    pub fn read_all(value: ValueRef<'_>, db: &str) -> Result<Vec<RoleName>> {
        let ValueRef::Array(values) = value else {
            return Err(Error::type_mismatch("The roles of a user or a role are an array"));
        };
        values.iter().map(|value| RoleName::read(value, db)).collect()
    }
}

/// Reads `name`, or `{KEY: name, db: database}`.
fn pair(value: ValueRef<'_>, key: &str, db: &str) -> Result<(String, String)> {
    let doc = match value {
        ValueRef::String(name) => return checked(name, key, db),
        ValueRef::Document(doc) => doc,
        _ => {
            let text = format!("{key} names must be either strings or objects");
            return Err(Error::bad_value(text));
        }
    };
    let name = text(doc, key)?;
    checked(name, key, text(doc, "db")?)
}

fn text<'a>(doc: Doc<'a>, key: &str) -> Result<&'a str> {
    match doc.get(key) {
        Some(ValueRef::String(text)) => Ok(text),
        Some(_) => Err(Error::type_mismatch(format!("\"{key}\" had the wrong type. Expected string"))),
        None => Err(Error::new(arbor_bson::Code::NO_SUCH_KEY, format!("Missing expected field \"{key}\""))),
    }
}

fn checked(name: &str, key: &str, db: &str) -> Result<(String, String)> {
    let empty = |what: &str| Err(Error::bad_value(format!("{what} names must be non-empty strings")));
    match (name, db) {
        ("", _) => empty(key),
        (_, "") => empty("db"),
        _ => Ok((name.to_owned(), db.to_owned())),
    }
}

impl Display for UserName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.db)
    }
}

impl Display for RoleName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.role, self.db)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_documents_are_read() {
        assert_eq!(RoleName::read("read".into(), "d").unwrap(), RoleName::new("read", "d"));
        let doc = DocBuf::new().with("role", "root").with("db", "admin");
        assert_eq!(RoleName::read((&doc).into(), "d").unwrap(), RoleName::new("root", "admin"));
        for bad in [DocBuf::new(), DocBuf::new().with("role", "x"), DocBuf::new().with("role", 1i32).with("db", "d")] {
            assert!(RoleName::read((&bad).into(), "d").is_err(), "{bad:?}");
        }
        assert!(RoleName::read("".into(), "d").is_err() && RoleName::read(5i32.into(), "d").is_err());
        assert_eq!(RoleName::new("a", "b").id(), "b.a");
        assert_eq!(UserName::new("a", "b").to_string(), "a@b");
        assert!(UserName::system().is_system() && !UserName::new("__system", "admin").is_system());
        assert_ne!(UserName::new("a", "b").digest(), UserName::new("b", "a").digest());
    }
}
