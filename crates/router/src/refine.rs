//! `refineCollectionShardKey`: more fields at the end of a shard key.
//!
//! No document moves: each chunk keeps its documents, since its bounds get the lowest value of the new fields. F1: the key and the bounds of
//! all chunks and zones change in one transaction of the config servers; the shards refuse requests of the version before.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::analysis::checked_key;
use arbor_command::{Error, Result};

use crate::administration::Known;
use crate::catalog::{deletes, inserts, updates};
use crate::chunks::{check_unique_indexes, replacement, serves};
use crate::lock::Guard;
use crate::moves::FINISH_MAX;
use crate::reshard::indexes_of;
use crate::table::Table;
use crate::{Request, fields};

impl Request<'_> {
    pub(crate) fn refine_shard_key(&self) -> Result<DocBuf> {
        let (namespace, interrupt) = (self.text("refineCollectionShardKey")?, self.interrupt());
        let key = checked_key("refineCollectionShardKey", self.body())?;
        let guard = self.lock_for_move(namespace)?;
        let table = self.sharded(namespace)?;
        if table.key.as_bytes() == key.as_bytes() {
            return Ok(DocBuf::new());
        }
        let Some(added) = added_fields(table.key.as_doc(), key.as_doc()) else {
            let text = format!(
                "refineCollectionShardKey shard key {} must be a proper prefix of the proposed one {}",
                table.key.as_doc(),
                key.as_doc()
            );
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        };
        let (db, name) = namespace.split_once('.').unwrap_or_default();
        for shard in self.shards_named(&table.shards().collect::<Vec<_>>())? {
            let indexes = indexes_of(&shard, db, name, interrupt)?;
            let definitions: Vec<Doc<'_>> = indexes.iter().map(DocBuf::as_doc).collect();
            let is_unique = |index: &Doc<'_>| !table.unique || fields::is_true(*index, "unique");
            if !definitions.iter().filter(|index| serves(**index, key.as_doc())).any(is_unique) {
                let text =
                    "Please create an index that starts with the proposed shard key before refining the shard key";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            check_unique_indexes(&definitions, key.as_doc())?;
            // what has left the shard is described by the key of before
            self.wait_for_ranges(&table, &shard, &guard, &|| guard.renew(interrupt))?;
        }
        let shards = self.catalog().refresh_shards(interrupt)?;
        let blocked = self.set_ownership(&shards, namespace, Known::Blocked, &guard);
        let committed = blocked.and_then(|()| self.commit_refined(namespace, &key, &added, &guard));
        let table = self.end_block(namespace, &guard, &committed);
        let is_refined =
            |table: &Option<Arc<Table>>| table.as_ref().is_some_and(|now| now.key.as_bytes() == key.as_bytes());
        match (table, committed) {
            (Ok(table), _) if is_refined(&table) => Ok(DocBuf::new()),
            (Err(error), Ok(())) => Err(error),
            (_, committed) => committed.map(|()| DocBuf::new()),
        }
    }

    fn commit_refined(&self, namespace: &str, key: &DocBuf, added: &DocBuf, guard: &Guard<'_>) -> Result<()> {
        let interrupt = self.interrupt().within(FINISH_MAX);
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} was dropped meanwhile"));
        let collection = self.catalog().read_one("collections", namespace.into(), &interrupt)?.ok_or_else(missing)?;
        let refined: DocBuf = collection
            .as_doc()
            .iter()
            .map(|(field, value)| match field {
                "key" => (field, ValueRef::Document(key.as_doc())),
                "lastmodEpoch" => (field, ValueRef::ObjectId(arbor_protocol::topology::new_object_id())),
                "timestamp" => (field, ValueRef::Timestamp(crate::catalog::now())),
                _ => (field, value),
            })
            .collect();
        let uuid = collection.get("uuid").unwrap_or(ValueRef::Null);
        let extended = DocBuf::new().with("q", &DocBuf::new().with("uuid", uuid)).with("multi", true);
        let own = fields::document(collection.as_doc(), "key").unwrap_or(Doc::empty());
        let mut commands = vec![
            updates("collections", &[replacement(&refined)]),
            updates("chunks", &[extended.with("u", &longer_bounds(own, added))]),
        ];
        let of_collection = DocBuf::new().with("ns", namespace);
        let of_zones = self.lock_zones()?;
        let zones = self.catalog().read("tags", &of_collection, "min", &interrupt)?;
        if !zones.is_empty() {
            let zones: Vec<DocBuf> = zones.iter().map(|zone| longer_zone(zone, own, added)).collect();
            commands.push(deletes("tags", &of_collection));
            commands.push(inserts("tags", &zones));
        }
        self.catalog().transaction([guard, &of_zones], &commands, &interrupt)
    }
}

/// Returns the fields that a key has behind those of another one, with the lowest value. None: it does not begin with it, or has no more.
fn added_fields(own: Doc<'_>, key: Doc<'_>) -> Option<DocBuf> {
    let mut rest = key.iter();
    let same = own.iter().all(|(path, direction)| {
        rest.next().is_some_and(|(name, given)| name == path && arbor_bson::compare(direction, given).is_eq())
    });
    let added: DocBuf = rest.map(|(path, _)| (path, ValueRef::MinKey)).collect();
    (same && !added.as_doc().is_empty()).then_some(added)
}

fn with_values(fields: Doc<'_>, value: ValueRef<'static>) -> DocBuf {
    fields.iter().map(|(path, _)| (path, value)).collect()
}

/// Returns the pipeline that gives the chunks bounds with more fields. A chunk that was too large for its key may be split now.
fn longer_bounds(own: Doc<'_>, added: &DocBuf) -> ArrayBuf {
    let literal = |doc: &DocBuf| DocBuf::new().with("$literal", doc);
    let merged = |bound: &str, rest: &DocBuf| {
        let mut parts = ArrayBuf::new();
        parts.push(bound);
        parts.push(rest);
        DocBuf::new().with("$mergeObjects", &parts)
    };
    let end = with_values(own, ValueRef::MaxKey);
    let mut equal = ArrayBuf::new();
    equal.push("$max");
    equal.push(&literal(&end));
    let mut choice = ArrayBuf::new();
    choice.push(&DocBuf::new().with("$eq", &equal));
    choice.push(&literal(&with_values(added.as_doc(), ValueRef::MaxKey)));
    choice.push(&literal(added));
    let high = merged("$max", &DocBuf::new().with("$cond", &choice));
    let set = DocBuf::new().with("min", &merged("$min", &literal(added))).with("max", &high);
    [DocBuf::new().with("$set", &set), DocBuf::new().with("$unset", "jumbo")].iter().collect()
}

fn longer_zone(zone: &DocBuf, own: Doc<'_>, added: &DocBuf) -> DocBuf {
    let end = with_values(own, ValueRef::MaxKey);
    let longer = |name: &str| {
        let bound = fields::document(zone.as_doc(), name).unwrap_or(Doc::empty());
        let value = if bound.as_bytes() == end.as_bytes() { ValueRef::MaxKey } else { ValueRef::MinKey };
        // a bound that is a prefix of the key stays one
        let is_whole = bound.iter().count() == own.iter().count();
        let rest = if is_whole { with_values(added.as_doc(), value) } else { DocBuf::new() };
        bound.iter().chain(rest.as_doc().iter()).collect::<DocBuf>()
    };
    let (min, max) = (longer("min"), longer("max"));
    let id: DocBuf = fields::document(zone.as_doc(), "_id")
        .unwrap_or(Doc::empty())
        .iter()
        .map(|(field, value)| if field == "min" { (field, ValueRef::Document(min.as_doc())) } else { (field, value) })
        .collect();
    zone.as_doc()
        .iter()
        .map(|(field, value)| match field {
            "_id" => (field, ValueRef::Document(id.as_doc())),
            "min" => (field, ValueRef::Document(min.as_doc())),
            "max" => (field, ValueRef::Document(max.as_doc())),
            _ => (field, value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn keys_are_extended_at_their_end() {
        let added = |own: &str, key: &str| {
            added_fields(doc(own).as_doc(), doc(key).as_doc()).map(|doc| doc.as_doc().to_string())
        };
        assert_eq!(added("{a: 1}", "{a: 1, b: 1}"), Some("{ b: MinKey }".to_owned()));
        assert_eq!(added("{a: 'hashed'}", "{a: 'hashed', b: 1, c: 1}"), Some("{ b: MinKey, c: MinKey }".to_owned()));
        for (own, key) in [("{a: 1}", "{a: 1}"), ("{a: 1}", "{b: 1, a: 1}"), ("{a: 1}", "{a: 'hashed', b: 1}")] {
            assert_eq!(added(own, key), None, "{key}");
        }
    }

    #[test]
    fn zones_get_the_lowest_value_of_new_fields() {
        let zone = doc("{_id: {ns: 'd.c', min: {a: 1}}, ns: 'd.c', min: {a: 1}, max: {a: MaxKey}, tag: 'z'}");
        let longer = longer_zone(&zone, doc("{a: 1}").as_doc(), &doc("{b: MinKey}"));
        let expected = "{_id: {ns: 'd.c', min: {a: 1, b: MinKey}}, ns: 'd.c', min: {a: 1, b: MinKey}, \
            max: {a: MaxKey, b: MaxKey}, tag: 'z'}";
        assert_eq!(longer.as_bytes(), doc(expected).as_bytes());
    }
}
