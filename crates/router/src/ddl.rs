//! Collections, indexes and databases over the shards.

use std::sync::Arc;

use arbor_auth::{Action, Target};
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result};
use arbor_protocol::arguments::{Field, is_present};

use crate::catalog::{Routing, version_entry, versioned};
use crate::chunks::serves;
use crate::definitions::first_batch;
use crate::rows::Stream;
use crate::shard::Shard;
use crate::table::Table;
use crate::{Request, fields};

impl Request<'_> {
    pub(crate) fn define(&self, name: &str) -> Result<Answer> {
        match name {
            "create" => self.forward(true),
            "createIndexes" => self.on_shards_of(true),
            "collMod" | "dropIndexes" | "deleteIndexes" => self.on_shards_of(false),
            "drop" => self.drop_collection(),
            "dropDatabase" => self.drop_database(),
            _ => self.rename(),
        }
    }

    pub(crate) fn on_shards_of(&self, create: bool) -> Result<Answer> {
        let namespace = self.namespace()?;
        self.with_routing(self.routed.db, &namespace, create, |routing| match routing {
            Routing::Unsharded(shard, _) | Routing::Config(shard) => {
                Ok(Answer::Reply(self.forward_to(routing, shard)?))
            }
            Routing::Sharded(table, _) => {
                if self.routed.generic.is_in_transaction() {
                    return Ok(Answer::Reply(self.over_shards(table, routing)?));
                }
                let name = self.routed.info.name;
                let command = match name {
                    "collMod" => self.plain(),
                    "createIndexes" => {
                        if !table.unsplittable {
                            self.check_unique(table)?;
                        }
                        self.plain()
                    }
                    _ => self.indexes_to_drop(table)?,
                };
                let replies = self.change_definition(&namespace, command)?;
                let first = replies.first().map_or_else(DocBuf::new, |(_, reply)| fields::passed(reply));
                Ok(Answer::Reply(match name {
                    "collMod" => first,
                    "createIndexes" => DocBuf::new().with("raw", &raw(&replies)),
                    _ => {
                        let before = fields::int(first.as_doc(), "nIndexesWas") as i32;
                        DocBuf::new().with("raw", &raw(&replies)).with("nIndexesWas", before)
                    }
                }))
            }
        })
    }

    /// `cloneCollectionAsCapped`: the shard of the source checks the version of the target, too, which it is to make.
    pub(crate) fn clone_as_capped(&self) -> Result<Answer> {
        let Some(ValueRef::String(to)) = self.body().get("toCollection") else { return self.forward(false) };
        let (db, source) = (self.routed.db, self.namespace()?);
        let to = format!("{db}.{to}");
        let mut is_new = false;
        let reply = self.with_routing(db, &source, false, |routing| {
            let shard = match routing {
                Routing::Unsharded(shard, _) | Routing::Config(shard) => shard.clone(),
                Routing::Sharded(table, _) => match table.shards().collect::<Vec<_>>().as_slice() {
                    [only] => self.catalog().shard(only, self.interrupt())?,
                    _ => return self.over_shards(table, routing),
                },
            };
            let target = self.routing(db, &to, false)?;
            let refusal = match &target {
                Routing::Sharded(..) => {
                    let text = format!("cloneCollectionAsCapped failed - destination collection {to} already exists.");
                    Some(Error::new(Code::NAMESPACE_EXISTS, text))
                }
                Routing::Unsharded(own, _) if own.name != shard.name => {
                    let text = format!("{source} is not on the shard {}, on which {to} is to be", own.name);
                    Some(Error::new(Code::ILLEGAL_OPERATION, text))
                }
                Routing::Unsharded(..) | Routing::Config(_) => None,
            };
            match refusal {
                // no shard has checked what it is based on
                Some(refusal) if is_new => return Err(refusal),
                Some(refusal) => {
                    is_new = true;
                    self.forget(&to);
                    return Err(Error::new(Code::STALE_CONFIG, refusal.message.clone()));
                }
                None => {}
            }
            let versions: ArrayBuf = version_entry(&to, &target).iter().collect();
            let body = fields::without(self.body(), &["shardVersions"]).with("shardVersions", &versions);
            self.with_body(&body, |request| request.forward_to(routing, &shard))
        })?;
        Ok(Answer::Reply(reply))
    }

    /// Runs the command on all shards of a sharded collection, as it is.
    pub(crate) fn over_shards(&self, table: &Table, routing: &Routing) -> Result<DocBuf> {
        if ["cloneCollectionAsCapped", "convertToCapped"].contains(&self.routed.info.name) {
            let text = format!("can't do command: {} on sharded collection", self.routed.info.name);
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        let names: Vec<&str> = table.shards().collect();
        let shards = self.shards_named(&names)?;
        let commands =
            shards.iter().map(|shard| (shard.clone(), versioned(self.plain(), routing, &shard.name))).collect();
        let replies = self.on_all(self.routed.db, commands)?;
        match self.routed.info.name {
            "collStats" | "collstats" => Ok(self.collection_statistics(table, &replies)),
            "validate" => {
                let valid = replies.iter().all(|(_, reply)| fields::is_true(reply.as_doc(), "valid"));
                Ok(DocBuf::new().with("valid", valid).with("raw", &raw(&replies)))
            }
            _ => {
                let first = replies.first().map_or_else(DocBuf::new, |(_, reply)| fields::passed(reply));
                Ok(first)
            }
        }
    }

    fn collection_statistics(&self, table: &Table, replies: &[(Arc<Shard>, DocBuf)]) -> DocBuf {
        let sum = |name: &str| replies.iter().map(|(_, reply)| fields::int(reply.as_doc(), name)).sum::<i64>();
        let (count, size) = (sum("count"), sum("size"));
        let mut shards = DocBuf::new();
        replies.iter().for_each(|(shard, reply)| {
            shards.append(&shard.name, &fields::part(reply));
        });
        let mut reply = DocBuf::new().with("sharded", !table.unsplittable).with("ns", table.namespace.as_str());
        for name in ["size", "count", "storageSize", "totalIndexSize", "totalSize"] {
            reply.append(name, sum(name));
        }
        reply.append("avgObjSize", if count > 0 { size / count } else { 0 });
        let first = replies.first();
        reply.append("nindexes", first.map_or(0, |(_, own)| fields::int(own.as_doc(), "nindexes")));
        reply.append("nchunks", table.chunks() as i64);
        reply.with("shards", &shards)
    }

    /// A unique index must begin with the shard key, else no shard could check it.
    fn check_unique(&self, table: &Table) -> Result<()> {
        for value in fields::array(self.body(), "indexes").iter().flat_map(|all| all.iter()) {
            let ValueRef::Document(index) = value else { continue };
            let Some(key) = fields::document(index, "key").filter(|_| fields::is_true(index, "unique")) else {
                continue;
            };
            let starts = table.key.as_doc().iter().zip(key.iter().map(Some).chain(std::iter::repeat(None)));
            let mut starts = starts.map(|((path, direction), own)| {
                !arbor_command::analysis::is_hashed(direction) && own.is_some_and(|(name, _)| name == path)
            });
            if !starts.all(|same| same) {
                let text =
                    format!("cannot create unique index over {key} with shard key pattern {}", table.key.as_doc());
                return Err(Error::new(Code::CANNOT_CREATE_INDEX, text));
            }
        }
        Ok(())
    }

    /// Returns the command that drops indexes other than the last one that serves the shard key, which also `*` leaves.
    fn indexes_to_drop(&self, table: &Table) -> Result<DocBuf> {
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let names: Vec<&str> = table.shards().collect();
        let shards = self.shards_named(&names)?;
        let first = shards.first().ok_or_else(|| Error::new(Code::INTERNAL_ERROR, "a collection is on no shard"))?;
        let listed = first.call(db, &DocBuf::new().with("listIndexes", name), self.interrupt())?;
        let indexes = first_batch(listed.as_doc())?;
        let name_of = |index: Doc<'_>| fields::string(index, "name").unwrap_or_default().to_owned();
        let asked = self.body().get("index");
        let mut command = self.plain();
        let is_dropped = |index: Doc<'_>| match asked {
            Some(ValueRef::String("*")) => name_of(index) != "_id_",
            Some(ValueRef::String(name)) => name_of(index) == name,
            Some(ValueRef::Document(key)) => {
                fields::document(index, "key").is_some_and(|own| own.as_bytes() == key.as_bytes())
            }
            Some(ValueRef::Array(names)) => names.iter().filter_map(fields::text).any(|name| name == name_of(index)),
            _ => false,
        };
        let serving = |index: &&Doc<'_>| serves(**index, table.key.as_doc());
        let (dropped, left): (Vec<Doc<'_>>, Vec<Doc<'_>>) =
            indexes.iter().filter(serving).partition(|index| is_dropped(**index));
        // where there is none, the others may be dropped all the same
        if !table.unsplittable && !dropped.is_empty() && left.is_empty() {
            let kept = indexes.iter().find(serving).map(|index| name_of(*index));
            if !matches!(asked, Some(ValueRef::String("*"))) {
                let text = "Cannot drop the only compatible index for this collection's shard key";
                return Err(Error::new(Code::CANNOT_DROP_SHARD_KEY_INDEX, text));
            }
            let others: ArrayBuf = indexes
                .iter()
                .filter(|index| is_dropped(**index) && Some(name_of(**index)) != kept)
                .filter_map(|index| index.get("name"))
                .collect();
            command = fields::without(command.as_doc(), &["index"]).with("index", &others);
        }
        // under the one name of the command
        let others = command.as_doc().iter().skip(1);
        Ok(others.fold(DocBuf::new().with("dropIndexes", name), |doc, (name, value)| doc.with(name, value)))
    }

    pub(crate) fn list_databases(&self) -> Result<Answer> {
        let flag = |name| -> Result<Option<bool>> {
            let given = self.body().get(name).filter(|value| is_present(*value));
            Ok(given.map(|value| Field::new("listDatabases", name).bool(value)).transpose()?)
        };
        let (authorized, names_only) = (flag("authorizedDatabases")?, flag("nameOnly")? == Some(true));
        let all = self.permits(Target::Cluster, Action::ListDatabases);
        if !all && authorized == Some(false) {
            return Err(Error::new(Code::UNAUTHORIZED, "not authorized on the cluster to execute listDatabases"));
        }
        let all = all && authorized != Some(true);
        let shards = self.catalog().newest_shards(self.interrupt())?;
        let command = fields::without(self.plain().as_doc(), &["authorizedDatabases"]);
        let commands = shards.iter().map(|shard| (shard.clone(), command.clone())).collect();
        let mut replies = self.on_all("admin", commands)?;
        let of_config = self.catalog().ask_config("admin", &command, self.interrupt())?;
        replies.extend(of_config.map(|reply| (self.catalog().config.clone(), reply)));
        let mut sizes: std::collections::BTreeMap<String, (i64, DocBuf)> = std::collections::BTreeMap::new();
        for (shard, reply) in &replies {
            let is_config = shard.name == "config";
            for value in fields::array(reply.as_doc(), "databases").iter().flat_map(|all| all.iter()) {
                let ValueRef::Document(database) = value else { continue };
                let Some(name) = fields::string(database, "name") else { continue };
                if name == "local" || matches!(name, "admin" | "config") != is_config || !(all || self.reaches(name)) {
                    continue;
                }
                let size = fields::int(database, "sizeOnDisk");
                let (total, of_shards) = sizes.entry(name.to_owned()).or_default();
                *total += size;
                of_shards.append(&shard.name, size);
            }
        }
        let mut total = 0;
        let mut databases = ArrayBuf::new();
        for (name, (size, of_shards)) in &sizes {
            total += size;
            let entry = DocBuf::new().with("name", name.as_str());
            databases.push(&match names_only {
                true => entry,
                false => entry.with("sizeOnDisk", *size).with("empty", *size == 0).with("shards", of_shards),
            });
        }
        let reply = DocBuf::new().with("databases", &databases);
        Ok(Answer::Reply(match names_only {
            true => reply,
            false => reply.with("totalSize", total).with("totalSizeMb", total >> 20),
        }))
    }

    pub(crate) fn database_statistics(&self) -> Result<Answer> {
        let db = self.routed.db;
        if db == "config" || db == "admin" {
            let config = self.catalog().config.clone();
            return Ok(Answer::Reply(self.forward_to(&Routing::Config(config.clone()), &config)?));
        }
        let shards = self.catalog().newest_shards(self.interrupt())?;
        let commands = shards.iter().map(|shard| (shard.clone(), self.plain())).collect();
        let replies = self.on_all(db, commands)?;
        let sum =
            |name: &str| -> f64 { replies.iter().filter_map(|(_, reply)| fields::number(reply.as_doc(), name)).sum() };
        let mut reply = DocBuf::new().with("raw", &raw(&replies)).with("db", db);
        for name in ["collections", "views", "objects"] {
            reply.append(name, sum(name) as i64);
        }
        let objects = sum("objects");
        // the sizes are in the scale that was given, the average is in bytes
        let of_one = |(_, own): &(Arc<Shard>, DocBuf)| {
            let own = own.as_doc();
            fields::number(own, "avgObjSize").zip(fields::number(own, "objects")).map(|(average, n)| average * n)
        };
        let bytes: f64 = replies.iter().filter_map(of_one).sum();
        reply.append("avgObjSize", if objects > 0.0 { bytes / objects } else { 0.0 });
        for name in ["dataSize", "storageSize"] {
            reply.append(name, sum(name));
        }
        reply.append("indexes", sum("indexes") as i64);
        for name in ["indexSize", "totalSize"] {
            reply.append(name, sum(name));
        }
        Ok(Answer::Reply(reply))
    }
}

impl Request<'_> {
    /// `dataSize`, which names its collection with the database.
    pub(crate) fn data_size(&self) -> Result<Answer> {
        let Some((db, _)) = self.collection()?.split_once('.') else { return self.forward(false) };
        let routing = self.routing(db, self.collection()?, false)?;
        let shards = self.targets(&routing, Doc::empty(), &self.context(None))?;
        let replies = self.on_all(self.routed.db, shards.into_iter().map(|shard| (shard, self.plain())).collect())?;
        let sum = |name: &str| replies.iter().map(|(_, reply)| fields::int(reply.as_doc(), name)).sum::<i64>();
        let mut reply = DocBuf::new().with("estimate", false);
        for name in ["size", "numObjects", "millis"] {
            reply.append(name, sum(name));
        }
        Ok(Answer::Reply(reply))
    }

    /// `$listClusterCatalog` and the stages after it: what the primary shard of each database lists.
    pub(crate) fn cluster_catalog(&self, stages: Array<'_>) -> Result<Answer> {
        let interrupt = self.interrupt();
        let own: ArrayBuf = stages.iter().take(1).collect();
        let command = DocBuf::new().with("aggregate", 1i32).with("pipeline", &own).with("cursor", &DocBuf::new());
        let only = Some(self.routed.db).filter(|db| *db != "admin");
        let mut documents = Vec::new();
        for (db, primary) in &self.catalog().databases(only, interrupt)? {
            let elsewhere = self.collections_elsewhere(db)?;
            let not_here: Vec<&String> = elsewhere.values().flatten().collect();
            let all = elsewhere.iter().map(|(shard, names)| (shard.as_str(), Some(names)));
            for (shard, names) in all.chain([(primary.as_str(), None)]) {
                let shard = self.catalog().shard(shard, interrupt)?;
                let reply = shard.call(db, &command, interrupt)?;
                let mut stream = Stream::begin(shard, reply.as_doc(), command.as_doc(), None)?;
                while let Some(listed) = stream.pull(interrupt)? {
                    let namespace = fields::string(listed.as_doc(), "ns").unwrap_or_default();
                    let name = namespace.split_once('.').map_or("", |(_, name)| name);
                    let is_of = |names: &Vec<String>| names.iter().any(|own| own == name);
                    if !names.map_or(!not_here.iter().any(|own| *own == name), is_of) {
                        continue;
                    }
                    let table = self.catalog().table(namespace, interrupt)?;
                    documents.push(as_in_cluster(listed.as_doc(), table.as_deref(), primary));
                }
            }
        }
        self.over_documents(documents, stages)
    }
}

/// Returns an entry of `$listClusterCatalog` with what only the cluster knows of it.
fn as_in_cluster(listed: Doc<'_>, table: Option<&Table>, primary: &str) -> DocBuf {
    let sharded = table.filter(|table| !table.unsplittable);
    let mut shown = fields::without(listed, &["sharded", "shards"]).with("sharded", sharded.is_some());
    if let Some(table) = sharded {
        shown.append("shardKey", &table.key);
    }
    if listed.get("shards").is_some() {
        let is_view = fields::string(listed, "type") == Some("view");
        let names = match table {
            Some(table) => table.shards().collect(),
            None if is_view => ArrayBuf::new(),
            None => std::iter::once(primary).collect(),
        };
        shown.append("shards", &names);
    }
    shown
}

pub(crate) fn raw(replies: &[(Arc<Shard>, DocBuf)]) -> DocBuf {
    let mut raw = DocBuf::new();
    replies.iter().for_each(|(shard, reply)| {
        raw.append(&shard.hosts(), &fields::part(reply));
    });
    raw
}
