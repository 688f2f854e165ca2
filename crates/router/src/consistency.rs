//! `checkMetadataConsistency`: what the config servers say of collections, compared with what the shards have.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_bson::{Array, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result};

use crate::chunks::serves;
use crate::definitions::first_batch;
use crate::reshard::indexes_of;
use crate::shard::Shard;
use crate::table::key_of_bound;
use crate::time_series::BUCKETS;
use crate::{Request, fields};

/// Collections to compare.
#[derive(Clone, Copy)]
enum Scope<'s> {
    Cluster,
    Database(&'s str),
    Collection(&'s str, &'s str),
}

/// Collections of one database, as each shard lists them.
struct Listed {
    shard: Arc<Shard>,
    collections: BTreeMap<String, DocBuf>,
}

fn found(kind: &str, description: &str, details: DocBuf) -> DocBuf {
    DocBuf::new().with("type", kind).with("description", description).with("details", &details)
}

impl Request<'_> {
    pub(crate) fn check_consistency(&self) -> Result<Answer> {
        let (db, interrupt) = (self.routed.db, self.interrupt());
        let scope = match self.body().first() {
            Some((_, ValueRef::String(""))) => {
                let text = format!("Invalid namespace specified '{db}.'");
                return Err(Error::new(Code::INVALID_NAMESPACE, text));
            }
            Some((_, ValueRef::String(name))) => Scope::Collection(db, name),
            _ if db == "admin" => Scope::Cluster,
            _ => Scope::Database(db),
        };
        let with_indexes = self.body().get("checkIndexes").is_some() && fields::is_true(self.body(), "checkIndexes");
        let databases = self.catalog().read("databases", &DocBuf::new(), "_id", interrupt)?;
        let shards = self.catalog().refresh_shards(interrupt)?;
        let collections = self.catalog().read("collections", &DocBuf::new(), "_id", interrupt)?;
        let mut problems = Vec::new();
        for database in &databases {
            let name = fields::string(database.as_doc(), "_id").unwrap_or_default();
            let primary = fields::string(database.as_doc(), "primary").unwrap_or_default();
            let chosen = match scope {
                Scope::Cluster => true,
                Scope::Database(asked) | Scope::Collection(asked, _) => asked == name,
            };
            if chosen {
                self.check_database((name, primary), &collections, &shards, (scope, with_indexes), &mut problems)?;
            }
        }
        let known = |namespace: &str| {
            let db = namespace.split_once('.').map_or(namespace, |(db, _)| db);
            databases.iter().any(|database| fields::string(database.as_doc(), "_id") == Some(db))
        };
        for collection in &collections {
            let namespace = fields::string(collection.as_doc(), "_id").unwrap_or_default();
            if matches!(scope, Scope::Cluster) && !known(namespace) {
                let text = "Found a collection of a database that does not exist";
                problems.push(found("HiddenShardedCollection", text, DocBuf::new().with("namespace", namespace)));
            }
        }
        self.over_documents(problems, Array::empty())
    }

    fn check_database(
        &self,
        (db, primary): (&str, &str),
        collections: &[DocBuf],
        shards: &[Arc<Shard>],
        (scope, with_indexes): (Scope<'_>, bool),
        problems: &mut Vec<DocBuf>,
    ) -> Result<()> {
        let chosen = |name: &str| !matches!(scope, Scope::Collection(_, asked) if asked != name);
        let mut listed = Vec::new();
        for shard in shards {
            let filter = DocBuf::new().with("type", "collection");
            let list = DocBuf::new().with("listCollections", 1i32).with("filter", &filter);
            let reply = shard.call(db, &list, self.interrupt())?;
            let own = first_batch(reply.as_doc())?.into_iter().filter_map(|collection| {
                let name = fields::string(collection, "name")
                    .filter(|name| !name.starts_with("system.") || name.starts_with(BUCKETS))?;
                chosen(name).then(|| (name.to_owned(), collection.to_buf()))
            });
            listed.push(Listed { shard: shard.clone(), collections: own.collect() });
        }
        let tracked: BTreeMap<&str, &DocBuf> = collections
            .iter()
            .filter_map(|collection| {
                let (own, name) = fields::string(collection.as_doc(), "_id")?.split_once('.')?;
                (own == db && chosen(name)).then_some((name, collection))
            })
            .collect();
        for own in listed.iter().filter(|own| own.shard.name != primary) {
            for name in own.collections.keys().filter(|name| !tracked.contains_key(name.as_str())) {
                let details = DocBuf::new().with("namespace", format!("{db}.{name}").as_str());
                let details = details.with("shard", own.shard.name.as_str());
                let text = "Unsharded collection found on shard different from database primary shard";
                problems.push(found("MisplacedCollection", text, details));
            }
        }
        for (name, collection) in tracked {
            self.check_collection((db, name), collection, &listed, with_indexes, problems)?;
        }
        Ok(())
    }

    fn check_collection(
        &self,
        (db, name): (&str, &str),
        collection: &DocBuf,
        listed: &[Listed],
        with_indexes: bool,
        problems: &mut Vec<DocBuf>,
    ) -> Result<()> {
        let interrupt = self.interrupt();
        let namespace = format!("{db}.{name}");
        let uuid = collection.get("uuid").unwrap_or(ValueRef::Null);
        let about = || DocBuf::new().with("namespace", namespace.as_str()).with("collectionUUID", uuid);
        let key = fields::document(collection.as_doc(), "key").unwrap_or(Doc::empty());
        let chunks = self.catalog().read("chunks", &DocBuf::new().with("uuid", uuid), "min", interrupt)?;
        if chunks.is_empty() {
            let text = "There is a sharded collection without routing table";
            problems.push(found("MissingRoutingTable", text, about()));
            return Ok(());
        }
        check_ranges(&about, key, &chunks, "CorruptedChunkShardKey", problems);
        check_ends(&about, key, &chunks, problems);
        let filter = DocBuf::new().with("ns", namespace.as_str());
        let zones = self.catalog().read("tags", &filter, "min", interrupt)?;
        check_zones(&about, key, &zones, problems);
        let is_owner = |shard: &Shard| {
            chunks.iter().any(|chunk| fields::string(chunk.as_doc(), "shard") == Some(shard.name.as_str()))
        };
        let mut first: Option<(&str, Doc<'_>, Vec<DocBuf>)> = None;
        for own in listed.iter().filter(|own| is_owner(&own.shard)) {
            let of_shard = || about().with("shard", own.shard.name.as_str());
            let Some(here) = own.collections.get(name) else {
                let text = "Found a shard that has chunks of a collection, but not the collection";
                problems.push(found("MissingLocalCollection", text, of_shard()));
                continue;
            };
            let options = fields::document(here.as_doc(), "options").unwrap_or(Doc::empty());
            let indexes = indexes_of(&own.shard, db, name, interrupt)?;
            let unsplittable = fields::is_true(collection.as_doc(), "unsplittable");
            if !unsplittable && !indexes.iter().any(|index| serves(index.as_doc(), key)) {
                let text = "Found sharded collection without a shard key index";
                problems.push(found("MissingShardKeyIndex", text, of_shard().with("shardKey", key)));
            }
            let Some((other, its_options, its_indexes)) = &first else {
                first = Some((own.shard.name.as_str(), options, indexes));
                continue;
            };
            if options.as_bytes() != its_options.as_bytes() {
                let text = "Found collection options that differ between shards";
                let details = of_shard().with("options", options).with("otherShard", *other);
                problems.push(found("CollectionOptionsMismatch", text, details.with("otherOptions", *its_options)));
            }
            if with_indexes {
                check_indexes(&of_shard, (other, its_indexes), &indexes, problems);
            }
        }
        Ok(())
    }
}

fn bound<'d>(range: &'d DocBuf, name: &str) -> Doc<'d> {
    fields::document(range.as_doc(), name).unwrap_or(Doc::empty())
}

/// Finds bounds that are not of the shard key.
fn check_ranges(about: &dyn Fn() -> DocBuf, key: Doc<'_>, ranges: &[DocBuf], kind: &str, problems: &mut Vec<DocBuf>) {
    let is_of_key = |bound: Doc<'_>| bound.iter().map(|(name, _)| name).eq(key.iter().map(|(name, _)| name));
    for range in ranges.iter().filter(|range| !is_of_key(bound(range, "min")) || !is_of_key(bound(range, "max"))) {
        let details = about().with("range", range).with("shardKeyPattern", key);
        problems.push(found(kind, "Found a range with a bound that does not match the shard key", details));
    }
}

/// Finds gaps and overlaps of chunks.
fn check_ends(about: &dyn Fn() -> DocBuf, key: Doc<'_>, chunks: &[DocBuf], problems: &mut Vec<DocBuf>) {
    let all = |value: ValueRef<'static>| -> DocBuf { key.iter().map(|(path, _)| (path, value)).collect() };
    let (low, high) = (all(ValueRef::MinKey), all(ValueRef::MaxKey));
    if let Some(first) = chunks.first().filter(|first| key_of_bound(bound(first, "min")) != key_of_bound(low.as_doc()))
    {
        let details = about().with("minKeyObj", bound(first, "min")).with("globalMin", &low);
        problems.push(found("RoutingTableMissingMinKey", "The first chunk does not begin at the lowest key", details));
    }
    if let Some(last) = chunks.last().filter(|last| key_of_bound(bound(last, "max")) != key_of_bound(high.as_doc())) {
        let details = about().with("maxKeyObj", bound(last, "max")).with("globalMax", &high);
        problems.push(found("RoutingTableMissingMaxKey", "The last chunk does not reach the highest key", details));
    }
    for (before, after) in chunks.iter().zip(chunks.iter().skip(1)) {
        let kind = match key_of_bound(bound(before, "max")).cmp(&key_of_bound(bound(after, "min"))) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Less => "RoutingTableRangeGap",
            std::cmp::Ordering::Greater => "RoutingTableRangeOverlap",
        };
        let details = about().with("firstChunk", before).with("secondChunk", after);
        problems.push(found(kind, "Two chunks that follow each other leave a gap or overlap", details));
    }
}

fn check_zones(about: &dyn Fn() -> DocBuf, key: Doc<'_>, zones: &[DocBuf], problems: &mut Vec<DocBuf>) {
    // a zone may name the first fields of the key alone
    let is_prefix = |bound: Doc<'_>| {
        let mut names = key.iter().map(|(name, _)| name);
        bound.iter().all(|(name, _)| names.next() == Some(name))
    };
    for zone in zones.iter().filter(|zone| !is_prefix(bound(zone, "min")) || !is_prefix(bound(zone, "max"))) {
        let details = about().with("zone", zone).with("shardKeyPattern", key);
        problems.push(found("CorruptedZoneShardKey", "Found a zone whose bounds do not match the shard key", details));
    }
    for (before, after) in zones.iter().zip(zones.iter().skip(1)) {
        if key_of_bound(bound(before, "max")) > key_of_bound(bound(after, "min")) {
            let details = about().with("firstZone", before).with("secondZone", after);
            problems.push(found("ZonesRangeOverlap", "Found zones that overlap", details));
        }
    }
}

/// Finds indexes that two shards do not have alike.
fn check_indexes(
    of_shard: &dyn Fn() -> DocBuf,
    (other, its): (&str, &[DocBuf]),
    own: &[DocBuf],
    problems: &mut Vec<DocBuf>,
) {
    let names = |indexes: &[DocBuf]| -> BTreeMap<String, DocBuf> {
        let named = |index: &DocBuf| Some((fields::string(index.as_doc(), "name")?.to_owned(), index.clone()));
        indexes.iter().filter_map(named).collect()
    };
    let (its, own) = (names(its), names(own));
    for name in its.keys().chain(own.keys().filter(|name| !its.contains_key(*name))) {
        let (there, here) = (its.get(name), own.get(name));
        if there.map(DocBuf::as_bytes) != here.map(DocBuf::as_bytes) {
            let details = of_shard().with("indexName", name.as_str()).with("otherShard", other);
            let info = DocBuf::new().with("missing", here.is_none()).with("missingOnOther", there.is_none());
            problems.push(found(
                "InconsistentIndex",
                "Found an index that two shards do not have alike",
                details.with("info", &info),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    fn kinds(check: impl Fn(&dyn Fn() -> DocBuf, &mut Vec<DocBuf>)) -> Vec<String> {
        let mut problems = Vec::new();
        check(&|| DocBuf::new().with("namespace", "d.c"), &mut problems);
        let kind = |problem: &DocBuf| fields::string(problem.as_doc(), "type").unwrap_or_default().to_owned();
        problems.iter().map(kind).collect()
    }

    #[test]
    fn gaps_and_overlaps_are_found() {
        let key = doc("{a: 1}");
        let whole = ["{min: {a: MinKey}, max: {a: 1}}", "{min: {a: 1}, max: {a: MaxKey}}"];
        for (chunks, expected) in [
            (whole.to_vec(), vec![]),
            (vec!["{min: {a: 0}, max: {a: MaxKey}}"], vec!["RoutingTableMissingMinKey"]),
            (vec!["{min: {a: MinKey}, max: {a: 9}}"], vec!["RoutingTableMissingMaxKey"]),
            (vec![whole[0], "{min: {a: 2}, max: {a: MaxKey}}"], vec!["RoutingTableRangeGap"]),
            (vec![whole[0], "{min: {a: 0}, max: {a: MaxKey}}"], vec!["RoutingTableRangeOverlap"]),
        ] {
            let chunks: Vec<DocBuf> = chunks.into_iter().map(doc).collect();
            assert_eq!(kinds(|about, all| check_ends(about, key.as_doc(), &chunks, all)), expected, "{chunks:?}");
        }
    }

    #[test]
    fn bounds_of_other_fields_are_found() {
        let key = doc("{a: 1, b: 1}");
        let ranges = [doc("{min: {a: 1}, max: {a: 2}}")];
        assert_eq!(kinds(|about, all| check_ranges(about, key.as_doc(), &ranges, "K", all)), ["K"]);
        assert_eq!(kinds(|about, all| check_zones(about, key.as_doc(), &ranges, all)), Vec::<String>::new());
        let zones = [doc("{min: {b: 1}, max: {b: 5}}"), doc("{min: {b: 2}, max: {b: 9}}")];
        let expected = ["CorruptedZoneShardKey", "CorruptedZoneShardKey", "ZonesRangeOverlap"];
        assert_eq!(kinds(|about, all| check_zones(about, key.as_doc(), &zones, all)), expected);
    }

    #[test]
    fn indexes_are_compared_by_name() {
        let (one, other) =
            ([doc("{name: 'a'}"), doc("{name: 'b', v: 2}")], [doc("{name: 'b', v: 3}"), doc("{name: 'c'}")]);
        let of_shard = || DocBuf::new();
        let mut problems = Vec::new();
        check_indexes(&of_shard, ("s0", &one), &other, &mut problems);
        let details = |problem: &DocBuf| fields::document(problem.as_doc(), "details").unwrap().to_string();
        let name = |text: &String| ["'a'", "'b'", "'c'"].iter().any(|name| text.contains(&name.replace('\'', "")));
        assert!(problems.len() == 3 && problems.iter().map(details).all(|text| name(&text)), "{problems:?}");
    }
}
