//! Target of a stream.

use arbor_lang::Code;
use arbor_store::Namespace;

use super::options::Options;
use crate::feed::Interest;
use crate::{AggregateSpec, Error, Result};

#[derive(Clone, Debug)]
pub enum Target {
    Collection(Namespace),
    Database(String),
    Cluster,
}

/// Databases of the server itself.
const INTERNAL: &[&str] = &["admin", "config", "local"];

impl Target {
    pub fn of(spec: &AggregateSpec<'_>, options: &Options) -> Result<Target> {
        let namespace = &spec.namespace;
        let db = namespace.db();
        if options.all_changes_for_cluster {
            if spec.collectionless && db == "admin" {
                return Ok(Target::Cluster);
            }
            let message = format!(
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with \
                 no collection name; found {namespace}"
            );
            return Err(Error::new(Code::INVALID_OPTIONS, message));
        }
        let refused = |what: String| {
            Err(Error::new(Code::INVALID_NAMESPACE, format!("$changeStream may not be opened on the internal {what}")))
        };
        if INTERNAL.contains(&db) {
            return refused(format!("{db} database"));
        }
        if spec.collectionless {
            return Ok(Target::Database(db.to_owned()));
        }
        if is_system(namespace.collection()) && !options.system_events {
            return refused(format!("{namespace} collection"));
        }
        Ok(Target::Collection(namespace.clone()))
    }

    pub fn interest(&self) -> Interest {
        match self {
            Target::Collection(namespace) => {
                Interest::Collection(namespace.db().to_owned(), namespace.collection().to_owned())
            }
            Target::Database(db) => Interest::Database(db.clone()),
            Target::Cluster => Interest::Everything,
        }
    }

    /// Returns true if changes in this collection are watched.
    pub fn covers(&self, db: &str, collection: &str, options: &Options) -> bool {
        match self {
            Target::Collection(own) => own.db() == db && own.collection() == collection,
            Target::Database(own) => own == db && shows(collection, options),
            Target::Cluster => self.covers_database(db) && shows(collection, options),
        }
    }

    /// Returns true if changes of the database as a whole are watched.
    pub fn covers_database(&self, db: &str) -> bool {
        match self {
            Target::Collection(own) => own.db() == db,
            Target::Database(own) => own == db,
            Target::Cluster => !INTERNAL.contains(&db),
        }
    }
}

fn shows(collection: &str, options: &Options) -> bool {
    options.system_events || !is_system(collection)
}

fn is_system(collection: &str) -> bool {
    collection.starts_with("system.")
}
