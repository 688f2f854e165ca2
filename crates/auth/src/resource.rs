//! Resources, which privileges are about and which may be patterns, and targets, which requests touch.
//!
//! | resource | matches |
//! |---|---|
//! | `{cluster: true}` | the cluster |
//! | `{anyResource: true}` | everything |
//! | `{db: "d", collection: "c"}` | this collection |
//! | `{db: "d", collection: ""}` | the database, and its collections except system collections |
//! | `{db: "", collection: "c"}` | the collection of this name in every database |
//! | `{db: "", collection: ""}` | all databases but `local` and `config`, and their collections except system collections |
//! | `{db: "d" or "", system_buckets: "c"}` | the buckets of the time series `c` |

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::Error;

use crate::Result;

/// Resource of a privilege. Empty names are patterns, as in the document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    Cluster,
    Any,
    Namespace { db: String, collection: String },
}

/// Object that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Cluster,
    Database(&'a str),
    Collection { db: &'a str, collection: &'a str },
}

const BUCKETS: &str = "system.buckets.";

impl Resource {
    pub fn database(db: impl Into<String>) -> Resource {
        Resource::collection(db, "")
    }

    pub fn collection(db: impl Into<String>, collection: impl Into<String>) -> Resource {
        Resource::Namespace { db: db.into(), collection: collection.into() }
    }

    /// Returns the pattern of all databases, without their system collections.
    pub fn any_normal() -> Resource {
        Resource::collection("", "")
    }

    /// Reads the field `resource` of a privilege.
    pub fn read(doc: Doc<'_>) -> Result<Resource> {
        let name = |key: &str| match doc.get(key) {
            None => Ok(None),
            Some(ValueRef::String(name)) => Ok(Some(name)),
            Some(_) => Err(bad(&format!("the field \"{key}\" of a resource is a string"))),
        };
        let flag = |key: &str| match doc.get(key) {
            None => Ok(false),
            Some(ValueRef::Bool(true)) => Ok(true),
            Some(_) => Err(bad(&format!("the field \"{key}\" of a resource is true"))),
        };
        if let Some((name, _)) = doc.iter().find(|(name, _)| !FIELDS.contains(name)) {
            return Err(bad(&format!("a resource has no field \"{name}\"")));
        }
        let (cluster, any) = (flag("cluster")?, flag("anyResource")?);
        let (db, collection, buckets) = (name("db")?, name("collection")?, name("system_buckets")?);
        match (cluster, any, db, collection, buckets) {
            (true, false, None, None, None) => Ok(Resource::Cluster),
            (false, true, None, None, None) => Ok(Resource::Any),
            (false, false, Some(db), Some(collection), None) => Ok(Resource::collection(db, collection)),
            (false, false, db, None, Some(buckets)) => {
                Ok(Resource::collection(db.unwrap_or_default(), format!("{BUCKETS}{buckets}")))
            }
            _ => Err(bad("a resource is {cluster: true}, {anyResource: true} or {db: <name>, collection: <name>}")),
        }
    }

    pub fn to_doc(&self) -> DocBuf {
        match self {
            Resource::Cluster => DocBuf::new().with("cluster", true),
            Resource::Any => DocBuf::new().with("anyResource", true),
            Resource::Namespace { db, collection } => match collection.strip_prefix(BUCKETS) {
                Some(buckets) => DocBuf::new().with("db", db).with("system_buckets", buckets),
                None => DocBuf::new().with("db", db).with("collection", collection),
            },
        }
    }

    /// Returns the database to which the resource is confined.
    pub fn confined_to(&self) -> Option<&str> {
        match self {
            Resource::Namespace { db, .. } if !db.is_empty() => Some(db),
            _ => None,
        }
    }
}

const FIELDS: &[&str] = &["cluster", "anyResource", "db", "collection", "system_buckets"];

fn bad(text: &str) -> Error {
    Error::bad_value(format!("Invalid resource: {text}"))
}

/// Returns true for collections that only a privilege with their own name covers.
pub fn is_system(db: &str, collection: &str) -> bool {
    collection.starts_with("system.") || (db == "local" && collection.starts_with("replset."))
}

/// Returns true for databases that the pattern of all databases excludes.
pub fn is_apart(db: &str) -> bool {
    matches!(db, "local" | "config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_back() {
        let buckets = DocBuf::new().with("db", "d").with("system_buckets", "t");
        for doc in [
            DocBuf::new().with("cluster", true),
            DocBuf::new().with("anyResource", true),
            DocBuf::new().with("db", "d").with("collection", ""),
            buckets.clone(),
        ] {
            assert_eq!(Resource::read(doc.as_doc()).unwrap().to_doc().as_bytes(), doc.as_bytes());
        }
        assert_eq!(Resource::read(buckets.as_doc()).unwrap(), Resource::collection("d", "system.buckets.t"));
        for bad in [
            DocBuf::new(),
            DocBuf::new().with("cluster", false),
            DocBuf::new().with("db", "d"),
            DocBuf::new().with("cluster", true).with("db", "d").with("collection", "c"),
            DocBuf::new().with("db", 1i32).with("collection", "c"),
            DocBuf::new().with("database", "d").with("collection", "c"),
        ] {
            assert!(Resource::read(bad.as_doc()).is_err(), "{bad:?}");
        }
    }
}
