//! The routing table of one sharded collection: which shard has which range of the shard key.
//!
//! T1: the lower bounds ascend, the first is below every key, and each range ends where the next begins.

use std::collections::HashMap;

use std::collections::BTreeSet;

use arbor_base::paranoid;
use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ObjectId, Timestamp, ValueRef};
use arbor_command::analysis::is_hashed;
use arbor_command::{Error, Result};
use arbor_lang::matcher::Node;
use arbor_lang::time_series::{TimeSeriesOptions, Unpack};
use arbor_lang::{Context, Filter};
use arbor_query::{shard_key_hash, shard_key_spans};

use crate::fields;
use crate::time_series::{BUCKETS, bucket_of};

pub(crate) struct Table {
    pub namespace: String,
    /// As the user gave it.
    pub key: DocBuf,
    pub unique: bool,
    /// It is one chunk, which stays whole, and is not shown as sharded.
    pub unsplittable: bool,
    /// Collation of statements that name none.
    pub collation: Option<DocBuf>,
    /// The documents are buckets of this time series.
    pub time_series: Option<TimeSeriesOptions>,
    pub epoch: ObjectId,
    pub timestamp: Timestamp,
    /// Value of `config.chunks.uuid`.
    pub uuid: Vec<u8>,
    /// KeyStrings of the lower bounds, one after another.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// For each range its shard, a place in `shards`.
    owners: Vec<u16>,
    /// For each range the version of its last change.
    changed: Vec<(u32, u32)>,
    shards: Vec<String>,
    /// Last version of the chunks of each shard.
    versions: Vec<(u32, u32)>,
}

impl Table {
    /// `collection` is a document of `config.collections`.
    pub(crate) fn begin(namespace: &str, collection: Doc<'_>) -> Result<Table> {
        let key = fields::document(collection, "key").ok_or_else(|| broken(namespace, "it has no key"))?;
        let timestamp = match collection.get("timestamp") {
            Some(ValueRef::Timestamp(timestamp)) => timestamp,
            _ => return Err(broken(namespace, "it has no timestamp")),
        };
        let uuid = match collection.get("uuid") {
            Some(ValueRef::Binary { bytes, .. }) => bytes.to_vec(),
            _ => return Err(broken(namespace, "it has no uuid")),
        };
        Ok(Table {
            namespace: namespace.to_owned(),
            key: key.to_buf(),
            unique: fields::is_true(collection, "unique"),
            unsplittable: fields::is_true(collection, "unsplittable"),
            collation: fields::document(collection, "defaultCollation").map(Doc::to_buf),
            time_series: fields::document(collection, "timeseriesFields").map(TimeSeriesOptions::parse).transpose()?,
            epoch: fields::object_id(collection, "lastmodEpoch").ok_or_else(|| broken(namespace, "it has no epoch"))?,
            timestamp,
            uuid,
            bytes: Vec::new(),
            ends: Vec::new(),
            owners: Vec::new(),
            changed: Vec::new(),
            shards: Vec::new(),
            versions: Vec::new(),
        })
    }

    /// Returns a table without chunks, which says what the keys of documents are.
    pub(crate) fn of_key(namespace: &str, key: &DocBuf) -> Table {
        Table {
            namespace: namespace.to_owned(),
            key: key.clone(),
            unique: false,
            unsplittable: false,
            collation: None,
            time_series: None,
            epoch: ObjectId([0; 12]),
            timestamp: Timestamp { seconds: 0, increment: 0 },
            uuid: Vec::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            owners: Vec::new(),
            changed: Vec::new(),
            shards: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// Adds the next chunk, in the order of the key. `last_max`: the end of the one before.
    pub(crate) fn push(&mut self, chunk: Doc<'_>, last_max: &mut Vec<u8>) -> Result<()> {
        let Chunk { min, max, shard, version } = Chunk::parse(&self.namespace, chunk)?;
        let expected = if self.owners.is_empty() { self.lowest() } else { std::mem::take(last_max) };
        if min != expected || max <= min {
            return Err(broken(&self.namespace, "its chunks leave a gap or overlap"));
        }
        let owner = self.place_of(shard)?;
        self.add(&min, owner, version)?;
        *last_max = max;
        Ok(())
    }

    /// Returns the place of a shard in `shards`.
    fn place_of(&mut self, shard: &str) -> Result<u16> {
        let place = match self.shards.iter().position(|known| known == shard) {
            Some(place) => place,
            None => {
                self.shards.push(shard.to_owned());
                self.versions.push((0, 0));
                self.shards.len() - 1
            }
        };
        u16::try_from(place).map_err(|_| broken(&self.namespace, "it has too many shards"))
    }

    fn add(&mut self, min: &[u8], owner: u16, version: (u32, u32)) -> Result<()> {
        self.bytes.extend_from_slice(min);
        let end = u32::try_from(self.bytes.len()).map_err(|_| broken(&self.namespace, "its bounds are too long"))?;
        self.ends.push(end);
        self.owners.push(owner);
        self.changed.push(version);
        if let Some(known) = self.versions.get_mut(usize::from(owner)) {
            *known = (*known).max(version);
        }
        Ok(())
    }

    /// Checks that the chunks reach the end. Requires all of them.
    pub(crate) fn finish(self, last_max: &[u8]) -> Result<Table> {
        if self.owners.is_empty() || last_max != self.highest() {
            return Err(broken(&self.namespace, "its chunks do not reach the end"));
        }
        let ranges = self.owners.len();
        assert_eq!((self.ends.len(), self.changed.len()), (ranges, ranges), "T1: one bound for each range");
        paranoid!((1..ranges).all(|at| self.low(at - 1) < self.low(at)), "T1: the lower bounds ascend");
        Ok(self)
    }

    fn lowest(&self) -> Vec<u8> {
        self.bound(ValueRef::MinKey)
    }

    fn highest(&self) -> Vec<u8> {
        self.bound(ValueRef::MaxKey)
    }

    fn bound(&self, value: ValueRef<'_>) -> Vec<u8> {
        let mut bound = KeyBuilder::new();
        self.key.as_doc().iter().for_each(|_| {
            bound.push(value, false);
        });
        bound.bytes().to_vec()
    }

    /// Returns a filter for the chunks that were changed since this table was read. A split or merge gives its chunks versions above the last one of
    /// their shard, a move one above all.
    pub(crate) fn changes(&self) -> DocBuf {
        let uuid = ValueRef::Binary { subtype: 4, bytes: &self.uuid };
        let above = |(major, minor)| DocBuf::new().with("$gt", fields::timestamp(major, minor));
        let of_shards = self.shards.iter().zip(&self.versions).map(|(shard, version)| {
            DocBuf::new().with("uuid", uuid).with("shard", shard.as_str()).with("lastmod", &above(*version))
        });
        let moved = DocBuf::new().with("uuid", uuid).with("lastmod", &above(self.last_version()));
        let any: ArrayBuf = of_shards.chain([moved]).collect::<Vec<DocBuf>>().iter().collect();
        DocBuf::new().with("$or", &any)
    }

    /// Returns the table that [`Table::changes`] make of this one; `collection` is its document now.
    /// None: they do not fit, as it is another collection of the name.
    pub(crate) fn with_changes(&self, collection: Doc<'_>, chunks: &[DocBuf]) -> Result<Option<Table>> {
        let mut next = Table::begin(&self.namespace, collection)?;
        if (next.epoch, next.timestamp, &next.uuid) != (self.epoch, self.timestamp, &self.uuid)
            || next.key.as_bytes() != self.key.as_bytes()
        {
            return Ok(None);
        }
        let chunks = chunks.iter().map(|chunk| Chunk::parse(&self.namespace, chunk.as_doc()));
        let mut chunks = chunks.collect::<Result<Vec<Chunk<'_>>>>()?;
        chunks.sort_unstable_by(|one, other| one.min.cmp(&other.min));
        next.bytes.reserve(self.bytes.len());
        next.ends.reserve(self.ends.len());
        next.owners.reserve(self.owners.len());
        next.changed.reserve(self.changed.len());
        let mut copied = Copied { from: self, at: 0, places: vec![None; self.shards.len()], end: self.lowest() };
        for chunk in &chunks {
            copied.until(&chunk.min, &mut next)?;
            if copied.end != chunk.min || chunk.max <= chunk.min {
                return Ok(None);
            }
            let owner = next.place_of(chunk.shard)?;
            next.add(&chunk.min, owner, chunk.version)?;
            copied.end.clone_from(&chunk.max);
            copied.at = self.first_at_or_above(&chunk.max);
        }
        let highest = self.highest();
        copied.until(&highest, &mut next)?;
        if copied.end == highest { next.finish(&highest).map(Some) } else { Ok(None) }
    }

    /// Returns the first range whose lower bound is not below a key.
    fn first_at_or_above(&self, key: &[u8]) -> usize {
        let at = self.find(key);
        if self.low(at) < key { at + 1 } else { at }
    }

    pub(crate) fn chunks(&self) -> usize {
        self.owners.len()
    }

    /// Returns the shards of the chunks in order, each with the number of its neighbouring chunks. Where these are more than `runs_max`,
    /// parts of equal length are counted for the shard that has most of each.
    pub(crate) fn runs(&self, runs_max: usize) -> Vec<(&str, usize)> {
        let changes = self.owners.windows(2).filter(|pair| matches!(pair, [one, next] if one != next)).count();
        let parts = if changes < runs_max { 1 } else { self.owners.len().div_ceil(runs_max) };
        let mut runs: Vec<(u16, usize)> = Vec::new();
        for part in self.owners.chunks(parts) {
            let mut counts = HashMap::<u16, usize>::new();
            part.iter().for_each(|owner| *counts.entry(*owner).or_default() += 1);
            let Some((owner, _)) = counts.into_iter().max_by_key(|(owner, count)| (*count, *owner)) else { continue };
            match runs.last_mut() {
                Some((last, count)) if *last == owner => *count += part.len(),
                _ => runs.push((owner, part.len())),
            }
        }
        assert_eq!(runs.iter().map(|(_, count)| count).sum::<usize>(), self.owners.len(), "each chunk is in one run");
        let name = |owner: u16| self.shards.get(usize::from(owner)).map_or("", String::as_str);
        runs.into_iter().map(|(owner, count)| (name(owner), count)).collect()
    }

    /// Returns the number of chunks of each shard.
    pub(crate) fn chunks_by_shard(&self) -> Vec<(&str, usize)> {
        let mut counts = vec![0; self.shards.len()];
        for owner in &self.owners {
            counts.get_mut(usize::from(*owner)).into_iter().for_each(|count| *count += 1);
        }
        self.shards.iter().map(String::as_str).zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    fn low(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        let end = self.ends.get(at).map_or(self.bytes.len(), |end| *end as usize);
        self.bytes.get(begin..end).unwrap_or_default()
    }

    /// Returns the range that has a key.
    fn find(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.owners.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.low(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low.saturating_sub(1)
    }

    fn shard_at(&self, at: usize) -> &str {
        let owner = self.owners.get(at).map_or(0, |owner| usize::from(*owner));
        self.shards.get(owner).map_or("", String::as_str)
    }

    /// Returns the shard of a key.
    pub(crate) fn shard_of(&self, key: &[u8]) -> &str {
        self.shard_at(self.find(key))
    }

    /// Returns the bounds of the chunks of a shard.
    pub(crate) fn ranges_of(&self, shard: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let high = |at: usize| if at < self.owners.len() { self.low(at).to_vec() } else { self.highest() };
        let own = (0..self.owners.len()).filter(|at| self.shard_at(*at) == shard);
        own.map(|at| (self.low(at).to_vec(), high(at + 1))).collect()
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(String::as_str)
    }

    /// Returns the shards of all documents that can match, and whether the whole key is known.
    pub(crate) fn shards_for(&self, filter: &Filter) -> (Vec<&str>, bool) {
        if self.unsplittable {
            return (self.shards().collect(), true);
        }
        let spans = shard_key_spans(filter, self.key.as_doc());
        let whole = matches!(spans.as_slice(), [only] if only.point);
        let mut owners: BTreeSet<u16> = BTreeSet::new();
        for span in &spans {
            let mut at = self.find(&span.low);
            loop {
                owners.extend(self.owners.get(at));
                at += 1;
                let beyond = span.high.as_deref().is_some_and(|high| self.low(at) >= high);
                if at >= self.owners.len() || beyond || owners.len() == self.shards.len() {
                    break;
                }
            }
        }
        let names = owners.iter().filter_map(|owner| self.shards.get(usize::from(*owner)));
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        if names.is_empty() {
            // nothing can match; one shard says so in the right form
            names.push(self.shard_at(0));
        }
        (names, whole)
    }

    /// Like [`Table::shards_for`], for a filter that may be wrong: the shards say what is wrong with it.
    pub(crate) fn shards_for_filter(&self, filter: Doc<'_>, context: &Context) -> (Vec<&str>, bool) {
        match Filter::parse_query(filter, context) {
            Ok(filter) => self.shards_for(&filter),
            Err(_) => (self.shards().collect(), self.unsplittable),
        }
    }

    /// Like [`Table::shards_for_filter`], for a filter over the measurements in the buckets.
    pub(crate) fn shards_for_measurements(&self, filter: Doc<'_>, context: &Context) -> (Vec<&str>, bool) {
        match (&self.time_series, Filter::parse_query(filter, context)) {
            (Some(options), Ok(filter)) => {
                let nodes = Unpack::of(options).narrow_with_begin(filter.root());
                self.shards_for(&Filter::from_root(Node::And(nodes), filter.collation()))
            }
            _ => (self.shards().collect(), false),
        }
    }

    /// Returns the name of the time series whose buckets these are.
    pub(crate) fn series(&self) -> &str {
        self.namespace.split_once('.').and_then(|(_, name)| name.strip_prefix(BUCKETS)).unwrap_or_default()
    }

    /// Returns the shard key of a measurement's bucket.
    pub(crate) fn key_of_measurement(&self, measurement: Doc<'_>) -> Result<Vec<u8>> {
        match &self.time_series {
            Some(options) => self.key_of_document(bucket_of(options, measurement).as_doc()),
            None => self.key_of_document(measurement),
        }
    }

    /// Returns the shard key of a document as a key of the table. Errors: there is an array at a field of it.
    pub(crate) fn key_of_document(&self, document: Doc<'_>) -> Result<Vec<u8>> {
        let mut builder = KeyBuilder::new();
        if self.unsplittable {
            return Ok(self.lowest());
        }
        for (path, direction) in self.key.as_doc() {
            let value = fields::at_path(document, path).map_err(|()| array_in_key())?;
            let value = value.unwrap_or(ValueRef::Null);
            match is_hashed(direction) {
                true => builder.push(ValueRef::Int64(shard_key_hash(value)), false),
                false => builder.push(value, false),
            };
        }
        Ok(builder.bytes().to_vec())
    }

    /// Returns the shard key that a filter names, in the form of a bound of chunks: `{"a.b": 1}` or `{a: {b: 1}}`.
    pub(crate) fn bound_of_filter(&self, filter: Doc<'_>) -> Result<DocBuf> {
        let named = |path: &str| match filter.get(path) {
            Some(ValueRef::Array(_)) => Err(array_in_key()),
            Some(value) => Ok(value),
            None => Ok(fields::at_path(filter, path).map_err(|()| array_in_key())?.unwrap_or(ValueRef::Null)),
        };
        let value = |(path, direction)| {
            let value = named(path)?;
            Ok((path, if is_hashed(direction) { ValueRef::Int64(shard_key_hash(value)) } else { value }))
        };
        self.key.as_doc().iter().map(value).collect()
    }

    /// Returns the version that a shard must have for this table to be right about it.
    pub(crate) fn version_for(&self, shard: &str) -> DocBuf {
        let owner = self.shards.iter().position(|known| known == shard);
        let (major, minor) = owner.and_then(|owner| self.versions.get(owner)).copied().unwrap_or_default();
        version(self.epoch, self.timestamp, major, minor)
    }

    /// Returns the version of the collection: the last one of any shard.
    pub(crate) fn last_version(&self) -> (u32, u32) {
        self.versions.iter().copied().max().unwrap_or_default()
    }
}

/// A document of `config.chunks`.
struct Chunk<'d> {
    min: Vec<u8>,
    max: Vec<u8>,
    shard: &'d str,
    version: (u32, u32),
}

impl<'d> Chunk<'d> {
    fn parse(namespace: &str, chunk: Doc<'d>) -> Result<Chunk<'d>> {
        let bound = |name| fields::document(chunk, name).ok_or_else(|| broken(namespace, "a chunk has no bounds"));
        let version = match chunk.get("lastmod") {
            Some(ValueRef::Timestamp(Timestamp { seconds, increment })) => (seconds, increment),
            _ => return Err(broken(namespace, "a chunk has no version")),
        };
        Ok(Chunk {
            min: key_of_bound(bound("min")?),
            max: key_of_bound(bound("max")?),
            shard: fields::string(chunk, "shard").ok_or_else(|| broken(namespace, "a chunk has no shard"))?,
            version,
        })
    }
}

/// Ranges of a table that its changes leave as they were.
struct Copied<'t> {
    from: &'t Table,
    /// The next one.
    at: usize,
    /// Places of the shards in the new table, as far as it has them.
    places: Vec<Option<u16>>,
    /// Upper bound of what the new table has.
    end: Vec<u8>,
}

impl Copied<'_> {
    /// Copies the ranges that begin below `limit`, as far as they follow on what is there.
    fn until(&mut self, limit: &[u8], next: &mut Table) -> Result<()> {
        let until = self.from.first_at_or_above(limit);
        if self.at >= until || self.end != self.from.low(self.at) {
            return Ok(());
        }
        for at in self.at..until {
            let owner = self.from.owners.get(at).copied().unwrap_or_default();
            let place = match self.places.get(usize::from(owner)).copied().flatten() {
                Some(place) => place,
                None => {
                    let place = next.place_of(self.from.shard_at(at))?;
                    self.places.get_mut(usize::from(owner)).into_iter().for_each(|slot| *slot = Some(place));
                    place
                }
            };
            next.add(self.from.low(at), place, self.from.changed.get(at).copied().unwrap_or_default())?;
        }
        self.at = until;
        self.end = if until < self.from.chunks() { self.from.low(until).to_vec() } else { self.from.highest() };
        Ok(())
    }
}

fn array_in_key() -> Error {
    Error::new(Code::SHARD_KEY_NOT_FOUND, "Shard key cannot contain array values or array descendants.")
}

/// `shardVersion` of a request.
pub(crate) fn version(epoch: ObjectId, timestamp: Timestamp, major: u32, minor: u32) -> DocBuf {
    DocBuf::new()
        .with("e", ValueRef::ObjectId(epoch))
        .with("t", ValueRef::Timestamp(timestamp))
        .with("v", fields::timestamp(major, minor))
}

/// `shardVersion` for a collection that is not sharded.
pub(crate) fn unsharded() -> DocBuf {
    version(ObjectId([0; 12]), Timestamp { seconds: 0, increment: 0 }, 0, 0)
}

/// Returns the key of a bound of a chunk, whose values are those of the key in its order.
pub(crate) fn key_of_bound(bound: Doc<'_>) -> Vec<u8> {
    let mut builder = KeyBuilder::new();
    bound.iter().for_each(|(_, value)| {
        builder.push(value, false);
    });
    builder.bytes().to_vec()
}

fn broken(namespace: &str, what: &str) -> Error {
    let text = format!("the routing table of {namespace} is not whole: {what}");
    Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text)
}

#[cfg(test)]
mod tests {
    use arbor_bson::identical;

    use super::*;
    use arbor_notation::doc;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use std::time::Instant;

    fn document(key: &str) -> DocBuf {
        doc(&format!(
            "{{key: {key}, timestamp: Timestamp(1, 1), uuid: Binary(4, '00112233445566778899aabbccddeeff'), \
             lastmodEpoch: ObjectId('000102030405060708090a0b')}}"
        ))
    }

    fn collection(key: &str) -> Table {
        Table::begin("db.c", document(key).as_doc()).unwrap()
    }

    fn chunk(min: ValueRef<'_>, max: ValueRef<'_>, shard: &str, major: u32) -> DocBuf {
        let (min, max) = (DocBuf::new().with("a", min), DocBuf::new().with("a", max));
        DocBuf::new()
            .with("uuid", document("{a: 1}").get("uuid").unwrap())
            .with("min", &min)
            .with("max", &max)
            .with("shard", shard)
            .with("lastmod", fields::timestamp(major, 0))
    }

    #[test]
    fn neighbours_of_one_shard_are_one_run() {
        let owners = ["x", "x", "y", "x", "x", "x", "y", "y"];
        let bound = |at: usize| match at {
            0 => ValueRef::MinKey,
            at if at == owners.len() => ValueRef::MaxKey,
            at => ValueRef::Int32(at as i32),
        };
        let chunks: Vec<DocBuf> =
            owners.iter().enumerate().map(|(at, shard)| chunk(bound(at), bound(at + 1), shard, 1)).collect();
        let table = table(&chunks).unwrap();
        assert_eq!(table.runs(4), [("x", 2), ("y", 1), ("x", 3), ("y", 2)]);
        assert_eq!(table.runs(2), [("x", 4), ("y", 4)], "of four neighbours most, or half, are of that shard");
        assert_eq!(table.runs(1), [("x", 8)]);
        assert_eq!(table.chunks_by_shard(), [("x", 5), ("y", 3)]);
    }

    fn table(chunks: &[DocBuf]) -> Result<Table> {
        let mut table = collection("{a: 1}");
        let mut last = Vec::new();
        chunks.iter().try_for_each(|chunk| table.push(chunk.as_doc(), &mut last))?;
        table.finish(&last)
    }

    #[test]
    fn keys_of_documents_are_bounds() {
        let table = collection("{a: 1, 'b.c': 'hashed'}");
        let bound = table.bound_of_filter(doc("{b: {c: 5}, a: 'x', d: 1}").as_doc()).unwrap();
        let hash = shard_key_hash(ValueRef::Int32(5));
        assert_eq!(bound.as_bytes(), DocBuf::new().with("a", "x").with("b.c", hash).as_bytes());
        let bound = table.bound_of_filter(doc("{}").as_doc()).unwrap();
        let hash = shard_key_hash(ValueRef::Null);
        assert_eq!(bound.as_bytes(), DocBuf::new().with("a", ValueRef::Null).with("b.c", hash).as_bytes());
        assert!(table.bound_of_filter(doc("{a: [1]}").as_doc()).is_err());
    }

    fn three() -> Table {
        table(&[
            chunk(ValueRef::MinKey, 0i32.into(), "s0", 1),
            chunk(0i32.into(), 100i32.into(), "s1", 2),
            chunk(100i32.into(), ValueRef::MaxKey, "s0", 3),
        ])
        .unwrap()
    }

    #[test]
    fn keys_and_filters_find_their_shards() {
        let table = three();
        let of = |text: &str| table.shard_of(&table.key_of_document(doc(text).as_doc()).unwrap()).to_owned();
        for (document, shard) in [
            ("{a: -1}", "s0"),
            ("{a: 0}", "s1"),
            ("{a: 99.5}", "s1"),
            ("{a: Long(100)}", "s0"),
            ("{}", "s0"),
            ("{a: 'x'}", "s0"),
            ("{a: MaxKey}", "s0"),
            ("{a: MinKey}", "s0"),
        ] {
            assert_eq!(of(document), shard, "{document}");
        }
        let shards = |text: &str| {
            let (shards, whole) = table.shards_for_filter(doc(text).as_doc(), &Context::new(0));
            (shards.join(","), whole)
        };
        assert_eq!(shards("{a: 5}"), ("s1".to_owned(), true));
        assert_eq!(shards("{a: {$gte: 5, $lt: 100}}"), ("s1".to_owned(), false));
        assert_eq!(shards("{a: {$gte: 5, $lte: 100}}"), ("s0,s1".to_owned(), false));
        assert_eq!(shards("{a: {$in: [-4, 500]}}"), ("s0".to_owned(), false));
        assert_eq!(shards("{b: 1}"), ("s0,s1".to_owned(), false));
        assert_eq!(shards("{a: {$gt: 5, $lt: 1}}").0.split(',').count(), 1);
        assert!(table.key_of_document(doc("{a: [1]}").as_doc()).is_err());
        assert!(identical(table.version_for("s0").get("v").unwrap(), fields::timestamp(3, 0)));
        assert!(identical(table.version_for("s9").get("v").unwrap(), fields::timestamp(0, 0)));
    }

    #[test]
    fn gaps_and_overlaps_are_refused() {
        let low = || chunk(ValueRef::MinKey, 0i32.into(), "s0", 1);
        for chunks in [
            vec![],
            vec![low()],
            vec![low(), chunk(1i32.into(), ValueRef::MaxKey, "s0", 1)],
            vec![low(), chunk((-1i32).into(), ValueRef::MaxKey, "s0", 1)],
            vec![chunk(0i32.into(), ValueRef::MaxKey, "s0", 1)],
            vec![chunk(ValueRef::MinKey, ValueRef::MinKey, "s0", 1)],
            vec![DocBuf::new()],
        ] {
            assert_eq!(table(&chunks).err().map(|error| error.code), Some(Code::CONFLICTING_OPERATION_IN_PROGRESS));
        }
    }

    /// Splits, merges and moves with versions as this router gives them: what their filter finds makes the same table as all chunks.
    #[test]
    fn changes_make_the_same_table() {
        let mut random = StdRng::seed_from_u64(7);
        for round in 0..200 {
            let mut chunks = vec![chunk(ValueRef::MinKey, ValueRef::MaxKey, "s0", 1)];
            let mut former = table(&chunks).unwrap();
            for _ in 0..60 {
                let now = table(&chunks).unwrap();
                let filter = Filter::parse_query(former.changes().as_doc(), &Context::new(0)).unwrap();
                let found = chunks.iter().filter(|chunk| filter.matches(chunk.as_doc()).unwrap());
                let found: Vec<DocBuf> = found.cloned().collect();
                let made = former.with_changes(document("{a: 1}").as_doc(), &found).unwrap();
                let made = made.expect("changes fit");
                assert!(
                    same(&made, &now),
                    "round {round}: {found:?}, {:?} {:?}, {chunks:?}",
                    made.versions,
                    now.versions
                );
                if random.random_bool(0.3) {
                    former = now;
                }
                change(&mut chunks, &mut random);
            }
        }
        let epoch =
            |(name, value)| (name, if name == "lastmodEpoch" { ValueRef::ObjectId(ObjectId([9; 12])) } else { value });
        let other: DocBuf = document("{a: 1}").as_doc().iter().map(epoch).collect();
        assert!(three().with_changes(other.as_doc(), &[]).unwrap().is_none(), "another epoch");
    }

    fn same(one: &Table, other: &Table) -> bool {
        let shard_versions = |table: &Table| {
            let mut of: Vec<_> = table.shards.iter().cloned().zip(table.versions.iter().copied()).collect();
            of.sort();
            of
        };
        let owners = |table: &Table| (0..table.chunks()).map(|at| table.shard_at(at).to_owned()).collect::<Vec<_>>();
        (&one.bytes, &one.ends, &one.changed) == (&other.bytes, &other.ends, &other.changed)
            && (owners(one), shard_versions(one)) == (owners(other), shard_versions(other))
    }

    fn change(chunks: &mut Vec<DocBuf>, random: &mut StdRng) {
        let now = table(chunks).unwrap();
        let at = random.random_range(0..chunks.len());
        let (last, own) = (now.last_version(), now.versions[usize::from(now.owners[at])]);
        let above = |count| fields::timestamp(own.0, last.1.max(own.1) + count);
        let with = |chunk: &DocBuf, name: &str, value: ValueRef<'_>| {
            chunk
                .as_doc()
                .iter()
                .map(|(field, old)| (field, if field == name { value } else { old }))
                .collect::<DocBuf>()
        };
        let shard = |chunk: &DocBuf| chunk.get("shard").unwrap().to_string();
        match random.random_range(0..3) {
            0 => {
                let bound = |name| match fields::document(chunks[at].as_doc(), name).unwrap().get("a") {
                    Some(ValueRef::Int32(bound)) => bound,
                    Some(ValueRef::MinKey) => -1_000_000,
                    _ => 1_000_000,
                };
                let (low, high) = (bound("min"), bound("max"));
                if high - low > 1 {
                    let middle = DocBuf::new().with("a", low.midpoint(high));
                    let upper = with(&with(&chunks[at], "min", (&middle).into()), "lastmod", above(2));
                    chunks[at] = with(&with(&chunks[at], "max", (&middle).into()), "lastmod", above(1));
                    chunks.insert(at + 1, upper);
                }
            }
            1 if at + 1 < chunks.len() && shard(&chunks[at]) == shard(&chunks[at + 1]) => {
                let gone = chunks.remove(at + 1);
                chunks[at] = with(&with(&chunks[at], "max", gone.get("max").unwrap()), "lastmod", above(1));
            }
            _ => {
                let to = ["s0", "s1", "s2", "s3"][random.random_range(0..4)];
                let from = shard(&chunks[at]);
                chunks[at] = with(&with(&chunks[at], "shard", to.into()), "lastmod", fields::timestamp(last.0 + 1, 0));
                if let Some(other) = chunks.iter_mut().find(|chunk| shard(chunk) == from) {
                    *other = with(other, "lastmod", fields::timestamp(last.0 + 1, 1));
                }
            }
        }
    }

    /// A lookup is a binary search without allocation: below 1 us in a release build, where this prints it.
    #[test]
    fn a_million_chunks() {
        const CHUNKS: i32 = 1_000_000;
        let mut table = collection("{a: 1}");
        let mut builder = KeyBuilder::new();
        for at in 0..CHUNKS {
            builder.clear();
            match at {
                0 => builder.push(ValueRef::MinKey, false),
                at => builder.push(ValueRef::Int32(at * 10), false),
            };
            let owner = table.place_of(["s0", "s1", "s2"][at as usize % 3]).unwrap();
            table.add(builder.bytes(), owner, (1, 0)).unwrap();
        }
        let keys: Vec<Vec<u8>> = (0..10_000).map(|n| key_of_bound(DocBuf::new().with("a", n * 997).as_doc())).collect();
        let begun = Instant::now();
        let right = (0..).zip(&keys).filter(|(n, key)| {
            let expected = (n * 997) / 10;
            table.shard_of(key) == ["s0", "s1", "s2"][expected as usize % 3]
        });
        assert_eq!(right.count(), keys.len());
        let each = begun.elapsed() / keys.len() as u32;
        println!("{} chunks, {} bytes, {each:?} a lookup", table.chunks(), table.bytes.len() + 14 * table.chunks());
        assert!(each.as_micros() < 50, "{each:?}");

        let moved = [chunk(500_000i32.into(), 500_010i32.into(), "s9", 2)];
        let begun = Instant::now();
        let next = table.with_changes(document("{a: 1}").as_doc(), &moved).unwrap().unwrap();
        println!("one change of it: {:?}", begun.elapsed());
        assert_eq!((next.chunks(), next.shard_of(&keys[501])), (table.chunks(), table.shard_of(&keys[501])));
        assert_eq!(next.shard_of(&key_of_bound(doc("{a: 500005}").as_doc())), "s9");
    }
}
