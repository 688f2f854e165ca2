//! `$out`: the documents of a pipeline become a collection, in the place of the one that was there.
//!
//! `{ $out: "c" }` or `{ $out: { db: "d", coll: "c" } }`. They are written to a collection of another name, with the
//! options and the indexes of the old one, which then takes its name in one step: readers see the old documents or
//! the new ones, and an error leaves the old ones. What a crash leaves is dropped at the next start.

use arbor_bson::ValueRef;
use arbor_lang::{Code, text};
use arbor_store::{Namespace, Store};
use arbor_txn::Durability;

use super::sink::next_documents;
use crate::write::{insert, new_object_id};
use crate::{Cursor, Error, InsertSpec, Interrupt, Result, Scope};

/// Begin of the names of unfinished collections.
const UNFINISHED: &str = "tmp.agg_out.";

#[derive(Clone)]
pub struct Out {
    into: Namespace,
}

impl Out {
    pub fn parse(spec: ValueRef<'_>, db: &str) -> Result<Out> {
        let into = match spec {
            ValueRef::String(name) => Namespace::new(db, name)?,
            ValueRef::Document(doc) => {
                let (mut db, mut coll) = (None, None);
                for (name, value) in doc {
                    match (name, value) {
                        ("db", ValueRef::String(text)) => db = Some(text),
                        ("coll", ValueRef::String(text)) => coll = Some(text),
                        ("db" | "coll", other) => {
                            let found = text::type_name(Some(other));
                            let message =
                                format!("BSON field '$out.{name}' is the wrong type '{found}', expected type 'string'");
                            return Err(Error::new(Code::TYPE_MISMATCH, message));
                        }
                        ("timeseries", _) => {
                            return Err(arbor_lang::Error::not_implemented("$out.timeseries").into());
                        }
                        _ => return Err(location(40415, format!("BSON field '$out.{name}' is an unknown field."))),
                    }
                }
                let missing =
                    |name| location(40414, format!("BSON field '$out.{name}' is missing but a required field"));
                let db = db.ok_or_else(|| missing("db"))?;
                Namespace::new(db, coll.ok_or_else(|| missing("coll"))?)?
            }
            other => {
                let found = text::type_name(Some(other));
                let message = format!("$out only supports a string or object argument, but found {found}");
                return Err(location(16990, message));
            }
        };
        if into.collection().starts_with("system.") {
            return Err(location(17385, format!("Can't $out to special collection: {}", into.collection())));
        }
        if matches!(into.db(), "admin" | "config" | "local") {
            return Err(location(31321, format!("Can't $out to internal database: {}", into.db())));
        }
        Ok(Out { into })
    }

    pub fn write(&self, scope: &Scope<'_>, cursor: Cursor, bypass: bool, interrupt: &Interrupt) -> Result<()> {
        scope.store.refuse_view(&self.into)?;
        let name = format!("{UNFINISHED}{}", new_object_id());
        let unfinished = Namespace::new(self.into.db(), &name)?;
        let written = self.fill(scope, &unfinished, cursor, bypass, interrupt);
        match written.and_then(|()| Ok(scope.store.rename(&unfinished, &self.into, true)?)) {
            Ok(()) => Ok(()),
            Err(error) => {
                // what cannot be dropped now is dropped at the next start
                let _ = scope.store.drop_collection(&unfinished);
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        scope: &Scope<'_>,
        unfinished: &Namespace,
        mut cursor: Cursor,
        bypass: bool,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let old = scope.store.collection(&self.into);
        if old.as_ref().is_some_and(|old| old.order.is_some()) {
            return Err(location(17152, format!("namespace '{}' is capped so it can't be used for $out", self.into)));
        }
        let options = old.as_ref().map(|old| old.options.clone()).unwrap_or_default();
        scope.store.create_collection(unfinished, &options)?;
        if let Some(old) = &old {
            scope.store.create_indexes(unfinished, &old.index_specs_to_copy())?;
        }
        while let Some(documents) = next_documents(scope, &mut cursor, interrupt)? {
            let spec = InsertSpec {
                namespace: unfinished.clone(),
                documents: documents.iter().map(|doc| doc.as_doc()).collect(),
                ordered: true,
                durability: Durability::Applied,
                bypass_validation: bypass,
            };
            if let Some(failed) = insert(scope, &spec, interrupt)?.errors.into_iter().next() {
                return Err(failed.error);
            }
        }
        Ok(())
    }
}

/// Drops the leftovers of `$out`s that were aborted by the end of the process.
pub fn drop_unfinished(store: &Store) {
    for db in store.list_databases() {
        for collection in store.list_collections(&db) {
            if collection.namespace.collection().starts_with(UNFINISHED) {
                // it stays until the next start then; nothing depends on it
                let _ = store.drop_collection(&collection.namespace);
            }
        }
    }
}

fn location(code: i32, message: String) -> Error {
    Error::Lang(arbor_lang::Error::location(code, message))
}
