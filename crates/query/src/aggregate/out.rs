//! `$out`: the documents of a pipeline become a collection, in the place of the one that was there.
//!
//! `{ $out: "c" }` or `{ $out: { db: "d", coll: "c" } }`. They are written to a collection of another name, with the
//! options and the indexes of the old one, which then takes its name in one step: readers see the old documents or
//! the new ones, and an error leaves the old ones. What a crash leaves is dropped at the next start.

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::time_series::TimeSeriesOptions;
use arbor_lang::{Code, text};
use arbor_store::{NAMESPACE_BYTES_MAX, Namespace, Store};
use arbor_txn::Durability;

use super::next_documents::next_documents;
use crate::time_series::{bucket_options, create, options_of};
use crate::write::{insert, new_object_id};
use crate::{Cursor, Error, FindSpec, InsertSpec, Interrupt, Result, Scope, find};

/// Begin of the names of unfinished collections.
const UNFINISHED: &str = "tmp.agg_out.";

#[derive(Clone)]
pub(crate) struct Out {
    into: Namespace,
    /// The target becomes a time series with these options, or is one.
    time_series: Option<TimeSeriesOptions>,
}

/// COMPAT: a name that is too long has the code of the write that MongoDB would refuse.
fn target(db: &str, name: &str) -> Result<Namespace> {
    let bytes = db.len() + 1 + name.len();
    if bytes > NAMESPACE_BYTES_MAX {
        let message =
            format!("fully qualified namespace {db}.{name} is too long ({bytes} bytes, at most {NAMESPACE_BYTES_MAX})");
        return Err(Error::new(Code::ILLEGAL_OPERATION, message));
    }
    Ok(Namespace::new(db, name)?)
}

impl Out {
    pub(crate) fn parse(spec: ValueRef<'_>, db: &str) -> Result<Out> {
        let mut time_series = None;
        let twice = |name| location(40413, format!("BSON field '$out.{name}' is a duplicate field"));
        let into = match spec {
            ValueRef::String(name) => target(db, name)?,
            ValueRef::Document(doc) => {
                let (mut db, mut coll) = (None, None);
                for (name, value) in doc {
                    match (name, value) {
                        ("db", _) if db.is_some() => return Err(twice(name)),
                        ("coll", _) if coll.is_some() => return Err(twice(name)),
                        ("db", ValueRef::String(text)) => db = Some(text),
                        ("coll", ValueRef::String(text)) => coll = Some(text),
                        (_, ValueRef::Null | ValueRef::Undefined) if matches!(name, "db" | "coll" | "timeseries") => {}
                        ("db" | "coll", other) => {
                            let found = text::type_name(Some(other));
                            let message =
                                format!("BSON field '$out.{name}' is the wrong type '{found}', expected type 'string'");
                            return Err(Error::new(Code::TYPE_MISMATCH, message));
                        }
                        ("timeseries", ValueRef::Document(options)) => {
                            time_series = Some(TimeSeriesOptions::parse(options)?);
                        }
                        ("timeseries", other) => {
                            let found = text::type_name(Some(other));
                            let message =
                                format!("BSON field '$out.{name}' is the wrong type '{found}', expected type 'object'");
                            return Err(Error::new(Code::TYPE_MISMATCH, message));
                        }
                        _ => return Err(location(40415, format!("BSON field '$out.{name}' is an unknown field."))),
                    }
                }
                let missing =
                    |name| location(40414, format!("BSON field '$out.{name}' is missing but a required field"));
                let db = db.ok_or_else(|| missing("db"))?;
                target(db, coll.ok_or_else(|| missing("coll"))?)?
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
        Ok(Out { into, time_series })
    }

    pub(crate) fn write(&self, scope: &Scope<'_>, cursor: Cursor, bypass: bool, interrupt: &Interrupt) -> Result<()> {
        if self.time_series.is_some() || scope.store.buckets_of(&self.into).is_some() {
            return self.write_series(scope, cursor, bypass, interrupt);
        }
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

    /// The measurements go into a time series of another name, whose buckets then take the place of the old ones.
    fn write_series(&self, scope: &Scope<'_>, cursor: Cursor, bypass: bool, interrupt: &Interrupt) -> Result<()> {
        let store = &scope.store;
        let old = store.buckets_of(&self.into);
        let old_options = old.as_ref().map(|buckets| options_of(buckets)).transpose()?;
        let options = match (&self.time_series, &old_options) {
            (Some(given), Some(old)) if given != old => {
                let message = format!("Time field, meta field or buckets of $out differ from those of {}", self.into);
                return Err(location(7_406_103, message));
            }
            (Some(given), _) => given.clone(),
            (None, Some(old)) => old.clone(),
            (None, None) => return Err(Error::internal("$out to no time series")),
        };
        if old.is_none() && (store.collection(&self.into).is_some() || store.view(&self.into).is_some()) {
            let message = format!("Cannot create a time series of the name {}, which something else has", self.into);
            return Err(location(7_268_700, message));
        }
        let of_buckets = match &old {
            Some(old) => old.options.clone(),
            None => bucket_options(&options, DocBuf::new()),
        };
        let unfinished = Namespace::new(self.into.db(), &format!("{UNFINISHED}{}", new_object_id()))?;
        let write = || -> Result<()> {
            create(store, &unfinished, &options, &of_buckets)?;
            insert_all(scope, &unfinished, cursor, bypass, interrupt)?;
            create(store, &self.into, &options, &of_buckets)?;
            Ok(store.replace_time_series(&unfinished, &self.into)?)
        };
        let written = write();
        if written.is_err() {
            // what cannot be dropped now is dropped at the next start
            let _ = store.drop_time_series(&unfinished);
        }
        written
    }

    fn fill(
        &self,
        scope: &Scope<'_>,
        unfinished: &Namespace,
        cursor: Cursor,
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
        insert_all(scope, unfinished, cursor, bypass, interrupt)
    }
}

/// Copies the last documents of a collection into a new capped one, which appears when it is whole.
pub fn clone_as_capped(
    scope: &Scope<'_>,
    source: &Namespace,
    target: &Namespace,
    bytes_max: i64,
    interrupt: &Interrupt,
) -> Result<()> {
    let unfinished = Namespace::new(target.db(), &format!("{UNFINISHED}{}", new_object_id()))?;
    let copy = || -> Result<()> {
        let options = DocBuf::new().with("capped", true).with("size", bytes_max);
        scope.store.create_collection(&unfinished, &options)?;
        let cursor = find(scope, &FindSpec::new(source.clone()), interrupt)?;
        insert_all(scope, &unfinished, cursor, true, interrupt)?;
        Ok(scope.store.rename(&unfinished, target, false)?)
    };
    let copied = copy();
    if copied.is_err() {
        // what cannot be dropped now is dropped at the next start
        let _ = scope.store.drop_collection(&unfinished);
    }
    copied
}

fn insert_all(
    scope: &Scope<'_>,
    into: &Namespace,
    mut cursor: Cursor,
    bypass: bool,
    interrupt: &Interrupt,
) -> Result<()> {
    while let Some(documents) = next_documents(scope, &mut cursor, interrupt)? {
        let spec = InsertSpec {
            namespace: into.clone(),
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

/// Drops the leftovers of `$out`s that were aborted by the end of the process.
pub(crate) fn drop_unfinished(store: &Store) {
    for db in store.list_databases() {
        for collection in store.list_collections(&db) {
            if collection.namespace.collection().starts_with(UNFINISHED) {
                // it stays until the next start then; nothing depends on it
                let _ = store.drop_collection(&collection.namespace);
            }
        }
        for view in store.list_views(&db) {
            if view.namespace.collection().starts_with(UNFINISHED) {
                let _ = store.drop_time_series(&view.namespace);
                let _ = store.drop_view(&view.namespace);
            }
        }
    }
}

fn location(code: i32, message: String) -> Error {
    Error::Lang(arbor_lang::Error::location(code, message))
}
