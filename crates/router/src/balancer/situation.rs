//! The facts that a round is planned from: documents of the config servers, and sizes that the shards report.
//!
//! The chunks of a collection are read only if something may have to be done: a shard is draining, zones are defined, or the shards
//! differ by enough. Its chunks' sizes are asked for then.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;

use super::plan::{Chunk, Collection, DIFFERENCE_MIN, ShardState, ZoneRange};
use crate::catalog::Catalog;
use crate::fields;
use crate::shard::Shard;
use crate::table::key_of_bound;

const MEGABYTE: u64 = 1 << 20;
/// MongoDB's size of a chunk.
const CHUNK_MEGABYTES: u64 = 128;
/// The sizes that `config.settings` may name.
const CHUNK_MEGABYTES_MAX: u64 = 1024;
/// Names, and ranges, in one request.
const ASKED_TOGETHER: usize = 10_000;

pub(crate) struct Situation {
    pub names: Vec<String>,
    pub shards: Vec<ShardState>,
    /// Those of which the chunks were read.
    pub collections: Vec<Collection>,
    /// Their namespaces, keys and documents of chunks.
    pub known: Vec<Known>,
}

pub(crate) struct Known {
    pub namespace: String,
    pub key: DocBuf,
    pub chunks: Vec<DocBuf>,
    /// The bounds of the zones, as chunks have them, by their KeyStrings.
    pub borders: BTreeMap<Vec<u8>, DocBuf>,
    pub merges: bool,
}

/// The collections to read.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'n> {
    /// All collections in which something may have to be moved.
    Unbalanced,
    /// One collection, whether or not its chunks may be moved.
    One(&'n str),
    /// The chunks of all collections that may be moved, without their sizes.
    Chunks,
    /// The chunks of one collection, without their sizes.
    ChunksOf(&'n str),
}

impl Situation {
    pub(crate) fn read(catalog: &Catalog, selection: Selection<'_>, interrupt: &Interrupt) -> Result<Situation> {
        let connections = catalog.refresh_shards(interrupt)?;
        let documents = catalog.read("shards", &DocBuf::new(), "_id", interrupt)?;
        let names: Vec<String> =
            documents.iter().filter_map(|doc| fields::string(doc.as_doc(), "_id")).map(str::to_owned).collect();
        let tags = catalog.read("tags", &DocBuf::new(), "min", interrupt)?;
        let mut zones: Vec<&str> = tags.iter().filter_map(|range| fields::string(range.as_doc(), "tag")).collect();
        zones.sort_unstable();
        zones.dedup();
        let zone = |name: &str| zones.binary_search(&name).ok();
        let shards: Vec<ShardState> = documents
            .iter()
            .map(|doc| ShardState {
                draining: fields::is_true(doc.as_doc(), "draining"),
                zones: fields::array(doc.as_doc(), "tags")
                    .iter()
                    .flat_map(|tags| tags.iter())
                    .filter_map(|tag| zone(fields::text(tag)?))
                    .collect(),
            })
            .collect();
        let mut found = Situation { names, shards, collections: Vec::new(), known: Vec::new() };
        let chunk_bytes = chunk_bytes(catalog, interrupt)?;
        let filter = match selection {
            Selection::One(namespace) | Selection::ChunksOf(namespace) => DocBuf::new().with("_id", namespace),
            _ => DocBuf::new(),
        };
        let collections = catalog.read("collections", &filter, "_id", interrupt)?;
        let read: Vec<Doc<'_>> = collections
            .iter()
            .map(DocBuf::as_doc)
            .filter(|doc| !fields::is_true(*doc, "dropped"))
            .filter(|doc| matches!(selection, Selection::One(_) | Selection::ChunksOf(_)) || is_enabled(*doc))
            .collect();
        let sizes = match selection {
            Selection::Chunks | Selection::ChunksOf(_) => vec![Vec::new(); read.len()],
            _ => found.data_sizes(&connections, &read, interrupt)?,
        };
        let draining = found.shards.iter().any(|shard| shard.draining);
        for (doc, sizes) in read.into_iter().zip(sizes) {
            let namespace = fields::string(doc, "_id").unwrap_or_default();
            let own: Vec<&DocBuf> =
                tags.iter().filter(|range| fields::string(range.as_doc(), "ns") == Some(namespace)).collect();
            let max = u64::try_from(fields::int(doc, "maxChunkSizeBytes")).ok().filter(|max| *max > 0);
            let max = max.unwrap_or(chunk_bytes);
            let (low, high) = (sizes.iter().min().unwrap_or(&0), sizes.iter().max().unwrap_or(&0));
            let differs = high - low >= DIFFERENCE_MIN * max;
            if !draining && !differs && own.is_empty() && matches!(selection, Selection::Unbalanced) {
                continue;
            }
            found.add(catalog, doc, &own, &zone, max, interrupt)?;
            if !matches!(selection, Selection::Chunks | Selection::ChunksOf(_)) {
                found.size_chunks(&connections, interrupt)?;
            }
        }
        Ok(found)
    }

    /// Returns the bytes of each collection on each shard.
    fn data_sizes(
        &self,
        connections: &[Arc<Shard>],
        collections: &[Doc<'_>],
        interrupt: &Interrupt,
    ) -> Result<Vec<Vec<u64>>> {
        let mut sizes = vec![vec![0; self.names.len()]; collections.len()];
        for (at, some) in collections.chunks(ASKED_TOGETHER).enumerate() {
            let names: ArrayBuf = some.iter().filter_map(|doc| doc.get("_id")).collect();
            let command = DocBuf::new().with("_shardsvrDataSizes", &names);
            let asked: Vec<(usize, &Arc<Shard>, DocBuf)> = self
                .names
                .iter()
                .enumerate()
                .filter_map(|(at, name)| Some((at, connections.iter().find(|own| own.name == *name)?, command.clone())))
                .collect();
            for (shard, reply) in ask(asked, interrupt)? {
                let rows = sizes.iter_mut().skip(at * ASKED_TOGETHER);
                rows.zip(numbers(&reply)).for_each(|(row, bytes)| {
                    if let Some(own) = row.get_mut(shard) {
                        *own = bytes;
                    }
                });
            }
        }
        Ok(sizes)
    }

    /// Reads the chunks and zones of a collection.
    fn add(
        &mut self,
        catalog: &Catalog,
        doc: Doc<'_>,
        tags: &[&DocBuf],
        zone: &impl Fn(&str) -> Option<usize>,
        chunk_bytes_max: u64,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let namespace = fields::string(doc, "_id").unwrap_or_default();
        let broken = |what: &str| Error::new(Code::INTERNAL_ERROR, format!("config: {namespace}: {what}"));
        let key = fields::document(doc, "key").ok_or_else(|| broken("it has no key"))?;
        let uuid = doc.get("uuid").ok_or_else(|| broken("it has no uuid"))?;
        let rows = catalog.read("chunks", &DocBuf::new().with("uuid", uuid), "min", interrupt)?;
        let mut chunks = Vec::with_capacity(rows.len());
        for row in &rows {
            let row = row.as_doc();
            let low = fields::document(row, "min").map(key_of_bound).ok_or_else(|| broken("a chunk has no bounds"))?;
            let owner = fields::string(row, "shard").unwrap_or_default();
            let shard = self.names.iter().position(|name| name == owner);
            let shard = shard.ok_or_else(|| broken("a chunk is on a shard that is not there"))?;
            chunks.push(Chunk { low, shard, bytes: 0, jumbo: fields::is_true(row, "jumbo") });
        }
        let (mut zones, mut borders) = (Vec::new(), BTreeMap::new());
        for range in tags {
            let bound = |name| fields::document(range.as_doc(), name).map(|bound| whole_bound(key, bound));
            let (Some(min), Some(max)) = (bound("min"), bound("max")) else { continue };
            let Some(zone) = fields::string(range.as_doc(), "tag").and_then(zone) else { continue };
            let (low, high) = (key_of_bound(min.as_doc()), key_of_bound(max.as_doc()));
            borders.insert(low.clone(), min);
            borders.insert(high.clone(), max);
            zones.push(ZoneRange { low, high, zone });
        }
        let end = rows.last().and_then(|last| fields::document(last.as_doc(), "max")).map(key_of_bound);
        let end = end.ok_or_else(|| broken("it has no chunks"))?;
        self.collections.push(Collection { chunks, end, zones, chunk_bytes_max, enabled: true });
        let merges = doc.get("enableAutoMerge").is_none() || fields::is_true(doc, "enableAutoMerge");
        self.known.push(Known { namespace: namespace.to_owned(), key: key.to_buf(), chunks: rows, borders, merges });
        Ok(())
    }

    /// Asks for the sizes of the chunks of the last collection.
    fn size_chunks(&mut self, connections: &[Arc<Shard>], interrupt: &Interrupt) -> Result<()> {
        let (Some(collection), Some(known)) = (self.collections.last_mut(), self.known.last()) else { return Ok(()) };
        let mut asked = Vec::new();
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.names.len()];
        for (at, chunk) in collection.chunks.iter().enumerate() {
            if let Some(places) = places.get_mut(chunk.shard) {
                places.push(at);
            }
        }
        for (shard, name) in self.names.iter().enumerate() {
            let (Some(places), Some(connection)) =
                (places.get(shard), connections.iter().find(|own| own.name == *name))
            else {
                continue;
            };
            let mut bounds = ArrayBuf::new();
            for row in places.iter().filter_map(|at| known.chunks.get(*at)) {
                for name in ["min", "max"] {
                    let bound = fields::document(row.as_doc(), name).map(key_of_bound).unwrap_or_default();
                    bounds.push(ValueRef::Binary { subtype: 0, bytes: &bound });
                }
            }
            if !places.is_empty() {
                let command = DocBuf::new().with("_shardsvrRangeSizes", known.namespace.as_str());
                asked.push((shard, connection, command.with("key", &known.key).with("bounds", &bounds)));
            }
        }
        for (shard, reply) in ask(asked, interrupt)? {
            let Some(places) = places.get(shard) else { continue };
            for (at, bytes) in places.iter().zip(numbers(&reply)) {
                if let Some(chunk) = collection.chunks.get_mut(*at) {
                    chunk.bytes = bytes;
                }
            }
        }
        Ok(())
    }
}

/// Sends a command to each of some shards, which work at once.
fn ask(asked: Vec<(usize, &Arc<Shard>, DocBuf)>, interrupt: &Interrupt) -> Result<Vec<(usize, DocBuf)>> {
    let begun: Vec<_> = asked
        .into_iter()
        .map(|(at, shard, command)| (at, shard, shard.begin("admin", &command, &[], interrupt), command))
        .collect();
    // every reply is read, whatever the others say
    let replies: Vec<Result<(usize, DocBuf)>> = begun
        .into_iter()
        .map(|(at, shard, begun, command)| Ok((at, shard.end(begun, "admin", &command, &[], interrupt)?)))
        .collect();
    replies.into_iter().collect()
}

fn numbers(reply: &DocBuf) -> Vec<u64> {
    let sizes = fields::array(reply.as_doc(), "sizes");
    let sizes = sizes.iter().flat_map(|sizes| sizes.iter());
    sizes.map(|size| if let ValueRef::Int64(size) = size { u64::try_from(size).unwrap_or(0) } else { 0 }).collect()
}

/// Returns true if the chunks of a collection may be moved.
fn is_enabled(collection: Doc<'_>) -> bool {
    let permits = collection.get("permitMigrations").is_none() || fields::is_true(collection, "permitMigrations");
    permits && !fields::is_true(collection, "noBalance") && !fields::is_true(collection, "unsplittable")
}

/// Returns the size of chunks where a collection does not say another.
fn chunk_bytes(catalog: &Catalog, interrupt: &Interrupt) -> Result<u64> {
    let setting = catalog.read_one("settings", "chunksize".into(), interrupt)?.unwrap_or_default();
    let own = u64::try_from(fields::int(setting.as_doc(), "value")).ok();
    Ok(own.filter(|own| (1..=CHUNK_MEGABYTES_MAX).contains(own)).unwrap_or(CHUNK_MEGABYTES) * MEGABYTE)
}

/// Returns a bound of a zone with all fields of the key: it may name the first ones only. Of the end of all keys, the others are so too.
fn whole_bound(key: Doc<'_>, bound: Doc<'_>) -> DocBuf {
    let is_end = bound.iter().all(|(_, value)| matches!(value, ValueRef::MaxKey));
    let rest = if is_end { ValueRef::MaxKey } else { ValueRef::MinKey };
    key.iter().map(|(path, _)| (path, bound.get(path).unwrap_or(rest))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn bounds_of_zones_are_completed() {
        let whole = |bound: &str| whole_bound(doc("{a: 1, 'b.c': 1}").as_doc(), doc(bound).as_doc());
        assert_eq!(whole("{a: 5}").as_bytes(), doc("{a: 5, 'b.c': MinKey}").as_bytes());
        assert_eq!(whole("{a: MaxKey}").as_bytes(), doc("{a: MaxKey, 'b.c': MaxKey}").as_bytes());
        assert_eq!(whole("{a: 5, 'b.c': 1}").as_bytes(), doc("{a: 5, 'b.c': 1}").as_bytes());
    }

    #[test]
    fn collections_have_a_switch() {
        for (text, expected) in [
            ("{}", true),
            ("{noBalance: false}", true),
            ("{noBalance: true}", false),
            ("{permitMigrations: false}", false),
            ("{unsplittable: true}", false),
        ] {
            assert_eq!(is_enabled(doc(text).as_doc()), expected, "{text}");
        }
    }
}
