//! Zones: names of groups of shards (`config.shards`), to which ranges of shard keys belong (`config.tags`).
//!
//! Z1: ranges of zones change with the lock of all of them alone, as [`Catalog::transaction`](crate::catalog::Catalog) asserts: two of one
//! collection do not overlap, and none is lost where a statement replaces all of a collection. Z2: a zone with ranges has a shard, also while the ranges are
//! those that a resharding is to make: it names its zones in `config.reshardingOperations` first.

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;

use crate::catalog::{deletes, updates};
use crate::chunks::replacement;
use crate::lock::Guard;
use crate::reshard::OPERATIONS;
use crate::{Request, fields, table};

impl Request<'_> {
    /// `addShardToZone` and `removeShardFromZone`
    pub(crate) fn zone_of_shard(&self, add: bool) -> Result<DocBuf> {
        let (name, zone) = (self.text(if add { "addShardToZone" } else { "removeShardFromZone" })?, self.text("zone")?);
        self.catalog().shard(name, self.interrupt())?;
        let (guard, of_zones) = (self.lock("config.shards")?, self.lock_zones()?);
        let own = self.catalog().read_one("shards", name.into(), self.interrupt())?.unwrap_or_default();
        let mut tags: Vec<&str> = zones_of(own.as_doc()).into_iter().filter(|tag| *tag != zone).collect();
        if add {
            tags.push(zone);
        } else {
            self.check_zone_without(name, zone)?;
        }
        let document = fields::without(own.as_doc(), &["tags"]).with("tags", &tags.into_iter().collect::<ArrayBuf>());
        let change = updates("shards", &[replacement(&document)]);
        self.catalog().transaction([&guard, &of_zones], &[change], self.interrupt())?;
        Ok(DocBuf::new())
    }

    /// Refuses to take a shard away from the zones that need it.
    pub(crate) fn check_zones_without(&self, name: &str, own: Doc<'_>) -> Result<()> {
        zones_of(own).into_iter().try_for_each(|zone| self.check_zone_without(name, zone))
    }

    fn check_zone_without(&self, name: &str, zone: &str) -> Result<()> {
        let with_it = self.catalog().read("shards", &DocBuf::new().with("tags", zone), "_id", self.interrupt())?;
        let is_needed =
            !with_it.is_empty() && with_it.iter().all(|own| fields::string(own.as_doc(), "_id") == Some(name));
        if is_needed && self.is_zone_used(zone)? {
            let text =
                format!("Cannot remove shard '{name}' from zone '{zone}': it is the last one, and ranges use the zone");
            return Err(Error::new(Code::ZONE_STILL_IN_USE, text));
        }
        Ok(())
    }

    fn is_zone_used(&self, zone: &str) -> Result<bool> {
        let has = |collection, field| -> Result<bool> {
            let found = self.catalog().read(collection, &DocBuf::new().with(field, zone), "_id", self.interrupt())?;
            Ok(!found.is_empty())
        };
        Ok(has("tags", "tag")? || has(OPERATIONS, "zones")?)
    }

    /// Refuses the name of a zone that no shard is in.
    pub(crate) fn check_zone(&self, zone: &str) -> Result<()> {
        match self.catalog().read("shards", &DocBuf::new().with("tags", zone), "_id", self.interrupt())?.is_empty() {
            true => Err(Error::new(Code::ZONE_NOT_FOUND, format!("zone {zone} does not exist"))),
            false => Ok(()),
        }
    }

    /// Changes documents of the config servers as the holder of a lock, and removes ranges of zones in the same transaction.
    pub(crate) fn transaction_without_zones(
        &self,
        guard: &Guard<'_>,
        ranges: &DocBuf,
        commands: &[DocBuf],
        interrupt: &Interrupt,
    ) -> Result<()> {
        if self.catalog().read("tags", ranges, "_id", interrupt)?.is_empty() {
            return if commands.is_empty() { Ok(()) } else { self.catalog().transaction([guard], commands, interrupt) };
        }
        let of_zones = self.lock_zones()?;
        let all: Vec<DocBuf> = std::iter::once(deletes("tags", ranges)).chain(commands.iter().cloned()).collect();
        self.catalog().transaction([guard, &of_zones], &all, interrupt)
    }

    /// `updateZoneKeyRange`
    pub(crate) fn zone_of_range(&self) -> Result<DocBuf> {
        let namespace = self.text("updateZoneKeyRange")?;
        let bound = |name: &str| match self.body().get(name) {
            Some(ValueRef::Document(bound)) if !bound.is_empty() => Ok(bound),
            _ => Err(Error::bad_value(format!("{name} must be a document"))),
        };
        let (min, max) = (bound("min")?, bound("max")?);
        let (low, high) = (table::key_of_bound(min), table::key_of_bound(max));
        if low >= high {
            return Err(Error::bad_value(format!("min: {min} should be less than max: {max}")));
        }
        let zone = match self.body().get("zone") {
            Some(ValueRef::Null) => None,
            _ => Some(self.text("zone")?),
        };
        let of_zones = self.lock_zones()?;
        let of_collection = DocBuf::new().with("ns", namespace);
        if !self.catalog().read(OPERATIONS, &of_collection, "_id", self.interrupt())?.is_empty() {
            // its end replaces all ranges
            let text = format!("the zones of {namespace} cannot be changed while it is resharded");
            return Err(Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text));
        }
        let id = DocBuf::new().with("ns", namespace).with("min", min);
        let change = match zone {
            None => deletes("tags", &DocBuf::new().with("_id", &id)),
            Some(zone) => {
                self.check_zone(zone)?;
                for range in self.catalog().read("tags", &of_collection, "min", self.interrupt())? {
                    check_apart(range.as_doc(), (min, max))?;
                }
                let range = DocBuf::new().with("_id", &id).with("ns", namespace).with("min", min).with("max", max);
                updates("tags", &[replacement(&range.with("tag", zone)).with("upsert", true)])
            }
        };
        self.catalog().transaction([&of_zones], &[change], self.interrupt())?;
        Ok(DocBuf::new())
    }
}

/// Returns the filter of the ranges of all collections of a database.
pub(crate) fn ranges_of_database(db: &str) -> DocBuf {
    let (begin, end) = (format!("{db}."), format!("{db}/"));
    DocBuf::new().with("ns", &DocBuf::new().with("$gte", begin.as_str()).with("$lt", end.as_str()))
}

/// Returns the zones of a document of `config.shards`.
fn zones_of(shard: Doc<'_>) -> Vec<&str> {
    fields::array(shard, "tags").into_iter().flat_map(|tags| tags.iter().filter_map(fields::text)).collect()
}

/// Refuses a range that overlaps with another one, unless it is the same.
fn check_apart(range: Doc<'_>, (min, max): (Doc<'_>, Doc<'_>)) -> Result<()> {
    let (low, high) = (table::key_of_bound(min), table::key_of_bound(max));
    let key = |name| fields::document(range, name).map(table::key_of_bound).unwrap_or_default();
    let (begin, end) = (key("min"), key("max"));
    if begin != low && begin < high && low < end || begin == low && end != high {
        let text = format!("Zone range: {min} to {max} is overlapping with existing: {range}");
        return Err(Error::new(Code::RANGE_OVERLAP_CONFLICT, text));
    }
    Ok(())
}
