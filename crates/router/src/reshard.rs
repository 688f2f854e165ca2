//! Another shard key for a collection, while clients read and write it.
//!
//! The router copies the documents of all shards (the donors) into a collection of another name on the shards that are to have them
//! (the recipients), as it copies a chunk that moves, and puts it in the place of the old one.
//!
//! G1: until the config servers name the new key, by one transaction that also proves that this router still has the lock of the
//! collection, the old collection is the collection: whatever ends before that leaves it as it is. G2: after it the new one is: the document
//! in `config.collections` says which collection is to be put in its place (`resharding`), and requests are refused until that is done on all
//! shards, by this router or by the one that finds the block. G3: `_id` is unique over all shards, else a document of one shard would take
//! the place of another's; both collections have the same number of documents before the change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ObjectId, ValueRef};
use arbor_command::analysis::{checked_key, is_hashed};
use arbor_command::{Error, MOVE_IS_OVER, Result};
use arbor_query::Interrupt;
use arbor_store::RESHARDING_PREFIX;
use uuid::Uuid;

use crate::administration::Known;
use crate::catalog::{deletes, inserts, updates};
use crate::chunks::{Owners, check_names, check_unique_indexes, new_chunks, new_collection, replacement, serves};
use crate::definitions::{as_created, create_named, first_batch, index_name};
use crate::lock::Guard;
use crate::moves::{BUSY_MAX, FEW_CHANGES, FINISH_MAX, NAP, ROUNDS_MAX, list, retried};
use crate::rows::{Merge, Order, SORT_KEY, Stream};
use crate::shard::Shard;
use crate::table::{Table, key_of_bound};
use crate::throttle::{SLICE, Sum, Throttle};
use crate::{Request, fields, is_stale};

/// Documents of each shard of which the first bounds of a range key are made.
const SAMPLES: i32 = 1000;
/// Attempts of an operation of which shards end.
const ATTEMPTS: u32 = 5;
pub(crate) const OPERATIONS: &str = "reshardingOperations";

/// The collection that is to be.
pub(crate) struct Target {
    pub key: DocBuf,
    pub owners: Owners,
    /// Its documents of `config.tags`.
    pub zones: Vec<DocBuf>,
    /// It stays on one shard, and is not shown as sharded.
    pub unsplittable: bool,
}

struct Reshard<'r> {
    request: &'r Request<'r>,
    guard: &'r Guard<'r>,
    /// Id of the operation, and of what leaves the donors.
    id: ObjectId,
    /// Id of what arrives: a shard may be both.
    arrival: ObjectId,
    old: Arc<Table>,
    new: Table,
    donors: Vec<Arc<Shard>>,
    recipients: Vec<Arc<Shard>>,
    /// Name of the new collection until it is the only one.
    temporary: String,
    /// Definitions of the indexes of the old collection.
    indexes: Vec<DocBuf>,
    /// Documents of `config.tags`, which take the place of those of before.
    zones: Vec<DocBuf>,
}

/// Changes for each recipient.
#[derive(Default)]
struct Parts {
    documents: Vec<DocBuf>,
    deletes: Vec<DocBuf>,
}

impl<'r> Request<'r> {
    /// `reshardCollection`
    pub(crate) fn reshard_collection(&self) -> Result<DocBuf> {
        let namespace = self.text("reshardCollection")?;
        let body = self.body();
        let key = checked_key("reshardCollection", body)?;
        if fields::is_true(body, "unique") {
            return Err(Error::bad_value("The 'unique' option of reshardCollection must be false"));
        }
        if fields::document(body, "collation")
            .and_then(|own| fields::string(own, "locale"))
            .is_some_and(|own| own != "simple")
        {
            return Err(Error::bad_value(
                "The collation for reshardCollection must be {locale: 'simple'}, but found another one",
            ));
        }
        let zones = self.zones_of_new_key(namespace, &key)?;
        let guard = self.lock_for_move(namespace)?;
        let table = self.sharded(namespace)?;
        if table.key.as_bytes() == key.as_bytes() && !fields::is_true(body, "forceRedistribution") {
            return Ok(DocBuf::new());
        }
        let zones = match zones {
            Some(zones) => zones,
            // those of before are ranges of this key
            None if table.key.as_bytes() == key.as_bytes() => {
                self.catalog().read("tags", &DocBuf::new().with("ns", namespace), "min", self.interrupt())?
            }
            None => Vec::new(),
        };
        let owners = self.owners_of_new_key(&table, &key, &zones)?;
        self.reshard(&guard, table, Target { key, owners, zones, unsplittable: false })?;
        Ok(DocBuf::new())
    }

    /// Returns the documents of `config.tags` that `zones` asks for.
    fn zones_of_new_key(&self, namespace: &str, key: &DocBuf) -> Result<Option<Vec<DocBuf>>> {
        let Some(zones) = self.body().get("zones") else { return Ok(None) };
        let ValueRef::Array(zones) = zones else {
            let field = arbor_protocol::arguments::Field::new("reshardCollection", "zones");
            return Err(field.wrong_type(zones, "array").into());
        };
        let table = Table::of_key(namespace, key);
        let mut ranges: BTreeMap<Vec<u8>, (Vec<u8>, DocBuf)> = BTreeMap::new();
        for zone in zones.iter() {
            let ValueRef::Document(zone) = zone else { return Err(Error::bad_value("a zone must be a document")) };
            let (Some(min), Some(max)) = (fields::document(zone, "min"), fields::document(zone, "max")) else {
                return Err(Error::bad_value("a zone must have min and max"));
            };
            let Some(name) = fields::string(zone, "zone") else {
                return Err(Error::bad_value("a zone must have the name of one"));
            };
            check_names(&table, min)?;
            check_names(&table, max)?;
            let (low, high) = (key_of_bound(min), key_of_bound(max));
            if low >= high {
                return Err(Error::bad_value(format!("min: {min} should be less than max: {max}")));
            }
            self.check_zone(name)?;
            let id = DocBuf::new().with("ns", namespace).with("min", min);
            let tag = DocBuf::new().with("_id", &id).with("ns", namespace).with("min", min).with("max", max);
            let before = ranges.range(..=low.clone()).next_back().is_some_and(|(_, (end, _))| *end > low);
            let after = ranges.range(low.clone()..).next().is_some_and(|(begin, _)| *begin < high);
            if before || after {
                let text = format!("Zone range: {min} to {max} is overlapping with another one");
                return Err(Error::new(Code::RANGE_OVERLAP_CONFLICT, text));
            }
            ranges.insert(low, (high, tag.with("tag", name)));
        }
        Ok(Some(ranges.into_values().map(|(_, tag)| tag).collect()))
    }

    /// `unshardCollection`
    pub(crate) fn unshard_collection(&self) -> Result<DocBuf> {
        let namespace = self.text("unshardCollection")?;
        let to = self.body().get("toShard").map(|_| self.text("toShard")).transpose()?;
        let guard = self.lock_for_move(namespace)?;
        let table = self.sharded(namespace)?;
        let to = match to {
            Some(to) => self.shard_to_fill(to)?.name.clone(),
            // where most of it is already
            None => self.largest_part(&table)?,
        };
        let key = DocBuf::new().with("_id", 1i32);
        let owners = vec![(DocBuf::new().with("_id", ValueRef::MinKey), to)];
        self.reshard(&guard, table, Target { key, owners, zones: Vec::new(), unsplittable: true })?;
        Ok(DocBuf::new())
    }

    /// Shards a collection that is on a chosen shard.
    pub(crate) fn shard_again(&self, namespace: &str, key: DocBuf) -> Result<()> {
        let guard = self.lock_for_move(namespace)?;
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} was dropped meanwhile"));
        let table = self.tracked(namespace)?.ok_or_else(missing)?;
        self.check_not_capped(&table)?;
        let owners = self.owners_of_new_key(&table, &key, &[])?;
        self.reshard(&guard, table, Target { key, owners, zones: Vec::new(), unsplittable: false })
    }

    fn check_not_capped(&self, table: &Table) -> Result<()> {
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &DocBuf::new().with("name", name));
        for shard in self.shards_named(&table.shards().collect::<Vec<_>>())? {
            let listed = shard.call(db, &list, self.interrupt())?;
            let mut listed = first_batch(listed.as_doc())?.into_iter();
            if listed.any(|own| fields::document(own, "options").is_some_and(|own| fields::is_true(own, "capped"))) {
                return Err(Error::new(Code::INVALID_OPTIONS, "can't shard a capped collection"));
            }
        }
        Ok(())
    }

    /// `commitReshardCollection`: an operation commits as soon as it can.
    pub(crate) fn commit_resharding(&self) -> Result<DocBuf> {
        self.resharding_of(self.text("commitReshardCollection")?).map(|_| DocBuf::new())
    }

    /// `abortReshardCollection`, `abortUnshardCollection` and `abortMoveCollection`
    pub(crate) fn abort_resharding(&self, command: &str) -> Result<DocBuf> {
        let namespace = self.text(command)?;
        let operation = self.resharding_of(namespace)?;
        let aborted = operation.with("abort", true);
        self.catalog().put(OPERATIONS, &aborted, self.interrupt())?;
        let id = aborted.get("_id").unwrap_or(ValueRef::Null);
        let until = Instant::now() + FINISH_MAX;
        while self.catalog().read_one(OPERATIONS, id, self.interrupt())?.is_some() {
            self.interrupt().check()?;
            // its router has ended
            if let Some(guard) = self.try_lock_as(namespace, true)? {
                self.end_dead_resharding(namespace, &guard)?;
            }
            if Instant::now() > until {
                return Err(Error::new(Code::EXCEEDED_TIME_LIMIT, "the operation did not end in time"));
            }
            std::thread::sleep(NAP);
        }
        match self.has_uuid(namespace, aborted.as_doc(), self.interrupt())? {
            true => {
                Err(Error::new(Code::RESHARD_COLLECTION_COMMITTED, "Can't abort resharding operation after commit"))
            }
            false => Ok(DocBuf::new()),
        }
    }

    fn resharding_of(&self, namespace: &str) -> Result<DocBuf> {
        let found = self.catalog().read(OPERATIONS, &DocBuf::new().with("ns", namespace), "_id", self.interrupt())?;
        let none = || {
            let text = format!("Could not find active resharding operation for collection {namespace}");
            Error::new(Code::NO_SUCH_RESHARD_COLLECTION, text)
        };
        found.into_iter().next().ok_or_else(none)
    }

    /// Returns a shard that may be given documents.
    pub(crate) fn shard_to_fill(&self, name: &str) -> Result<Arc<Shard>> {
        let shard = self.catalog().shard(name, self.interrupt())?;
        let own = self.catalog().read_one("shards", name.into(), self.interrupt())?.unwrap_or_default();
        match fields::is_true(own.as_doc(), "draining") {
            true => Err(Error::new(Code::SHARD_NOT_FOUND, format!("Shard {name} is currently draining"))),
            false => Ok(shard),
        }
    }

    fn largest_part(&self, table: &Table) -> Result<String> {
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let mut largest = (0, String::new());
        for shard in self.shards_named(&table.shards().collect::<Vec<_>>())? {
            let documents = count(&shard, db, name, self.interrupt())?;
            if (documents, &shard.name) > (largest.0, &largest.1) {
                largest = (documents, shard.name.clone());
            }
        }
        Ok(self.shard_to_fill(&largest.1)?.name.clone())
    }

    /// Returns the lower bounds of the first chunks of a new key, with their shards: those of the zone that a chunk is in, if it is in one.
    fn owners_of_new_key(&self, table: &Table, key: &DocBuf, zones: &[DocBuf]) -> Result<Owners> {
        let draining = self.catalog().read("shards", &DocBuf::new().with("draining", true), "_id", self.interrupt())?;
        let mut shards = self.catalog().refresh_shards(self.interrupt())?;
        shards.retain(|shard| !draining.iter().any(|own| fields::string(own.as_doc(), "_id") == Some(&shard.name)));
        if shards.is_empty() {
            return Err(Error::new(Code::SHARD_NOT_FOUND, "all shards are draining"));
        }
        let asked = match self.body().get("numInitialChunks") {
            Some(value) => match fields::number_of(value) {
                Some(n) if (1.0..=10_000.0).contains(&n) => n as usize,
                _ => return Err(Error::bad_value("numInitialChunks must be between 1 and 10000")),
            },
            None => shards.len(),
        };
        let lowest: DocBuf = key.as_doc().iter().map(|(path, _)| (path, ValueRef::MinKey)).collect();
        let mut lows: BTreeMap<Vec<u8>, DocBuf> = BTreeMap::new();
        if key.as_doc().first().is_some_and(|(_, direction)| is_hashed(direction)) {
            for point in crate::chunks::hash_points(asked as i64) {
                let values = std::iter::once(ValueRef::Int64(point)).chain(std::iter::repeat(ValueRef::MinKey));
                let bound: DocBuf = key.as_doc().iter().zip(values).map(|((path, _), value)| (path, value)).collect();
                lows.insert(key_of_bound(bound.as_doc()), bound);
            }
        } else {
            let bounds = self.sampled_bounds(table, key)?;
            let places = (1..asked).map(|at| at * bounds.len() / asked);
            lows.extend(places.filter_map(|at| bounds.get(at).cloned()));
        }
        lows.insert(key_of_bound(lowest.as_doc()), lowest);
        let highest: DocBuf = key.as_doc().iter().map(|(path, _)| (path, ValueRef::MaxKey)).collect();
        let highest = key_of_bound(highest.as_doc());
        let mut ranges = Vec::new();
        for zone in zones {
            let bound = |name| fields::document(zone.as_doc(), name).unwrap_or(Doc::empty());
            let (min, max) = (bound("min"), bound("max"));
            ranges.push((
                key_of_bound(min),
                key_of_bound(max),
                fields::string(zone.as_doc(), "tag").unwrap_or_default(),
            ));
            for bound in [min, max] {
                if key_of_bound(bound) < highest {
                    lows.insert(key_of_bound(bound), bound.to_buf());
                }
            }
        }
        let zone_of = |low: &Vec<u8>| {
            ranges.iter().find(|(min, max, _)| min <= low && low < max).map_or("", |(_, _, zone)| *zone)
        };
        let mut groups: BTreeMap<&str, Vec<DocBuf>> = BTreeMap::new();
        for (low, bound) in lows {
            groups.entry(zone_of(&low)).or_default().push(bound);
        }
        let mut owners = BTreeMap::new();
        for (zone, bounds) in groups {
            let of_zone = self.shards_of_zone(&shards, zone)?;
            let count = bounds.len();
            for (at, bound) in bounds.into_iter().enumerate() {
                // neighbours stay together
                let owner = of_zone.get((at * of_zone.len() / count).min(of_zone.len() - 1));
                let name = owner.map(|shard| shard.name.clone()).unwrap_or_default();
                owners.insert(key_of_bound(bound.as_doc()), (bound, name));
            }
        }
        Ok(owners.into_values().collect())
    }

    /// Returns those of some shards that are in a zone; all of them for the empty name.
    fn shards_of_zone(&self, shards: &[Arc<Shard>], zone: &str) -> Result<Vec<Arc<Shard>>> {
        if zone.is_empty() {
            return Ok(shards.to_vec());
        }
        let with_it = self.catalog().read("shards", &DocBuf::new().with("tags", zone), "_id", self.interrupt())?;
        let is_in =
            |shard: &&Arc<Shard>| with_it.iter().any(|own| fields::string(own.as_doc(), "_id") == Some(&shard.name));
        let found: Vec<Arc<Shard>> = shards.iter().filter(is_in).cloned().collect();
        match found.is_empty() {
            true => Err(Error::new(Code::SHARD_NOT_FOUND, format!("all shards of the zone {zone} are draining"))),
            false => Ok(found),
        }
    }

    /// Returns keys of a sample of the documents, in their order.
    fn sampled_bounds(&self, table: &Table, key: &DocBuf) -> Result<Vec<(Vec<u8>, DocBuf)>> {
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let parser = Table::of_key(&table.namespace, key);
        let sample = DocBuf::new().with("$sample", &DocBuf::new().with("size", SAMPLES));
        let fields: DocBuf = key.as_doc().iter().map(|(path, _)| (path, ValueRef::Int32(1))).collect();
        let pipeline: ArrayBuf = [sample, DocBuf::new().with("$project", &fields)].iter().collect();
        let cursor = DocBuf::new().with("batchSize", SAMPLES);
        let command = DocBuf::new().with("aggregate", name).with("pipeline", &pipeline).with("cursor", &cursor);
        let mut bounds = BTreeMap::new();
        for shard in self.shards_named(&table.shards().collect::<Vec<_>>())? {
            let reply = shard.call(db, &command, self.interrupt())?;
            let mut stream = Stream::begin(shard.clone(), reply.as_doc(), Doc::empty(), None)?;
            while let Some(document) = stream.pull(self.interrupt())? {
                let bound = parser.bound_of_filter(document.as_doc())?;
                bounds.insert(key_of_bound(bound.as_doc()), bound);
            }
        }
        Ok(bounds.into_iter().collect())
    }

    /// Rebuilds a collection by another key, from the start again where a shard ends meanwhile. Requires the lock of its name.
    fn reshard(&self, guard: &Guard<'_>, mut old: Arc<Table>, target: Target) -> Result<()> {
        let (namespace, mut attempts) = (old.namespace.clone(), 1);
        loop {
            let error = match self.try_reshard(guard, old.clone(), &target) {
                Err(error) if is_of_ended_shard(&error) && attempts < ATTEMPTS => error,
                done => return done,
            };
            attempts += 1;
            self.interrupt().check()?;
            guard.renew(self.interrupt())?;
            self.end_dead_resharding(&namespace, guard)?;
            let Some(now) = self.tracked(&namespace)? else { return Err(error) };
            if now.uuid != old.uuid {
                // the shard has ended after the decision
                return Ok(());
            }
            old = now;
        }
    }

    fn try_reshard(&self, guard: &Guard<'_>, old: Arc<Table>, target: &Target) -> Result<()> {
        let id = arbor_protocol::topology::new_object_id();
        let (uuid, namespace) = (Uuid::new_v4(), old.namespace.clone());
        let mut collection = new_collection(&namespace, uuid, &target.key, false, target.unsplittable);
        old.collation.iter().for_each(|collation| {
            collection.append("defaultCollation", collation);
        });
        let chunks = new_chunks(&collection, &target.owners);
        let mut new = Table::begin(&namespace, collection.as_doc())?;
        let mut last = Vec::new();
        chunks.iter().try_for_each(|chunk| new.push(chunk.as_doc(), &mut last))?;
        let new = new.finish(&last)?;
        let temporary = format!("{RESHARDING_PREFIX}{uuid}");
        let operation = DocBuf::new()
            .with("_id", ValueRef::ObjectId(id))
            .with("ns", namespace.as_str())
            .with("uuid", ValueRef::Binary { subtype: 4, bytes: uuid.as_bytes() })
            .with("temporary", temporary.as_str())
            .with("startedAt", ValueRef::DateTime(arbor_protocol::log::now_ms()));
        let reshard = Reshard {
            request: self,
            guard,
            id,
            arrival: arbor_protocol::topology::new_object_id(),
            donors: self.shards_named(&old.shards().collect::<Vec<_>>())?,
            recipients: self.shards_named(&new.shards().collect::<Vec<_>>())?,
            indexes: Vec::new(),
            zones: target.zones.clone(),
            old,
            new,
            temporary,
        };
        self.note_operation(guard, operation, &reshard.zones)?;
        reshard.run(&collection, &chunks)
    }

    /// Notes that an operation runs: its zones are in use from then on.
    fn note_operation(&self, guard: &Guard<'_>, operation: DocBuf, zones: &[DocBuf]) -> Result<()> {
        let of_zones = self.lock_zones()?;
        let names: BTreeSet<&str> = zones.iter().filter_map(|zone| fields::string(zone.as_doc(), "tag")).collect();
        names.iter().try_for_each(|zone| self.check_zone(zone))?;
        let operation = operation.with("zones", &names.into_iter().collect::<ArrayBuf>());
        self.catalog().transaction([guard, &of_zones], &[inserts(OPERATIONS, &[operation])], self.interrupt())
    }

    /// Ends what routers that have ended left of operations on a collection. Requires the lock of its name.
    pub(crate) fn end_dead_resharding(&self, namespace: &str, guard: &Guard<'_>) -> Result<()> {
        let filter = DocBuf::new().with("ns", namespace);
        for operation in self.catalog().read(OPERATIONS, &filter, "_id", self.interrupt())? {
            self.finish_replacing(namespace, guard)?;
            let temporary = fields::string(operation.as_doc(), "temporary").unwrap_or_default();
            self.give_resharding_up((namespace, temporary), operation.as_doc(), guard, self.interrupt())?;
        }
        Ok(())
    }

    /// Returns true if the collection is the one that an operation makes.
    fn has_uuid(&self, namespace: &str, operation: Doc<'_>, interrupt: &Interrupt) -> Result<bool> {
        let now = self.catalog().read_one("collections", namespace.into(), interrupt)?;
        Ok(now.is_some_and(|now| fields::binary(now.as_doc(), "uuid") == fields::binary(operation, "uuid")))
    }

    /// Removes a collection that is not to take the place of another one any more.
    fn give_resharding_up(
        &self,
        (namespace, temporary): (&str, &str),
        operation: Doc<'_>,
        guard: &Guard<'_>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        assert!(temporary.starts_with(RESHARDING_PREFIX), "nothing else is dropped");
        let (db, _) = namespace.split_once('.').unwrap_or_default();
        let shards = self.catalog().refresh_shards(interrupt)?;
        for shard in &shards {
            match shard.call(db, &guard.fenced(DocBuf::new().with("drop", temporary)), interrupt) {
                Err(error) if error.code == Code::NAMESPACE_NOT_FOUND => {}
                other => drop(other?),
            }
            let name = format!("{db}.{temporary}");
            shard.call("admin", &Known::Nothing.command(&name, &shard.name, guard), interrupt)?;
        }
        // a collection that was put in its place has these chunks
        if !self.has_uuid(namespace, operation, interrupt)? {
            let uuid = operation.get("uuid").unwrap_or(ValueRef::Null);
            self.catalog().delete_chunks(uuid, interrupt)?;
        }
        let id: DocBuf = operation.get("_id").into_iter().map(|id| ("_id", id)).collect();
        self.catalog().delete(OPERATIONS, &id, interrupt)
    }

    /// Puts a collection with a new key in the place of the old one on all shards, if the config servers say that it is to be (G2). Requires the
    /// lock of its name.
    pub(crate) fn finish_replacing(&self, namespace: &str, guard: &Guard<'_>) -> Result<()> {
        let interrupt = self.interrupt();
        let Some(collection) = self.catalog().read_one("collections", namespace.into(), interrupt)? else {
            return Ok(());
        };
        let Some(resharding) = fields::document(collection.as_doc(), "resharding") else { return Ok(()) };
        let (db, _) = namespace.split_once('.').unwrap_or_default();
        let temporary = fields::string(resharding, "temporary").unwrap_or_default();
        let shards = self.catalog().refresh_shards(interrupt)?;
        self.catalog().forget(db, namespace);
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} was dropped meanwhile"));
        let table = self.catalog().table(namespace, interrupt)?.ok_or_else(missing)?;
        self.set_ownership(&shards, namespace, Known::Blocked, guard)?;
        for shard in &shards {
            let mut replace = guard.fenced(DocBuf::new().with("_shardsvrReplaceCollection", namespace));
            if table.shards().any(|own| own == shard.name) {
                replace.append("with", temporary);
            }
            shard.call("admin", &replace, interrupt)?;
        }
        let before = resharding.get("before").unwrap_or(ValueRef::Null);
        self.catalog().delete_chunks(before, interrupt)?;
        let done = fields::without(collection.as_doc(), &["resharding"]);
        self.set_ownership(&shards, namespace, Known::Collection(&table), guard)?;
        let filter = DocBuf::new().with("uuid", done.get("uuid").unwrap_or(ValueRef::Null));
        for shard in &shards {
            let name = format!("{db}.{temporary}");
            shard.call("admin", &Known::Nothing.command(&name, &shard.name, guard), interrupt)?;
        }
        self.catalog().delete(OPERATIONS, &filter, interrupt)?;
        // last, since it says that the steps before are to be done
        self.catalog().transaction([guard], &[updates("collections", &[replacement(&done)])], interrupt)?;
        self.catalog().forget(db, namespace);
        guard.settled();
        if let Some(before) = fields::binary(resharding, "before") {
            self.keep_samples(namespace, before, &table.uuid);
        }
        Ok(())
    }
}

impl Reshard<'_> {
    fn db(&self) -> &str {
        self.old.namespace.split_once('.').map_or("", |(db, _)| db)
    }

    fn name(&self) -> &str {
        self.old.namespace.split_once('.').map_or("", |(_, name)| name)
    }

    /// Full name of the new collection until it is the only one.
    fn temporary_namespace(&self) -> String {
        format!("{}.{}", self.db(), self.temporary)
    }

    fn run(mut self, collection: &DocBuf, chunks: &[DocBuf]) -> Result<()> {
        let (request, namespace) = (self.request, self.old.namespace.clone());
        let prepared = self.prepare(chunks).and_then(|()| self.copy()).and_then(|()| self.close());
        let committed = prepared.and_then(|()| self.last_changes()).and_then(|()| self.commit(collection));
        if let Err(error) = committed {
            // a commit of which the reply was lost may have succeeded; the requests that wait find out, if it is not known
            if !self.is_committed()? {
                self.give_up()?;
                return Err(error);
            }
        }
        request.finishing(|request| retried(request.interrupt(), || request.finish_replacing(&namespace, self.guard)))
    }

    fn of_old(&self, name: &str) -> DocBuf {
        let command = DocBuf::new().with(name, self.old.namespace.as_str()).with("id", ValueRef::ObjectId(self.id));
        self.guard.fenced(command)
    }

    fn of_new(&self, name: &str) -> DocBuf {
        let command = DocBuf::new().with(name, self.temporary_namespace().as_str());
        self.guard.fenced(command.with("id", ValueRef::ObjectId(self.arrival)))
    }

    fn check(&self) -> Result<()> {
        self.request.interrupt().check()?;
        self.guard.renew(self.request.interrupt())?;
        let operation =
            self.request.catalog().read_one(OPERATIONS, ValueRef::ObjectId(self.id), self.request.interrupt())?;
        match operation.is_none_or(|own| fields::is_true(own.as_doc(), "abort")) {
            true => Err(Error::new(Code::RESHARD_COLLECTION_ABORTED, "the operation was aborted")),
            false => Ok(()),
        }
    }

    fn prepare(&mut self, chunks: &[DocBuf]) -> Result<()> {
        let (request, interrupt) = (self.request, self.request.interrupt());
        self.guard.leave();
        for donor in &self.donors {
            request.wait_for_ranges(&self.old, donor, self.guard, &|| self.check())?;
        }
        self.check_ids()?;
        let donor = self.donors.first().ok_or_else(|| Error::new(Code::INTERNAL_ERROR, "no shard has a chunk"))?;
        let (db, name) = (self.db(), self.name());
        let filter = DocBuf::new().with("name", name);
        let listed = donor.call(db, &DocBuf::new().with("listCollections", 1i32).with("filter", &filter), interrupt)?;
        let listed = first_batch(listed.as_doc())?.into_iter().next().map(Doc::to_buf);
        let listed = listed.ok_or_else(|| Error::new(Code::NAMESPACE_NOT_FOUND, "the collection was dropped"))?;
        let indexes = indexes_of(donor, db, name, interrupt)?;
        let definitions: Vec<Doc<'_>> = indexes.iter().map(DocBuf::as_doc).collect();
        if !self.new.unsplittable {
            check_unique_indexes(&definitions, self.new.key.as_doc())?;
        }
        let others = indexes.iter().filter(|index| index.get("key").is_some_and(|key| !is_id(key)));
        let mut to_build: Vec<DocBuf> = others.map(|index| as_created(index.as_doc())).collect();
        if !definitions.iter().any(|index| serves(*index, self.new.key.as_doc())) {
            let name = index_name(self.new.key.as_doc());
            let index = DocBuf::new().with("v", 2i32).with("key", &self.new.key).with("name", name.as_str());
            to_build.push(as_created(index.as_doc()));
        }
        for shard in &self.recipients {
            create_named(listed.as_doc(), (db, &self.temporary), shard, self.guard, interrupt)?;
            if !to_build.is_empty() {
                let create = DocBuf::new().with("createIndexes", self.temporary.as_str());
                let create = create.with("indexes", &to_build.iter().collect::<ArrayBuf>());
                shard.call(db, &self.guard.fenced(create), interrupt)?;
            }
        }
        let temporary = self.temporary_namespace();
        request.set_ownership(&self.recipients, &temporary, Known::Collection(&self.new), self.guard)?;
        for shard in &self.recipients {
            shard.call("admin", &whole_range(self.of_new("_shardsvrMoveIn"), &self.new.key), interrupt)?;
        }
        for shard in &self.donors {
            request.settle(&self.old, shard, self.guard, interrupt)?;
            let begin = whole_range(self.of_old("_shardsvrMoveOut"), &self.old.key).with("whole", true);
            shard.call("admin", &begin, interrupt)?;
        }
        request.catalog().insert("chunks", chunks, interrupt)?;
        self.indexes = indexes;
        Ok(())
    }

    /// Refuses a collection that has one `_id` twice (G3).
    fn check_ids(&self) -> Result<()> {
        let (interrupt, id) = (self.request.interrupt(), DocBuf::new().with("_id", 1i32));
        if self.donors.len() < 2 {
            return Ok(());
        }
        let shown = id.clone().with(SORT_KEY, &DocBuf::new().with("$meta", "sortKey"));
        let find = DocBuf::new().with("find", self.name()).with("projection", &shown).with("sort", &id);
        let begin = |shard: &Arc<Shard>| {
            let reply = shard.call(self.db(), &find, interrupt)?;
            Stream::begin(shard.clone(), reply.as_doc(), Doc::empty(), None)
        };
        let streams = self.donors.iter().map(begin).collect::<Result<Vec<Stream>>>()?;
        let order = Order { descending: vec![false], collation: arbor_lang::Collation::simple() };
        let mut merged = Merge::new(streams, Some(order), 0, None);
        let mut last: Option<DocBuf> = None;
        let mut checked = Instant::now();
        while let Some(document) = merged.pull(interrupt)? {
            if last.as_ref().is_some_and(|last| last.as_bytes() == document.as_bytes()) {
                let text = format!("{} has the document {} on several shards", self.old.namespace, document.as_doc());
                return Err(Error::new(Code::DUPLICATE_KEY, text));
            }
            last = Some(document);
            if checked.elapsed() > SLICE {
                self.check()?;
                checked = Instant::now();
            }
        }
        Ok(())
    }

    fn copy(&self) -> Result<()> {
        for donor in &self.donors {
            self.copy_from(donor)?;
        }
        for _ in 0..ROUNDS_MAX {
            self.check()?;
            let mut changes = 0;
            for donor in &self.donors {
                let (sent, left) = self.send_changes(donor, self.request.interrupt())?;
                changes += sent + left;
            }
            if changes <= FEW_CHANGES {
                return Ok(());
            }
        }
        Err(Error::new(Code::EXCEEDED_TIME_LIMIT, "the documents change faster than they are copied"))
    }

    fn copy_from(&self, donor: &Arc<Shard>) -> Result<()> {
        let interrupt = self.request.interrupt();
        let mut from: Option<Vec<u8>> = None;
        let mut throttle = Throttle::default();
        let (mut begun, mut before) = (Instant::now(), self.clients(donor)?);
        loop {
            let mut read = self.of_old("_shardsvrMoveRead");
            if let Some(from) = &from {
                read.append("from", ValueRef::Binary { subtype: 0, bytes: from });
            }
            let reply = donor.call("admin", &read, interrupt)?;
            let mut parts: BTreeMap<String, Parts> = BTreeMap::new();
            for document in list(reply.as_doc(), "documents") {
                let shard = self.new.shard_of(&self.new.key_of_document(document.as_doc())?).to_owned();
                parts.entry(shard).or_default().documents.push(document);
            }
            self.write(&parts, &[], interrupt)?;
            match reply.get("next") {
                Some(ValueRef::Binary { bytes, .. }) => from = Some(bytes.to_vec()),
                _ => return Ok(()),
            }
            let work = begun.elapsed();
            if work >= SLICE {
                self.check()?;
                let pause = throttle.pause_after(before, self.clients(donor)?, work);
                std::thread::sleep(pause);
                (begun, before) = (Instant::now(), self.clients(donor)?);
            }
        }
    }

    fn clients(&self, donor: &Shard) -> Result<Sum> {
        let ask = DocBuf::new().with("_shardsvrMoveClients", self.old.namespace.as_str());
        Ok(Sum::of(donor.call("admin", &ask, self.request.interrupt())?.as_doc()))
    }

    /// Sends each recipient its part, and all of them what retried writes need.
    fn write(&self, parts: &BTreeMap<String, Parts>, sessions: &[DocBuf], interrupt: &Interrupt) -> Result<()> {
        let command = self.of_new("_shardsvrMoveWrite");
        let (db, mut begun) = ("admin", Vec::new());
        for shard in &self.recipients {
            let none = Parts::default();
            let part = parts.get(&shard.name).unwrap_or(&none);
            let all = [("documents", &*part.documents), ("deletes", &*part.deletes), ("sessions", sessions)];
            let sequences: Vec<(&str, &[DocBuf])> = all.into_iter().filter(|(_, some)| !some.is_empty()).collect();
            if !sequences.is_empty() {
                begun.push((shard, shard.begin(db, &command, &sequences, interrupt), sequences.len()));
            }
        }
        // every reply is read, whatever the others say
        let replies: Vec<Result<DocBuf>> = begun
            .into_iter()
            .map(|(shard, sent, _)| {
                let none = Parts::default();
                let part = parts.get(&shard.name).unwrap_or(&none);
                let all = [("documents", &*part.documents), ("deletes", &*part.deletes), ("sessions", sessions)];
                let sequences: Vec<(&str, &[DocBuf])> = all.into_iter().filter(|(_, some)| !some.is_empty()).collect();
                shard.end(sent, db, &command, &sequences, interrupt)
            })
            .collect();
        replies.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// Sends what has changed on a donor; returns how much that was, and how much is known to be left.
    fn send_changes(&self, donor: &Shard, interrupt: &Interrupt) -> Result<(usize, usize)> {
        let reply = donor.call("admin", &self.of_old("_shardsvrMoveChanges"), interrupt)?;
        let mut parts: BTreeMap<String, Parts> = BTreeMap::new();
        let (documents, deletes) = (list(reply.as_doc(), "documents"), list(reply.as_doc(), "deletes"));
        let sessions = list(reply.as_doc(), "sessions");
        let sent = documents.len() + deletes.len() + sessions.len();
        let mut remove = |id: ValueRef<'_>, but: &str| {
            for shard in self.recipients.iter().filter(|shard| shard.name != but) {
                parts.entry(shard.name.clone()).or_default().deletes.push(DocBuf::new().with("_id", id));
            }
        };
        for key in &deletes {
            key.get("_id").into_iter().for_each(|id| remove(id, ""));
        }
        let mut owned: Vec<(String, DocBuf)> = Vec::new();
        for document in documents {
            let shard = self.new.shard_of(&self.new.key_of_document(document.as_doc())?).to_owned();
            // it may have had another key
            document.get("_id").into_iter().for_each(|id| remove(id, &shard));
            owned.push((shard, document));
        }
        for (shard, document) in owned {
            parts.entry(shard).or_default().documents.push(document);
        }
        if sent > 0 {
            self.write(&parts, &sessions, interrupt)?;
        }
        Ok((sent, usize::try_from(fields::int(reply.as_doc(), "left")).unwrap_or(0)))
    }

    /// Holds the writers of all donors.
    fn close(&self) -> Result<()> {
        let (interrupt, until) = (self.request.interrupt(), Instant::now() + BUSY_MAX);
        loop {
            self.check()?;
            let mut closed = Vec::new();
            let mut is_busy = false;
            for donor in &self.donors {
                let reply = donor.call("admin", &self.of_old("_shardsvrMoveClose"), interrupt)?;
                if fields::is_true(reply.as_doc(), "busy") {
                    is_busy = true;
                    break;
                }
                closed.push(donor);
            }
            if !is_busy {
                return Ok(());
            }
            // one of them may wait for a transaction that waits at another one
            for donor in closed {
                donor.call("admin", &self.of_old("_shardsvrMoveOpen"), interrupt)?;
            }
            if Instant::now() > until {
                return Err(Error::new(Code::EXCEEDED_TIME_LIMIT, "transactions that write the collection do not end"));
            }
            std::thread::sleep(NAP);
            for donor in &self.donors {
                self.send_changes(donor, interrupt)?;
            }
        }
    }

    fn last_changes(&self) -> Result<()> {
        let interrupt = self.request.interrupt().within(FINISH_MAX);
        let (db, name) = (self.db(), self.name());
        for donor in &self.donors {
            while self.send_changes(donor, &interrupt)? != (0, 0) {}
            let indexes = indexes_of(donor, db, name, &interrupt)?;
            if !indexes.iter().map(DocBuf::as_bytes).eq(self.indexes.iter().map(DocBuf::as_bytes)) {
                let text = "the indexes of the collection were changed meanwhile";
                return Err(Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text));
            }
        }
        let sum = |shards: &[Arc<Shard>], name: &str| -> Result<i64> {
            shards.iter().map(|shard| count(shard, db, name, &interrupt)).sum()
        };
        let (before, after) = (sum(&self.donors, name)?, sum(&self.recipients, &self.temporary)?);
        if before != after {
            let text =
                format!("{} has {before} documents, of which {after} have an _id of their own", self.old.namespace);
            return Err(Error::new(Code::DUPLICATE_KEY, text));
        }
        Ok(())
    }

    fn commit(&self, collection: &DocBuf) -> Result<()> {
        let interrupt = self.request.interrupt().within(FINISH_MAX);
        let resharding = DocBuf::new()
            .with("temporary", self.temporary.as_str())
            .with("before", ValueRef::Binary { subtype: 4, bytes: &self.old.uuid });
        let marked = collection.clone().with("resharding", &resharding);
        let of_collection = DocBuf::new().with("ns", self.old.namespace.as_str());
        let mut commands = vec![updates("collections", &[replacement(&marked)]), deletes("tags", &of_collection)];
        if !self.zones.is_empty() {
            commands.push(inserts("tags", &self.zones));
        }
        let of_zones = self.request.lock_zones()?;
        self.request.catalog().transaction([self.guard, &of_zones], &commands, &interrupt)
    }

    /// Finds out whether the config servers have the new key. After that they do not get it any more.
    fn is_committed(&self) -> Result<bool> {
        let (interrupt, catalog) = (self.request.router.within(FINISH_MAX), self.request.catalog());
        retried(&interrupt, || self.guard.end_begun(&interrupt))?;
        let namespace = self.old.namespace.as_str();
        let now = retried(&interrupt, || catalog.read_one("collections", namespace.into(), &interrupt))?;
        Ok(now.is_some_and(|now| fields::binary(now.as_doc(), "uuid") == Some(&self.new.uuid)))
    }

    fn give_up(&self) -> Result<()> {
        let interrupt = self.request.router.within(FINISH_MAX);
        for donor in &self.donors {
            retried(&interrupt, || self.request.settle(&self.old, donor, self.guard, &interrupt))?;
        }
        let operation = DocBuf::new()
            .with("_id", ValueRef::ObjectId(self.id))
            .with("uuid", ValueRef::Binary { subtype: 4, bytes: &self.new.uuid });
        let namespace = self.old.namespace.as_str();
        retried(&interrupt, || {
            self.request.give_resharding_up((namespace, &self.temporary), operation.as_doc(), self.guard, &interrupt)
        })?;
        self.guard.settled();
        Ok(())
    }
}

/// Returns true for what the end of a shard, or of its primary, leads to: what it knew of the operation is gone.
fn is_of_ended_shard(error: &Error) -> bool {
    let is_over = error.code == Code::OPERATION_FAILED && error.message.ends_with(MOVE_IS_OVER);
    is_over || is_stale(error) || matches!(error.code, Code::HOST_UNREACHABLE | Code::CURSOR_NOT_FOUND)
}

fn is_id(key: ValueRef<'_>) -> bool {
    matches!(key, ValueRef::Document(key) if key.iter().map(|(name, _)| name).eq(["_id"]))
}

/// Returns the definitions of the indexes of a collection, in the order of their names.
pub(crate) fn indexes_of(shard: &Shard, db: &str, name: &str, interrupt: &Interrupt) -> Result<Vec<DocBuf>> {
    let listed = shard.call(db, &DocBuf::new().with("listIndexes", name), interrupt)?;
    let mut indexes: Vec<DocBuf> =
        first_batch(listed.as_doc())?.into_iter().map(|index| fields::without(index, &["ns", "background"])).collect();
    indexes.sort_by_key(|index| fields::string(index.as_doc(), "name").map(str::to_owned));
    Ok(indexes)
}

fn count(shard: &Shard, db: &str, name: &str, interrupt: &Interrupt) -> Result<i64> {
    let reply = shard.call(db, &DocBuf::new().with("count", name), interrupt)?;
    Ok(fields::int(reply.as_doc(), "n"))
}

/// Adds the range of all keys to a command.
fn whole_range(command: DocBuf, key: &DocBuf) -> DocBuf {
    let end = |value: ValueRef<'static>| -> DocBuf { key.as_doc().iter().map(|(path, _)| (path, value)).collect() };
    let (min, max) = (end(ValueRef::MinKey), end(ValueRef::MaxKey));
    let (low, high) = (key_of_bound(min.as_doc()), key_of_bound(max.as_doc()));
    let range = DocBuf::new().with("min", &min).with("max", &max);
    command
        .with("key", key)
        .with("range", &range)
        .with("low", ValueRef::Binary { subtype: 0, bytes: &low })
        .with("high", ValueRef::Binary { subtype: 0, bytes: &high })
}
