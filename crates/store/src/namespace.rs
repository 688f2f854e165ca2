//! Names of databases and collections, with MongoDB's rules.

use std::fmt;

use crate::{Error, Result};

/// Most bytes of `db.collection`.
pub const NAMESPACE_BYTES_MAX: usize = 255;
/// Most bytes of a database name.
pub const DATABASE_BYTES_MAX: usize = 63;

/// Collections named `system.` that a user may create.
const SYSTEM_ALLOWED: &[&str] =
    &["system.js", "system.users", "system.roles", "system.version", "system.profile", "system.replset"];

/// See [`Namespace::is_of_server`].
const OF_SERVER: &[&str] =
    &["admin.system.version", "config.image_collection", "config.transactions", "local.system.replset"];

/// A database and a collection in it. Both names obey the rules below.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    full: String,
    db_len: usize,
}

/// Begin of the names of the collections behind time series.
pub(crate) const BUCKETS_PREFIX: &str = "system.buckets.";

/// Begin of the names of the collections that are filled while a collection gets another shard key.
pub const RESHARDING_PREFIX: &str = "system.resharding.";

fn invalid<T>(namespace: impl Into<String>, reason: &'static str) -> Result<T> {
    Err(Error::InvalidNamespace { namespace: namespace.into(), reason })
}

/// Not empty, at most 63 bytes, none of NUL, space, `.`, `$`, `/`, `\`, `"`.
pub fn check_database_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return invalid(name, "the database name is empty");
    }
    if name.len() > DATABASE_BYTES_MAX {
        return invalid(name, "the database name is longer than 63 bytes");
    }
    if name.contains(['\0', ' ', '.', '$', '/', '\\', '"']) {
        return invalid(name, "the database name holds a character that is not allowed");
    }
    Ok(())
}

impl Namespace {
    pub fn new(db: &str, collection: &str) -> Result<Namespace> {
        check_database_name(db)?;
        let full = [db, ".", collection].concat();
        if collection.is_empty() {
            return invalid(full, "the collection name is empty");
        }
        if collection.starts_with('.') || collection.ends_with('.') {
            return invalid(full, "the collection name begins or ends with '.'");
        }
        if collection.contains('\0') {
            return invalid(full, "the collection name holds a NUL");
        }
        if full.len() > NAMESPACE_BYTES_MAX {
            return invalid(full, "the namespace is longer than 255 bytes");
        }
        Ok(Namespace { full, db_len: db.len() })
    }

    /// Parses `db.collection`; the first dot divides.
    pub fn parse(full: &str) -> Result<Namespace> {
        match full.split_once('.') {
            Some((db, collection)) => Namespace::new(db, collection),
            None => invalid(full, "the namespace has no '.'"),
        }
    }

    pub fn db(&self) -> &str {
        self.full.split_at(self.db_len).0
    }

    pub fn collection(&self) -> &str {
        self.full.get(self.db_len + 1..).unwrap_or_default()
    }

    /// `db.collection`.
    pub fn as_str(&self) -> &str {
        &self.full
    }

    /// Returns true if it is one of the `system.` collections.
    pub fn is_system(&self) -> bool {
        self.collection().starts_with("system.")
    }

    /// Returns true if it is the name under which the database's views can be read.
    pub fn is_system_views(&self) -> bool {
        self.collection() == "system.views"
    }

    /// Returns true if it is the collection behind a time series.
    pub fn is_buckets(&self) -> bool {
        self.collection().starts_with(BUCKETS_PREFIX)
    }

    /// Returns true if it is to take the place of a collection that gets another shard key.
    pub fn is_resharding(&self) -> bool {
        self.collection().strip_prefix(RESHARDING_PREFIX).is_some_and(|rest| !rest.is_empty())
    }

    /// Returns true if only the server writes it: collections for settings of the set, versions, and session listings.
    pub fn is_of_server(&self) -> bool {
        OF_SERVER.contains(&self.as_str())
    }

    /// Rejects names that may not be created, although a query may use them.
    pub fn check_creatable(&self) -> Result<()> {
        if self.collection().contains('$') {
            return invalid(self.as_str(), "the collection name holds '$'");
        }
        let is_allowed = SYSTEM_ALLOWED.contains(&self.collection()) || self.is_resharding();
        if self.is_system() && !is_allowed {
            return invalid(self.as_str(), "the name prefix 'system.' is reserved");
        }
        Ok(())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_divided_at_the_first_dot() {
        let check = |full: &str, db: &str, collection: &str| {
            let namespace = Namespace::parse(full).unwrap();
            assert_eq!((namespace.db(), namespace.collection(), namespace.as_str()), (db, collection, full));
        };
        check("a.b", "a", "b");
        check("a.b.c", "a", "b.c");
        check("a.fs.chunks", "a", "fs.chunks");
        check("a.$cmd", "a", "$cmd");
    }

    #[test]
    fn bad_names_are_refused() {
        let long_db = "d".repeat(64);
        for bad in ["", "a", "a.", ".a", "a..b", "a.b.", "a b.c", "a$.c", "a/.c", "a\\.c", "a\".c", "a\0.c", "a.c\0d"] {
            assert!(Namespace::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Namespace::new(&long_db, "c").is_err());
        assert!(Namespace::new(&long_db[1..], "c").is_ok());
        assert!(Namespace::new("d", &"c".repeat(253)).is_ok());
        assert!(Namespace::new("d", &"c".repeat(254)).is_err());
    }

    #[test]
    fn reserved_names_may_not_be_created() {
        let creatable = |name: &str| Namespace::parse(name).unwrap().check_creatable().is_ok();
        assert!(creatable("a.b") && creatable("a.system.js") && creatable("a.systems"));
        assert!(creatable("a.system.resharding.1") && !creatable("a.system.resharding"));
        assert!(!creatable("a.system.indexes") && !creatable("a.$cmd") && !creatable("a.b$c"));
    }
}
