//! Commands of the cluster: shards, databases, zones, the balancer's switch.
//!
//! A1: a change of who owns what goes in this order: the shards refuse requests of the old version ("blocked"), the config servers are
//! changed, the shards learn the new version. Each change is made by the holder of a lock ([`Guard`]).

use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{Array, ArrayBuf, Code, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result};
use arbor_query::Interrupt;

use crate::balancer::{self, Selection, Situation};
use crate::catalog::{Database, Routing, deletes, inserts, now, updates};
use crate::chunks::replacement;
use crate::lock::{Guard, is_old};
use crate::moves::retried;
use crate::shard::Shard;
use crate::table::{self, Table};
use crate::{Request, fields};

/// Longest wait of `balancerStop` for the round that runs.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// Knowledge of a shard.
#[derive(Clone, Copy)]
pub(crate) enum Known<'t> {
    /// A change is under way.
    Blocked,
    /// A collection is where unsharded ones are; a database is none.
    Nothing,
    Collection(&'t Table),
    /// Version of a database.
    Database(&'t DocBuf),
}

impl Known<'_> {
    pub(crate) fn command(self, name: &str, shard: &str, guard: &Guard<'_>) -> DocBuf {
        let command = guard.fenced(DocBuf::new().with("_shardsvrSetOwnership", name));
        match self {
            Known::Blocked => command.with("state", "blocked"),
            Known::Nothing => command.with("state", "none"),
            Known::Collection(table) => {
                command.with("state", "collection").with("version", &table.version_for(shard)).with("key", &table.key)
            }
            Known::Database(version) => command.with("state", "database").with("version", version),
        }
    }
}

impl<'r> Request<'r> {
    pub(crate) fn administer(&self, name: &str) -> Result<Option<DocBuf>> {
        if let Some(reply) = self.administer_buckets(name)? {
            return Ok(Some(reply));
        }
        Ok(Some(match name {
            "addShard" => self.add_shard()?,
            "addShardToZone" => self.zone_of_shard(true)?,
            "removeShardFromZone" => self.zone_of_shard(false)?,
            "updateZoneKeyRange" => self.zone_of_range()?,
            "balancerCollectionStatus" => self.balancer_collection_status()?,
            "balancerStart" | "balancerStop" => self.switch_balancer(name == "balancerStop")?,
            "balancerStatus" => self.balancer_status()?,
            "configureCollectionBalancing" => self.configure_balancing()?,
            "clearJumboFlag" => self.clear_jumbo()?,
            "enableSharding" => self.enable_sharding()?,
            "flushRouterConfig" => {
                self.catalog().forget_all();
                DocBuf::new().with("flushed", true)
            }
            "getShardMap" => self.shard_map()?,
            "getShardVersion" => self.shard_version()?,
            "listShards" => self.list_shards()?,
            "moveChunk" => self.move_chunk()?,
            "moveRange" => self.move_range()?,
            "mergeChunks" => self.merge_chunks()?,
            "mergeAllChunksOnShard" => self.merge_all_chunks()?,
            "movePrimary" => self.move_primary()?,
            "refineCollectionShardKey" => self.refine_shard_key()?,
            "removeShard" => self.remove_shard()?,
            "abortMoveCollection" | "abortReshardCollection" | "abortUnshardCollection" => {
                self.abort_resharding(name)?
            }
            "commitReshardCollection" => self.commit_resharding()?,
            "moveCollection" => self.move_collection()?,
            "reshardCollection" => self.reshard_collection()?,
            "unshardCollection" => self.unshard_collection()?,
            "setAllowMigrations" => self.allow_migrations()?,
            "shardCollection" => self.shard_collection()?,
            "split" => self.split_chunk()?,
            _ => return Ok(None),
        }))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'r str> {
        let value = match self.body().first() {
            Some((first, value)) if first == name => Some(value),
            _ => self.body().get(name),
        };
        match value {
            Some(ValueRef::String(text)) if !text.is_empty() => Ok(text),
            Some(ValueRef::String(_)) => Err(Error::bad_value(format!("{name} must not be empty"))),
            Some(other) => Err(arbor_protocol::arguments::Field::new(self.routed.info.name, name)
                .wrong_type(other, "string")
                .into()),
            None => Err(arbor_protocol::arguments::Field::new(self.routed.info.name, name).missing().into()),
        }
    }

    /// Sets what shards know of a collection or database, as the holder of a lock, which is left where they are blocked and not brought in line later.
    pub(crate) fn set_ownership(
        &self,
        shards: &[Arc<Shard>],
        name: &str,
        known: Known<'_>,
        guard: &Guard<'_>,
    ) -> Result<()> {
        if matches!(known, Known::Blocked) {
            guard.leave();
        }
        for shard in shards {
            shard.call("admin", &known.command(name, &shard.name, guard), self.interrupt())?;
        }
        Ok(())
    }

    /// Brings what the shards know of a collection in line with the config servers, if no other router is changing it.
    pub(crate) fn repair(&self, db: &str, namespace: &str) -> Result<()> {
        if matches!(db, "config" | "admin") {
            return Ok(());
        }
        for name in [db, namespace] {
            let Some(guard) = self.try_lock_as(name, true)? else { return Ok(()) };
            self.catalog().forget(db, namespace);
            self.catalog().forget_former(namespace);
            guard.held_while(|| self.complete(name, &guard))?;
        }
        Ok(())
    }

    /// Completes what routers have left that ended, as their old locks say, and what stages of this one wait for.
    pub(crate) fn continue_changes(&self) -> Result<()> {
        for namespace in self.catalog().take_unrepaired() {
            self.interrupt().check()?;
            // where it fails, it is requested again
            let _ = self.repair(namespace.split('.').next().unwrap_or_default(), &namespace);
        }
        for held in self.catalog().read("locks", &DocBuf::new(), "_id", self.interrupt())? {
            self.interrupt().check()?;
            if is_old(held.as_doc()) {
                // what is in the way may have gone the next time
                let _ = self.take_over(held.as_doc());
            }
        }
        Ok(())
    }

    /// Brings all shards in line with what the config servers say of a collection, and returns that. Requires its lock, and that no change of it
    /// was left.
    pub(crate) fn bring_in_line(&self, namespace: &str, guard: &Guard<'_>) -> Result<Option<Arc<Table>>> {
        assert_eq!(guard.name(), namespace, "a name is brought in line by the holder of its own lock");
        self.forget(namespace);
        let shards = self.catalog().refresh_shards(self.interrupt())?;
        let table = self.tracked(namespace)?;
        match &table {
            Some(table) => shards.iter().try_for_each(|shard| self.settle(table, shard, guard, self.interrupt()))?,
            None => self.set_ownership(&shards, namespace, Known::Nothing, guard)?,
        }
        guard.settled();
        Ok(table)
    }

    /// Brings all shards in line behind the decision of the config servers about a collection, and returns what it is then. Requires its lock.
    /// `decided`: the error of that decision, which may have been made all the same.
    pub(crate) fn end_block(
        &self,
        namespace: &str,
        guard: &Guard<'_>,
        decided: &Result<()>,
    ) -> Result<Option<Arc<Table>>> {
        self.finishing(|request| {
            let interrupt = request.interrupt();
            match decided {
                Ok(()) => retried(interrupt, || request.bring_in_line(namespace, guard)),
                Err(_) => {
                    retried(interrupt, || guard.end_begun(interrupt))?;
                    request.bring_in_line(namespace, guard)
                }
            }
        })
    }

    /// Brings all shards in line with what the config servers say of a database. Requires its lock, and that no change of it was left.
    pub(crate) fn bring_database_in_line(&self, db: &str, guard: &Guard<'_>) -> Result<()> {
        self.catalog().forget_database(db);
        let shards = self.catalog().refresh_shards(self.interrupt())?;
        let database = self.catalog().database(db, self.interrupt())?;
        let known = database.as_ref().map_or(Known::Nothing, |database| Known::Database(&database.version));
        self.set_ownership(&shards, db, known, guard)?;
        guard.settled();
        Ok(())
    }

    /// Like [`Catalog::database_or_new`](crate::catalog::Catalog); the shard of a new one learns its version, without which it refuses requests.
    pub(crate) fn database_or_new(&self, name: &str, primary: Option<&str>) -> Result<Database> {
        let (database, is_new) = self.catalog().database_or_new(name, primary, self.interrupt())?;
        if !is_new {
            return Ok(database);
        }
        let guard = self.lock_renewed(name)?;
        self.catalog().forget_database(name);
        let dropped = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("database {name} was dropped meanwhile"));
        let database = self.catalog().database(name, self.interrupt())?.ok_or_else(dropped)?;
        if !database.is_dropping {
            let shard = self.catalog().shard(&database.primary, self.interrupt())?;
            self.set_ownership(&[shard], name, Known::Database(&database.version), &guard)?;
        }
        Ok(database)
    }

    /// Finds out where a collection is. `create`: its database is created if it does not exist.
    pub(crate) fn routing(&self, db: &str, namespace: &str, create: bool) -> Result<Routing> {
        match self.catalog().routing(db, namespace, self.interrupt())? {
            Routing::Unsharded(_, None) if create => {
                self.database_or_new(db, None)?;
                self.catalog().routing(db, namespace, self.interrupt())
            }
            routing => Ok(routing),
        }
    }

    fn list_shards(&self) -> Result<DocBuf> {
        let mut filter = DocBuf::new();
        if let Some(named) = self.body().get("filter") {
            let field = arbor_protocol::arguments::Field::new(self.routed.info.name, "filter");
            for (name, value) in field.document(named)? {
                let field = arbor_protocol::arguments::Field::new("listShards.filter", name);
                if name != "draining" {
                    return Err(field.unknown().into());
                }
                match field.bool(value)? {
                    true => filter.append("draining", true),
                    false => filter.append("draining", &DocBuf::new().with("$ne", true)),
                };
            }
        }
        let shards = self.catalog().read("shards", &filter, "_id", self.interrupt())?;
        Ok(DocBuf::new().with("shards", &shards.iter().collect::<ArrayBuf>()))
    }

    fn add_shard(&self) -> Result<DocBuf> {
        let (hosts, interrupt) = (self.text("addShard")?, self.interrupt());
        let name = match self.body().get("name") {
            Some(_) => self.text("name")?,
            None => hosts.split('/').next().unwrap_or_default(),
        };
        if matches!(name, "config" | "admin" | "local") {
            return Err(Error::bad_value(format!("a shard cannot have the name '{name}'")));
        }
        let shard = self.catalog().new_shard(name, hosts).map_err(Error::failed_to_parse)?;
        let guard = self.lock("config.shards")?;
        let existing = self.catalog().refresh_shards(interrupt)?;
        let refused = |text: String| Err(Error::new(Code::OPERATION_FAILED, text));
        if let Some(known) = existing.iter().find(|known| known.name == name || known.set == shard.set) {
            if known.name == name && known.set == shard.set {
                return Ok(DocBuf::new().with("shardAdded", name));
            }
            let text =
                format!("A shard named {} containing the replica set '{}' already exists", known.name, known.set);
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        if shard.set == self.catalog().config.set {
            return refused(format!("Cannot add {hosts} as a shard since it is the set of the config servers"));
        }
        let listed = shard.call("admin", &DocBuf::new().with("listDatabases", 1i32).with("nameOnly", true), interrupt);
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return refused(format!("the shard {hosts} cannot be added: {}", error.message)),
        };
        let databases = fields::array(listed.as_doc(), "databases");
        let names = databases.iter().flat_map(|all| all.iter()).filter_map(|entry| match entry {
            ValueRef::Document(entry) => fields::string(entry, "name"),
            _ => None,
        });
        let names: Vec<&str> = names.filter(|name| !matches!(*name, "admin" | "config" | "local")).collect();
        for database in &names {
            if let Some(own) = self.catalog().database(database, interrupt)? {
                return refused(format!(
                    "can't add shard '{hosts}' because a local database '{database}' exists in another {}",
                    own.primary
                ));
            }
        }
        let cluster = self.router.cluster_id(interrupt)?;
        let join = DocBuf::new()
            .with("_shardsvrJoin", 1i32)
            .with("shardName", name)
            .with("clusterId", ValueRef::ObjectId(cluster))
            .with("configsvrConnectionString", self.router.config_db.as_str());
        if let Err(error) = shard.call("admin", &guard.fenced(join), interrupt) {
            return refused(format!("the shard {hosts} cannot be added: {}", error.message));
        }
        let document = DocBuf::new()
            .with("_id", name)
            .with("host", shard.hosts().as_str())
            .with("state", 1i32)
            .with("topologyTime", ValueRef::Timestamp(now()))
            .with("replSetConfigVersion", 1i64);
        self.catalog().transaction([&guard], &[inserts("shards", &[document])], interrupt)?;
        for database in names {
            self.database_or_new(database, Some(name))?;
        }
        self.catalog().refresh_shards(interrupt)?;
        Ok(DocBuf::new().with("shardAdded", name))
    }

    fn remove_shard(&self) -> Result<DocBuf> {
        let (name, interrupt) = (self.text("removeShard")?, self.interrupt());
        let guard = self.lock("config.shards")?;
        let shards = self.catalog().refresh_shards(interrupt)?;
        let shard = self.catalog().shard(name, interrupt)?;
        if shards.len() == 1 {
            return Err(Error::new(
                Code::ILLEGAL_OPERATION,
                "Operation not allowed because it would remove the last shard",
            ));
        }
        let own = self.catalog().read_one("shards", name.into(), interrupt)?.unwrap_or_default();
        let was_draining = fields::is_true(own.as_doc(), "draining");
        let chunks = self.catalog().read("chunks", &DocBuf::new().with("shard", name), "_id", interrupt)?;
        let unsplittable = DocBuf::new().with("unsplittable", true);
        let placed = self.catalog().read("collections", &unsplittable, "_id", interrupt)?;
        let uuid = |doc: &DocBuf| fields::binary(doc.as_doc(), "uuid").map(<[u8]>::to_vec);
        let is_here = |collection: &&DocBuf| chunks.iter().any(|chunk| uuid(chunk) == uuid(collection));
        let collections_to_move: ArrayBuf = placed.iter().filter(is_here).filter_map(|own| own.get("_id")).collect();
        let jumbo = chunks.iter().filter(|chunk| fields::is_true(chunk.as_doc(), "jumbo")).count();
        let chunks = chunks.len();
        let databases = self.catalog().read("databases", &DocBuf::new().with("primary", name), "_id", interrupt)?;
        let to_move: ArrayBuf = databases.iter().filter_map(|own| own.get("_id")).collect();
        let remaining = DocBuf::new().with("chunks", chunks as i64).with("dbs", databases.len() as i64);
        let remaining = remaining.with("jumboChunks", jumbo as i64);
        let note = "you need to drop or movePrimary these databases";
        let shown =
            |state: &str, message: &str| DocBuf::new().with("msg", message).with("state", state).with("shard", name);
        if !was_draining {
            self.check_zones_without(name, own.as_doc())?;
            let draining = fields::without(own.as_doc(), &["draining"]).with("draining", true);
            self.catalog().transaction([&guard], &[updates("shards", &[replacement(&draining)])], interrupt)?;
            let reply = shown("started", "draining started successfully");
            return Ok(reply
                .with("note", note)
                .with("dbsToMove", &to_move)
                .with("collectionsToMove", &collections_to_move));
        }
        if chunks > 0 || !databases.is_empty() {
            let reply = shown("ongoing", "draining ongoing").with("remaining", &remaining);
            return Ok(reply
                .with("note", note)
                .with("dbsToMove", &to_move)
                .with("collectionsToMove", &collections_to_move));
        }
        let of_zones = self.lock_zones()?;
        self.check_zones_without(name, own.as_doc())?;
        let gone = deletes("shards", &DocBuf::new().with("_id", name));
        self.catalog().transaction([&guard, &of_zones], &[gone], interrupt)?;
        shard.call("admin", &guard.fenced(DocBuf::new().with("_shardsvrLeave", 1i32)), interrupt)?;
        self.catalog().refresh_shards(interrupt)?;
        self.catalog().forget_all();
        Ok(shown("completed", "removeshard completed successfully"))
    }

    fn enable_sharding(&self) -> Result<DocBuf> {
        let name = self.text("enableSharding")?;
        if matches!(name, "admin" | "local" | "config") || name.contains('.') {
            return Err(Error::new(Code::INVALID_NAMESPACE, format!("invalid db name specified: {name}")));
        }
        let primary = self.body().get("primaryShard").map(|_| self.text("primaryShard")).transpose()?;
        let database = self.database_or_new(name, primary)?;
        match primary {
            Some(asked) if asked != database.primary => {
                let text = format!("database {name} already exists on the shard {}", database.primary);
                Err(Error::new(Code::NAMESPACE_EXISTS, text))
            }
            _ => Ok(DocBuf::new()),
        }
    }

    fn switch_balancer(&self, stopped: bool) -> Result<DocBuf> {
        let mode = if stopped { "off" } else { "full" };
        let set = DocBuf::new().with("mode", mode).with("stopped", stopped);
        let statement = DocBuf::new().with("q", &DocBuf::new().with("_id", "balancer"));
        let statement = statement.with("u", &DocBuf::new().with("$set", &set)).with("upsert", true);
        self.catalog().write(updates("settings", &[statement]), self.interrupt())?;
        if stopped {
            // a move that runs ends as it would have
            let interrupt = self.interrupt().within(STOP_PATIENCE);
            while fields::is_true(self.rounds(&interrupt)?.as_doc(), "inBalancerRound") {
                interrupt.check()?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(DocBuf::new())
    }

    /// Asks the balancer about its rounds.
    fn rounds(&self, interrupt: &Interrupt) -> Result<DocBuf> {
        let asked =
            self.catalog().config.call("admin", &DocBuf::new().with("_configsvrBalancerStatus", 1i32), interrupt);
        asked.map(|reply| fields::without(reply.as_doc(), &["ok", "operationTime", "$clusterTime", "topologyVersion"]))
    }

    fn balancer_status(&self) -> Result<DocBuf> {
        let setting = self.catalog().read_one("settings", "balancer".into(), self.interrupt())?.unwrap_or_default();
        let mode = if balancer::is_off(setting.as_doc()) { "off" } else { "full" };
        let rounds = self.rounds(self.interrupt())?;
        Ok(std::iter::once(("mode", ValueRef::String(mode))).chain(rounds.as_doc().iter()).collect())
    }

    fn balancer_collection_status(&self) -> Result<DocBuf> {
        let namespace = self.text("balancerCollectionStatus")?;
        self.sharded(namespace)?;
        let situation = Situation::read(self.catalog(), Selection::One(namespace), self.interrupt())?;
        let max = situation.collections.first().map_or(0, |collection| collection.chunk_bytes_max);
        let violation = balancer::plan(&situation.shards, &situation.collections).violation();
        let megabytes = max as f64 / f64::from(1 << 20);
        let reply = if megabytes.fract() == 0.0 {
            DocBuf::new().with("chunkSize", megabytes as i32)
        } else {
            DocBuf::new().with("chunkSize", megabytes)
        };
        let reply = reply.with("balancerCompliant", violation.is_none());
        Ok(match violation {
            Some(violation) => reply.with("firstComplianceViolation", violation.name()),
            None => reply,
        })
    }

    /// `configureCollectionBalancing`: fields of `config.collections` that the balancer reads.
    fn configure_balancing(&self) -> Result<DocBuf> {
        let namespace = self.text("configureCollectionBalancing")?;
        let (mut set, mut unset) = (DocBuf::new(), DocBuf::new());
        match self.body().get("chunkSize").map(fields::number_of) {
            None => {}
            Some(Some(0.0)) => drop(unset.append("maxChunkSizeBytes", "")),
            Some(Some(size)) if (1.0..=1024.0).contains(&size) && size.fract() == 0.0 => {
                set.append("maxChunkSizeBytes", (size as i64) << 20);
            }
            Some(_) => {
                let text = "Chunk size must be a whole number of MiB between 1 and 1024";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
        }
        if fields::is_true(self.body(), "defragmentCollection") {
            let text = "defragmentCollection is not supported yet: chunks are merged where they are";
            return Err(Error::new(Code::NOT_IMPLEMENTED, text));
        }
        if self.body().get("enableAutoMerger").is_some() {
            set.append("enableAutoMerge", fields::is_true(self.body(), "enableAutoMerger"));
        }
        if self.body().get("enableBalancing").is_some() {
            set.append("noBalance", !fields::is_true(self.body(), "enableBalancing"));
        }
        let guard = self.lock_collection(namespace)?;
        self.sharded(namespace)?;
        let mut change = DocBuf::new();
        for (operator, fields) in [("$set", &set), ("$unset", &unset)] {
            if !fields.as_doc().is_empty() {
                change.append(operator, fields);
            }
        }
        if change.as_doc().is_empty() {
            return Ok(DocBuf::new());
        }
        self.change_collection(namespace, &guard, &change).map(|()| DocBuf::new())
    }

    /// Changes fields of a collection in `config.collections`.
    pub(crate) fn change_collection(&self, namespace: &str, guard: &Guard<'_>, change: &DocBuf) -> Result<()> {
        let statement = DocBuf::new().with("q", &DocBuf::new().with("_id", namespace)).with("u", change);
        self.catalog().transaction([guard], &[updates("collections", &[statement])], self.interrupt())
    }

    /// `setAllowMigrations`: whether chunks of a collection may be moved, by anyone.
    fn allow_migrations(&self) -> Result<DocBuf> {
        let namespace = self.text("setAllowMigrations")?;
        let allowed = match self.body().get("allowMigrations") {
            Some(ValueRef::Bool(allowed)) => allowed,
            Some(other) => {
                let field = arbor_protocol::arguments::Field::new("setAllowMigrations", "allowMigrations");
                return Err(field.wrong_type(other, "bool").into());
            }
            None => {
                return Err(arbor_protocol::arguments::Field::new("setAllowMigrations", "allowMigrations")
                    .missing()
                    .into());
            }
        };
        let guard = self.lock_collection(namespace)?;
        self.sharded(namespace)?;
        let change = match allowed {
            true => DocBuf::new().with("$unset", &DocBuf::new().with("permitMigrations", "")),
            false => DocBuf::new().with("$set", &DocBuf::new().with("permitMigrations", false)),
        };
        self.change_collection(namespace, &guard, &change).map(|()| DocBuf::new())
    }

    fn shard_map(&self) -> Result<DocBuf> {
        let mut all = self.catalog().newest_shards(self.interrupt())?;
        all.push(self.catalog().config.clone());
        let (mut map, mut hosts, mut strings) = (DocBuf::new(), DocBuf::new(), DocBuf::new());
        for shard in &all {
            let own = shard.hosts();
            map.append(&shard.name, own.as_str());
            strings.append(&own, shard.name.as_str());
            let members = own.split_once('/').map_or("", |(_, members)| members);
            members.split(',').for_each(|host| {
                hosts.append(host, shard.name.as_str());
            });
        }
        Ok(DocBuf::new().with("map", &map).with("hosts", &hosts).with("connStrings", &strings))
    }

    fn shard_version(&self) -> Result<DocBuf> {
        let namespace = self.text("getShardVersion")?;
        let table = self.sharded(namespace)?;
        let (major, minor) = table.last_version();
        Ok(DocBuf::new()
            .with("version", fields::timestamp(major, minor))
            .with("versionEpoch", ValueRef::ObjectId(table.epoch))
            .with("versionTimestamp", ValueRef::Timestamp(table.timestamp)))
    }

    /// Returns the newest routing table of a collection. Errors: it is not sharded.
    pub(crate) fn sharded(&self, namespace: &str) -> Result<Arc<table::Table>> {
        let table = self.tracked(namespace)?.filter(|table| !table.unsplittable);
        table.ok_or_else(|| Error::new(Code::NAMESPACE_NOT_SHARDED, format!("Collection {namespace} is not sharded.")))
    }

    /// Returns the newest routing table of a collection that is sharded, or whose place was chosen. None: it is on the primary of its database.
    pub(crate) fn tracked(&self, namespace: &str) -> Result<Option<Arc<table::Table>>> {
        if namespace.split_once('.').is_none_or(|(_, collection)| collection.is_empty()) {
            return Err(Error::new(Code::INVALID_NAMESPACE, format!("Invalid namespace specified '{namespace}'")));
        }
        self.catalog().newest_table(namespace, self.interrupt())
    }

    /// `$shardedDataDistribution` and the stages after it.
    pub(crate) fn data_distribution(&self, stages: Array<'_>) -> Result<Answer> {
        let interrupt = self.interrupt();
        let mut documents = Vec::new();
        for collection in self.catalog().read("collections", &DocBuf::new(), "_id", interrupt)? {
            let namespace = fields::string(collection.as_doc(), "_id").unwrap_or_default().to_owned();
            let Some((db, name)) = namespace.split_once('.') else { continue };
            let Some(table) = self.catalog().table(&namespace, interrupt)?.filter(|table| !table.unsplittable) else {
                continue;
            };
            let mut of_shards = ArrayBuf::new();
            for shard in table.shards() {
                let statistics = DocBuf::new().with("collStats", name);
                let statistics = self.catalog().shard(shard, interrupt)?.call(db, &statistics, interrupt)?;
                let own = statistics.as_doc();
                let (documents, orphans) = (fields::int(own, "count"), fields::int(own, "numOrphanDocs"));
                let orphaned_bytes = orphans * fields::int(own, "avgObjSize");
                of_shards.push(
                    &DocBuf::new()
                        .with("shardName", shard)
                        .with("numOrphanedDocs", orphans)
                        .with("numOwnedDocuments", documents - orphans)
                        .with("orphanedSizeBytes", orphaned_bytes)
                        .with("ownedSizeBytes", fields::int(own, "size") - orphaned_bytes),
                );
            }
            documents.push(DocBuf::new().with("ns", namespace.as_str()).with("shards", &of_shards));
        }
        self.over_documents(documents, stages)
    }
}
