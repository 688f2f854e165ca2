//! Definitions of collections and indexes, as shards list them, and their copies on other shards.

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;

use crate::fields;
use crate::lock::Guard;
use crate::shard::Shard;
use crate::time_series::BUCKETS;

/// Returns the documents of a reply's only batch.
pub(crate) fn first_batch(reply: Doc<'_>) -> Result<Vec<Doc<'_>>> {
    let cursor = fields::document(reply, "cursor");
    let batch = cursor.and_then(|cursor| fields::array(cursor, "firstBatch"));
    let batch = batch.ok_or_else(|| Error::new(Code::INTERNAL_ERROR, "a shard sent a reply without a cursor"))?;
    if cursor.is_some_and(|cursor| fields::int(cursor, "id") != 0) {
        return Err(Error::new(Code::INTERNAL_ERROR, "a shard did not send all in one batch"));
    }
    Ok(batch.iter().filter_map(|value| if let ValueRef::Document(doc) = value { Some(doc) } else { None }).collect())
}

/// Creates a collection or view as `listCollections` shows it, if it does not exist.
pub(crate) fn create_like(
    listed: Doc<'_>,
    db: &str,
    to: &Shard,
    guard: &Guard<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    create_named(listed, (db, fields::string(listed, "name").unwrap_or_default()), to, guard, interrupt)
}

/// Like [`create_like`], under another name.
pub(crate) fn create_named(
    listed: Doc<'_>,
    (db, name): (&str, &str),
    to: &Shard,
    guard: &Guard<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let options = fields::document(listed, "options").unwrap_or(Doc::empty());
    // buckets are made with their time series
    let series = name.strip_prefix(BUCKETS).filter(|_| options.get("timeseries").is_some());
    let mut create = DocBuf::new().with("create", series.unwrap_or(name));
    for (option, value) in options.iter().filter(|(name, _)| series.is_none() || *name != "clusteredIndex") {
        create.append(option, value);
    }
    match to.call(db, &guard.fenced(create), interrupt) {
        Err(error) if error.code == Code::NAMESPACE_EXISTS => Ok(()),
        other => other.map(drop),
    }
}

pub(crate) fn copy_indexes(
    db: &str,
    name: &str,
    (from, to): (&Shard, &Shard),
    guard: &Guard<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let listed = from.call(db, &DocBuf::new().with("listIndexes", name), interrupt)?;
    let indexes: Vec<DocBuf> = first_batch(listed.as_doc())?
        .into_iter()
        .filter(|index| fields::string(*index, "name") != Some("_id_"))
        .map(as_created)
        .collect();
    if indexes.is_empty() {
        return Ok(());
    }
    let create = DocBuf::new().with("createIndexes", name).with("indexes", &indexes.iter().collect::<ArrayBuf>());
    to.call(db, &guard.fenced(create), interrupt).map(drop)
}

/// Returns a definition as it is given to a shard: without a collation it would get that of the collection there.
pub(crate) fn as_created(listed: Doc<'_>) -> DocBuf {
    let index = fields::without(listed, &["ns", "background"]);
    if index.get("collation").is_some() {
        return index;
    }
    index.with("collation", &DocBuf::new().with("locale", "simple"))
}

/// Returns the usual name of an index over a key.
pub(crate) fn index_name(key: Doc<'_>) -> String {
    let parts = key.iter().map(|(path, direction)| match direction {
        ValueRef::String(word) => format!("{path}_{word}"),
        other => format!("{path}_{}", fields::number_of(other).unwrap_or(1.0)),
    });
    let name = parts.collect::<Vec<String>>().join("_");
    if name == "_id_1" { "_id_".to_owned() } else { name }
}
