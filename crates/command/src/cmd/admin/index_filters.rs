//! Index filters: `planCacheSetFilter`, `planCacheListFilters`, `planCacheClearFilters`; and `planCacheClear`, which names
//! queries in the same way.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_lang::Collation;
use arbor_query::{DocOrName, FilteredQuery, ShapeHash};
use arbor_store::{Collection, Namespace};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn set(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let collection =
        found(call, &namespace)?.ok_or_else(|| Error::bad_value(format!("no such collection: {namespace}")))?;
    let query = asked(call, &collection)?.ok_or_else(|| Error::bad_value("required field query missing"))?;
    let indexes = match call.body.get("indexes") {
        Some(ValueRef::Array(indexes)) => indexes,
        Some(_) => return Err(Error::bad_value("required field indexes must be an array")),
        None => return Err(Error::bad_value("required field indexes missing")),
    };
    if indexes.is_empty() {
        return Err(Error::bad_value("required field indexes must contain at least one index"));
    }
    let read = |index| match DocOrName::read(index) {
        Some(DocOrName::Pattern(pattern)) if pattern.as_doc().is_empty() => {
            Err(Error::bad_value("index specification cannot be empty"))
        }
        Some(index) => Ok(index),
        None => Err(Error::bad_value("each item in indexes must be an object or a string")),
    };
    let indexes = indexes.iter().map(read).collect::<Result<Vec<_>>>()?;
    let database = call.database();
    database.index_filters.set(&collection, &query, indexes)?;
    // what was cached was chosen among all indexes
    let shape = shape_of(&query)?;
    database.plan_cache.clear(&namespace, Some(shape));
    Ok(())
}

pub(crate) fn list(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    call.only(&[])?;
    let collection = call.database().store.collection(&namespace);
    let filters = collection.map(|collection| call.database().index_filters.list(&collection)).unwrap_or_default();
    call.reply.append("filters", &filters.iter().collect::<ArrayBuf>());
    Ok(())
}

pub(crate) fn clear(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let Some(collection) = found(call, &namespace)? else { return Ok(()) };
    let query = asked(call, &collection)?;
    let database = call.database();
    database.index_filters.clear(&collection, query.as_ref())?;
    let shape = query.as_ref().map(shape_of).transpose()?;
    database.plan_cache.clear(&namespace, shape);
    Ok(())
}

/// `planCacheClear`.
pub(crate) fn clear_plans(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let Some(collection) = found(call, &namespace)? else { return Ok(()) };
    let shape = asked(call, &collection)?.as_ref().map(shape_of).transpose()?;
    call.database().plan_cache.clear(&namespace, shape);
    Ok(())
}

/// Returns the collection of the command, if it exists. Errors: a view.
fn found(call: &Call<'_>, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
    let store = &call.database().store;
    if store.buckets_of(namespace).is_some() {
        return Err(arbor_store::Error::NamespaceIsView(namespace.clone()).into());
    }
    store.refuse_view(namespace)?;
    Ok(store.collection(namespace))
}

/// Returns the query that the command names by its documents.
fn asked<'c>(call: &Call<'c>, collection: &Collection) -> Result<Option<FilteredQuery<'c>>> {
    let sort = document(call, "sort")?;
    let projection = document(call, "projection")?;
    let collation = match call.body.get("collation") {
        None => collection.collation.clone(),
        Some(ValueRef::Document(collation)) if collation.is_empty() => {
            return Err(Error::bad_value("optional field collation must not be an empty document"));
        }
        Some(ValueRef::Document(collation)) => Collation::parse(collation)?,
        Some(_) => return Err(Error::bad_value("optional field collation must be an object")),
    };
    match document(call, "query")? {
        Some(filter) => Ok(Some(FilteredQuery {
            filter,
            sort: sort.unwrap_or(Doc::empty()),
            projection: projection.unwrap_or(Doc::empty()),
            collation,
        })),
        None if call.optional("sort").is_some()
            || call.optional("projection").is_some()
            || call.optional("collation").is_some() =>
        {
            Err(Error::bad_value("sort, projection or collation provided without query"))
        }
        None => Ok(None),
    }
}

/// COMPAT: MongoDB takes an array for a document here.
fn document<'c>(call: &Call<'c>, name: &str) -> Result<Option<Doc<'c>>> {
    match call.body.get(name) {
        None => Ok(None),
        Some(ValueRef::Document(doc)) => Ok(Some(doc)),
        Some(ValueRef::Array(array)) => Ok(Some(array.as_doc())),
        Some(_) => Err(Error::new(Code::BAD_VALUE, format!("field {name} must be an object"))),
    }
}

fn shape_of(query: &FilteredQuery<'_>) -> Result<ShapeHash> {
    let (sort, projection) = (Some(query.sort), Some(query.projection));
    Ok(ShapeHash::of_find(query.filter, sort, projection, query.collation.clone())?)
}

/// `$planCacheStats`.
pub(crate) fn plans(call: &Call<'_>, namespace: &Namespace) -> Vec<DocBuf> {
    let host = format!("{}:{}", arbor_protocol::process::host_name(), call.server.options.port);
    let Some(collection) = call.database().store.collection(namespace) else { return Vec::new() };
    let entries = call.database().plan_cache.stats(&collection);
    entries.into_iter().map(|entry| entry.with("host", &host)).collect()
}
