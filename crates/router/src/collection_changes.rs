//! Drops and renames of collections that are on chosen shards.
//!
//! C1: the config servers decide by one transaction, in the document of the collection in `config.collections`: `dropping`, or `renaming` with
//! the name before. Until then everything is as it was; after it the shards refuse requests (A1 of `administration`) until the change is done
//! on all of them, by this router or by one whose request is refused. C2: the drop of a collection that is not on chosen shards is decided by its
//! shard; what is left behind it, its ranges of zones, names it before.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result};
use arbor_store::Namespace;

use crate::administration::Known;
use crate::catalog::{Routing, deletes, inserts, updates, version_entry, versioned};
use crate::chunks::replacement;
use crate::definitions::first_batch;
use crate::lock::Guard;
use crate::moves::{FINISH_MAX, retried};
use crate::shard::Shard;
use crate::table::Table;
use crate::time_series::BUCKETS;
use crate::{Request, fields};

/// Field of the ranges of zones of a collection that a shard is to drop: the shard, and the UUID of the collection.
const DROPPING: &str = "dropping";

fn id_is(name: &str) -> DocBuf {
    DocBuf::new().with("_id", name)
}

fn ranges_of(namespace: &str) -> DocBuf {
    DocBuf::new().with("ns", namespace)
}

/// Returns the UUID of a collection as `listCollections` shows it. Null: it is a view, or nothing.
fn uuid_of(listed: Option<&DocBuf>) -> ValueRef<'_> {
    let info = listed.and_then(|listed| fields::document(listed.as_doc(), "info"));
    info.and_then(|info| info.get("uuid")).unwrap_or(ValueRef::Null)
}

/// Returns true if a collection on a shard is the one that was to be dropped, as far as can be known: on another shard its copy has another UUID.
fn is_same(dropped: Doc<'_>, shard: &str, listed: &DocBuf) -> bool {
    let uuid = dropped.get("uuid").unwrap_or(ValueRef::Null);
    fields::string(dropped, "shard") != Some(shard) || arbor_bson::identical(uuid, uuid_of(Some(listed)))
}

impl<'r> Request<'r> {
    pub(crate) fn drop_collection(&self) -> Result<Answer> {
        let namespace = self.namespace()?;
        self.with_routing(self.routed.db, &namespace, false, |routing| match routing {
            Routing::Config(shard) => Ok(Answer::Reply(self.forward_to(routing, shard)?)),
            Routing::Unsharded(shard, _) => self.drop_unsharded(&namespace, routing, shard),
            Routing::Sharded(..) => {
                self.drop_everywhere(&namespace)?;
                let reply = DocBuf::new().with("ns", namespace.as_str()).with("nIndexesWas", 1i32);
                Ok(Answer::Reply(reply))
            }
        })
    }

    /// Drops a collection on its shard, and then its ranges of zones: also those of one that is not there. The ranges name it first, so that who takes the
    /// lock over removes them if the shard has dropped it.
    fn drop_unsharded(&self, namespace: &str, routing: &Routing, shard: &Arc<Shard>) -> Result<Answer> {
        if self.catalog().read("tags", &ranges_of(namespace), "_id", self.interrupt())?.is_empty() {
            return Ok(Answer::Reply(self.forward_to(routing, shard)?));
        }
        let guard = self.completed(self.lock_renewed(namespace)?)?;
        self.check_series(routing)?;
        let listed = self.on_shard(shard, &Namespace::parse(namespace)?, Some(&guard))?;
        let dropped = DocBuf::new().with("shard", shard.name.as_str()).with("uuid", uuid_of(listed.as_ref()));
        let note = DocBuf::new().with("$set", &DocBuf::new().with(DROPPING, &dropped));
        guard.leave();
        let reply = self.change_ranges(&ranges_of(namespace), Some(&note), &guard).and_then(|()| {
            let command = versioned(guard.fenced(self.plain()), routing, &shard.name);
            self.on_one(shard, self.routed.db, command, &[])
        });
        self.finishing(|request| {
            let interrupt = request.interrupt();
            if reply.is_err() {
                retried(interrupt, || guard.end_begun(interrupt))?;
            }
            retried(interrupt, || request.finish_ranges(namespace, &guard))
        })?;
        guard.settled();
        Ok(Answer::Reply(fields::passed(&reply?)))
    }

    /// Removes the ranges of zones of a collection whose drop has begun, if the shard has dropped it. Requires its lock, and that it is not on chosen shards.
    fn finish_ranges(&self, namespace: &str, guard: &Guard<'_>) -> Result<()> {
        let name = Namespace::parse(namespace)?;
        let noted = ranges_of(namespace).with(DROPPING, &DocBuf::new().with("$exists", true));
        let ranges = self.catalog().read("tags", &noted, "_id", self.interrupt())?;
        let Some(dropped) = ranges.first().and_then(|range| fields::document(range.as_doc(), DROPPING)) else {
            return Ok(());
        };
        self.catalog().forget_database(name.db());
        let listed = match self.catalog().database(name.db(), self.interrupt())? {
            None => None,
            Some(database) => {
                let shard = self.catalog().shard(&database.primary, self.interrupt())?;
                // behind the drop, if that is still on its way
                let listed = self.on_shard(&shard, &name, Some(guard))?;
                listed.filter(|listed| is_same(dropped, &shard.name, listed))
            }
        };
        let kept = DocBuf::new().with("$unset", &DocBuf::new().with(DROPPING, ""));
        self.change_ranges(&noted, listed.map(|_| &kept), guard)
    }

    /// Changes ranges of zones of a collection, as the holder of its lock. `change`: none removes them.
    fn change_ranges(&self, ranges: &DocBuf, change: Option<&DocBuf>, guard: &Guard<'_>) -> Result<()> {
        let command = match change {
            Some(change) => updates("tags", &[DocBuf::new().with("q", ranges).with("u", change).with("multi", true)]),
            None => deletes("tags", ranges),
        };
        let of_zones = self.lock_zones()?;
        self.catalog().transaction([guard, &of_zones], &[command], self.interrupt())
    }

    /// Drops the parts of a collection on all shards, and forgets its chunks and zones.
    pub(crate) fn drop_everywhere(&self, namespace: &str) -> Result<()> {
        let guard = self.completed(self.lock_renewed(namespace)?)?;
        let interrupt = self.interrupt();
        if self.catalog().read_one("collections", namespace.into(), interrupt)?.is_none() {
            // another router was faster
            self.forget(namespace);
            return Ok(());
        }
        let shards = self.catalog().refresh_shards(interrupt)?;
        let set = DocBuf::new().with("$set", &DocBuf::new().with("dropping", true));
        let blocked = self.set_ownership(&shards, namespace, Known::Blocked, &guard);
        let decided = blocked.and_then(|()| self.change_collection(namespace, &guard, &set));
        self.finishing(|request| {
            let interrupt = request.interrupt();
            if let Err(error) = decided {
                retried(interrupt, || guard.end_begun(interrupt))?;
                let now =
                    retried(interrupt, || request.catalog().read_one("collections", namespace.into(), interrupt))?;
                if !now.is_some_and(|now| fields::is_true(now.as_doc(), "dropping")) {
                    // where it fails, the lock is left
                    let _ = request.bring_in_line(namespace, &guard);
                    return Err(error);
                }
            }
            retried(interrupt, || request.finish_change(namespace, &guard))
        })
    }

    /// Completes what a change of a collection has left that the config servers have decided, under its old or new name, or that was given up.
    /// Requires the lock of the name. Errors: also that another router is completing it.
    pub(crate) fn finish_change(&self, namespace: &str, guard: &Guard<'_>) -> Result<()> {
        let interrupt = self.interrupt();
        self.end_dead_resharding(namespace, guard)?;
        let Some(collection) = self.catalog().read_one("collections", namespace.into(), interrupt)? else {
            self.finish_ranges(namespace, guard)?;
            let before = DocBuf::new().with("renaming.from", namespace);
            let renamed = self.catalog().read("collections", &before, "_id", interrupt)?;
            let Some(to) = renamed.first().and_then(|doc| fields::string(doc.as_doc(), "_id")) else { return Ok(()) };
            let busy = || {
                let text = format!("another operation on {namespace} is in progress");
                Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text)
            };
            let of_target = self.try_lock_as(to, true)?.ok_or_else(busy)?;
            return self.finish_change(to, &of_target);
        };
        if fields::is_true(collection.as_doc(), "dropping") {
            return self.finish_dropping(namespace, &collection, guard);
        }
        if let Some(renaming) = fields::document(collection.as_doc(), "renaming") {
            let from = fields::string(renaming, "from").unwrap_or_default();
            self.finish_renaming((from, namespace), &collection, guard)?;
        }
        self.finish_replacing(namespace, guard)
    }

    fn finish_dropping(&self, namespace: &str, collection: &DocBuf, guard: &Guard<'_>) -> Result<()> {
        let interrupt = self.interrupt();
        let (db, name) = namespace.split_once('.').unwrap_or((namespace, ""));
        let shards = self.catalog().refresh_shards(interrupt)?;
        self.set_ownership(&shards, namespace, Known::Blocked, guard)?;
        for shard in &shards {
            guard.renew(interrupt)?;
            // a time series goes with its buckets
            let name = name.strip_prefix(BUCKETS).unwrap_or(name);
            match shard.call(db, &guard.fenced(DocBuf::new().with("drop", name)), interrupt) {
                Err(error) if error.code == Code::NAMESPACE_NOT_FOUND => {}
                other => drop(other?),
            }
        }
        let uuid = collection.get("uuid").unwrap_or(ValueRef::Null);
        self.catalog().delete_chunks(uuid, interrupt)?;
        let (of_collection, gone) = (DocBuf::new().with("ns", namespace), deletes("collections", &id_is(namespace)));
        self.transaction_without_zones(guard, &of_collection, &[gone], interrupt)?;
        self.bring_in_line(namespace, guard).map(drop)
    }

    pub(crate) fn rename(&self) -> Result<Answer> {
        let from = Namespace::parse(self.collection()?)?;
        let to = Namespace::parse(self.text("to")?)?;
        self.with_routing(from.db(), from.as_str(), false, |source| {
            let target = self.routing(to.db(), to.as_str(), true)?;
            self.rename_by((&from, source), (&to, &target))
        })
    }

    fn rename_by(
        &self,
        (from, source): (&Namespace, &Routing),
        (to, target): (&Namespace, &Routing),
    ) -> Result<Answer> {
        match (source, target) {
            (Routing::Sharded(..), _) => {
                self.rename_everywhere(from, to)?;
                Ok(Answer::Reply(DocBuf::new()))
            }
            (Routing::Unsharded(shard, _), Routing::Unsharded(other, _)) if shard.name == other.name => {
                self.rename_on(shard, [(from, source), (to, target)])
            }
            // the target is on chosen shards
            (Routing::Unsharded(shard, _), Routing::Sharded(..)) if from.db() == to.db() => {
                self.check_target(to)?;
                if self.on_shard(shard, from, None)?.is_none() {
                    let text = format!("Source collection {from} does not exist");
                    return Err(Error::new(Code::NAMESPACE_NOT_FOUND, text));
                }
                self.drop_everywhere(to.as_str())?;
                self.rename_on(shard, [(from, source), (to, &self.routing(to.db(), to.as_str(), false)?)])
            }
            _ => {
                let text = "Source and destination collections must be on same shard";
                Err(Error::new(Code::ILLEGAL_OPERATION, text))
            }
        }
    }

    fn rename_on(&self, shard: &Arc<Shard>, names: [(&Namespace, &Routing); 2]) -> Result<Answer> {
        let mut versions = ArrayBuf::new();
        for (name, routing) in names {
            // the shard refuses time series by themselves
            if self.catalog().buckets(name.db(), name.collection(), self.interrupt())?.is_none()
                && let Some(entry) = version_entry(name.as_str(), routing)
            {
                versions.push(&entry);
            }
        }
        let reply = self.on_one(shard, "admin", self.plain().with("shardVersions", &versions), &[])?;
        Ok(Answer::Reply(fields::passed(&reply)))
    }

    /// Returns the collection or view as a shard lists it.
    fn on_shard(&self, shard: &Shard, namespace: &Namespace, guard: Option<&Guard<'_>>) -> Result<Option<DocBuf>> {
        let only = DocBuf::new().with("name", namespace.collection());
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &only);
        let list = match guard {
            Some(guard) => guard.fenced(list),
            None => list,
        };
        let listed = shard.call(namespace.db(), &list, self.interrupt())?;
        Ok(first_batch(listed.as_doc())?.first().map(|doc| doc.to_buf()))
    }

    /// Refuses a name that is in use, unless what has it is to be dropped.
    fn check_target(&self, to: &Namespace) -> Result<()> {
        let exists = || Error::new(Code::NAMESPACE_EXISTS, "target namespace exists");
        let may_drop = fields::is_true(self.body(), "dropTarget");
        if self.tracked(to.as_str())?.is_some() {
            return if may_drop { Ok(()) } else { Err(exists()) };
        }
        let Some(database) = self.catalog().database(to.db(), self.interrupt())? else { return Ok(()) };
        let primary = self.catalog().shard(&database.primary, self.interrupt())?;
        match self.on_shard(&primary, to, None)? {
            Some(listed) if !may_drop || fields::string(listed.as_doc(), "type") != Some("collection") => Err(exists()),
            _ => Ok(()),
        }
    }

    fn rename_everywhere(&self, from: &Namespace, to: &Namespace) -> Result<()> {
        if from == to {
            return Err(Error::new(Code::ILLEGAL_OPERATION, "Can't rename a collection to itself"));
        }
        if from.db() != to.db() {
            let text = "Source and destination collections must be on the same database.";
            return Err(Error::new(Code::COMMAND_FAILED, text));
        }
        to.check_creatable()?;
        // in the order of the names, so that two routers do not wait for each other
        let (first, second) = if from < to { (from, to) } else { (to, from) };
        let first = self.lock_for_move(first.as_str())?;
        let second = self.lock_for_move(second.as_str())?;
        let (of_source, of_target) = if from < to { (&first, &second) } else { (&second, &first) };
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("Source collection {from} does not exist"));
        let table = self.tracked(from.as_str())?.ok_or_else(missing)?;
        self.check_target(to)?;
        // documents that have left a shard would be there again under the new name
        for shard in self.shards_named(&table.shards().collect::<Vec<_>>())? {
            self.wait_for_ranges(&table, &shard, of_source, &|| first.renew(self.interrupt()))?;
        }
        let shards = self.catalog().refresh_shards(self.interrupt())?;
        let both = [(from, of_source), (to, of_target)];
        let blocked =
            both.iter().try_for_each(|(name, guard)| self.set_ownership(&shards, name.as_str(), Known::Blocked, guard));
        let committed = blocked.and_then(|()| self.commit_renaming((from, to), [&first, &second]));
        self.finishing(|request| {
            let interrupt = request.interrupt();
            // also where the reply was lost, or the statement was ended
            if committed.is_err() {
                both.iter().try_for_each(|(_, guard)| retried(interrupt, || guard.end_begun(interrupt)))?;
            }
            let renamed =
                retried(interrupt, || request.catalog().read_one("collections", to.as_str().into(), interrupt))?;
            let is_done = renamed.is_some_and(|now| fields::binary(now.as_doc(), "uuid") == Some(&table.uuid));
            if is_done {
                return retried(interrupt, || {
                    of_source.renew(interrupt)?;
                    request.finish_change(to.as_str(), of_target)?;
                    request.bring_in_line(from.as_str(), of_source).map(drop)
                });
            }
            for (name, guard) in both {
                // where it fails, the lock is left
                let _ = request.bring_in_line(name.as_str(), guard);
            }
            committed
        })
    }

    fn commit_renaming(&self, (from, to): (&Namespace, &Namespace), guards: [&Guard<'_>; 2]) -> Result<()> {
        let interrupt = self.interrupt().within(FINISH_MAX);
        let read = |name: &Namespace| self.catalog().read_one("collections", name.as_str().into(), &interrupt);
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("Source collection {from} does not exist"));
        let (source, target) = (read(from)?.ok_or_else(missing)?, read(to)?);
        let mut renaming = DocBuf::new().with("from", from.as_str());
        if let Some(uuid) = target.as_ref().and_then(|target| target.get("uuid")) {
            renaming.append("before", uuid);
        }
        let named = |(name, value)| match name {
            "_id" => (name, ValueRef::String(to.as_str())),
            "lastmodEpoch" => (name, ValueRef::ObjectId(arbor_protocol::topology::new_object_id())),
            "timestamp" => (name, ValueRef::Timestamp(crate::catalog::now())),
            _ => (name, value),
        };
        let renamed: DocBuf = source.as_doc().iter().map(named).collect();
        let renamed = renamed.with("renaming", &renaming);
        let mut commands = [from, to].map(|name| deletes("collections", &id_is(name.as_str()))).to_vec();
        commands.push(inserts("collections", &[renamed]));
        let of_zones = self.lock_zones()?;
        let zones = self.catalog().read("tags", &DocBuf::new().with("ns", from.as_str()), "min", &interrupt)?;
        commands.extend([from, to].map(|name| deletes("tags", &DocBuf::new().with("ns", name.as_str()))));
        if !zones.is_empty() {
            let zones: Vec<DocBuf> = zones.iter().map(|zone| zone_of(zone, to)).collect();
            commands.push(inserts("tags", &zones));
        }
        let [first, second] = guards;
        self.catalog().transaction([first, second, &of_zones], &commands, &interrupt)
    }

    fn finish_renaming(&self, (from, to): (&str, &str), collection: &DocBuf, guard: &Guard<'_>) -> Result<()> {
        let interrupt = self.interrupt();
        let (db, _) = to.split_once('.').unwrap_or_default();
        self.forget(from);
        self.forget(to);
        let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{to} was dropped meanwhile"));
        let table: Arc<Table> = self.catalog().table(to, interrupt)?.ok_or_else(missing)?;
        let database = self.catalog().database(db, interrupt)?;
        let shards = self.catalog().refresh_shards(interrupt)?;
        for name in [from, to] {
            self.set_ownership(&shards, name, Known::Blocked, guard)?;
        }
        for shard in &shards {
            guard.renew(interrupt)?;
            let is_primary = database.as_ref().is_some_and(|database| database.primary == shard.name);
            let mut replace = DocBuf::new().with("_shardsvrReplaceCollection", to);
            if is_primary || table.shards().any(|own| own == shard.name) {
                replace.append("renamed", from);
            } else {
                let gone = DocBuf::new().with("_shardsvrReplaceCollection", from);
                shard.call("admin", &guard.fenced(gone), interrupt)?;
            }
            // in the order of their tokens
            shard.call("admin", &guard.fenced(replace), interrupt)?;
        }
        let renaming = fields::document(collection.as_doc(), "renaming");
        if let Some(before) = renaming.and_then(|renaming| renaming.get("before")) {
            self.catalog().delete_chunks(before, interrupt)?;
        }
        let renamed = fields::without(collection.as_doc(), &["renaming"]);
        self.catalog().transaction([guard], &[updates("collections", &[replacement(&renamed)])], interrupt)?;
        self.set_ownership(&shards, from, Known::Nothing, guard)?;
        self.forget(from);
        self.bring_in_line(to, guard).map(drop)
    }
}

/// Returns a zone's range of a collection with another name.
fn zone_of(zone: &DocBuf, to: &Namespace) -> DocBuf {
    let id = DocBuf::new().with("ns", to.as_str());
    let id = match zone.get("min") {
        Some(min) => id.with("min", min),
        None => id,
    };
    let own = fields::without(zone.as_doc(), &["_id", "ns"]);
    let mut renamed = DocBuf::new().with("_id", &id).with("ns", to.as_str());
    own.as_doc().iter().for_each(|(name, value)| {
        renamed.append(name, value);
    });
    renamed
}
