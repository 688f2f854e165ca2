//! The router's knowledge of the cluster: copies of documents of the config servers, read when they are first needed and again when a
//! shard says that they are out of date. That makes a wrong copy harmless: shards check the versions of requests.
//!
//! [`documents`]: the documents themselves; [`transaction`]: changes of several of them; [`views`]: views and time series that the router resolves.

mod documents;
mod transaction;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;
use parking_lot::{Condvar, Mutex};
use uuid::Uuid;

use crate::clock::ClusterClock;
use crate::fields;
use crate::shard::{Connect, Shard, is_unreachable};
use crate::table::{self, Table};
use crate::time_series::BUCKETS;

pub(crate) use documents::{deletes, inserts, updates};
pub(crate) use views::View;

/// Longest wait for the drop of a database.
const DROP_PATIENCE: Duration = Duration::from_secs(20);
const DROP_NAP: Duration = Duration::from_millis(50);
/// Collections that wait for their repair at one time.
const UNREPAIRED_MAX: usize = 1000;
/// Copies of more collections than this are forgotten, all at once.
const COLLECTIONS_MAX: usize = 100_000;

pub(crate) struct Catalog {
    pub config: Arc<Shard>,
    pub clock: Arc<ClusterClock>,
    connect: Connect,
    known: Mutex<Copies>,
    /// The load of a table has ended.
    loaded: Condvar,
    /// Databases with sharded collections: what was found, and when.
    recent: Mutex<HashMap<String, (bool, Instant)>>,
    /// Names that were no views. A request says so, and the shard refuses it where that has changed.
    no_views: Mutex<HashSet<String>>,
    /// The config servers could not be asked then.
    lost: Mutex<Option<Instant>>,
    /// Those in which no write runs.
    sessions: Mutex<Vec<documents::Session>>,
    /// Collections of which a shard refuses reads of stages, which cannot repair them.
    unrepaired: Mutex<BTreeSet<String>>,
}

/// Interval at which a request that waits for a load checks its own end.
const WATCH: Duration = Duration::from_millis(50);
/// The first sharded collection of a database that is younger may not be known yet.
const RECENT: Duration = Duration::from_secs(1);
const RECENT_MAX: usize = 10_000;
/// Longest search for the primary of the config servers where a known copy does.
const SEARCH_MAX: Duration = Duration::from_secs(2);
/// Longest wait for their reply then.
const NEW_COPY_MAX: Duration = Duration::from_secs(10);
/// Config servers that could not be asked are not waited for again this long, unless they are heard of.
const LOST: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Copies {
    shards: BTreeMap<String, Arc<Shard>>,
    /// Time at which the newest of them became known here.
    shard_found: Option<Instant>,
    databases: HashMap<String, Database>,
    collections: HashMap<String, Option<Arc<Table>>>,
    /// Tables that are out of date. Their changes are fewer than all chunks.
    former: HashMap<String, Arc<Table>>,
    /// Collections whose tables are being read, and whether that was begun before the last `forget`.
    loading: HashMap<String, bool>,
}

impl Copies {
    fn keep(&mut self, namespace: &str, table: Option<Arc<Table>>) {
        if self.collections.len().max(self.former.len()) >= COLLECTIONS_MAX {
            self.collections.clear();
            self.former.clear();
        }
        self.former.remove(namespace);
        self.collections.insert(namespace.to_owned(), table);
    }

    /// Begins to read a table, with what is known of it. None: another request reads it.
    fn begin_load(&mut self, namespace: &str) -> Option<Option<Arc<Table>>> {
        if self.loading.contains_key(namespace) {
            return None;
        }
        self.loading.insert(namespace.to_owned(), false);
        let known = self.collections.get(namespace).cloned().flatten();
        Some(known.or_else(|| self.former.get(namespace).cloned()))
    }

    /// Returns the tables of a database, also those that may be out of date.
    fn tables_of<'c>(&'c self, db: &'c str) -> impl Iterator<Item = &'c Arc<Table>> {
        let is_of = move |table: &&Arc<Table>| table.namespace.split_once('.').is_some_and(|(own, _)| own == db);
        self.collections.values().flatten().chain(self.former.values()).filter(is_of)
    }

    fn forget(&mut self, namespace: &str) {
        // a stale request on a name may have become one on a time series
        if let Some((db, name)) = namespace.split_once('.').filter(|(_, name)| !name.starts_with(BUCKETS)) {
            self.forget_one(&format!("{db}.{BUCKETS}{name}"));
        }
        self.forget_one(namespace);
    }

    fn forget_one(&mut self, namespace: &str) {
        self.loading.get_mut(namespace).into_iter().for_each(|is_outdated| *is_outdated = true);
        if let Some(Some(table)) = self.collections.remove(namespace) {
            self.former.insert(namespace.to_owned(), table);
        }
    }

    /// Forgets what is still as `used` has it, the database and the table each for itself.
    fn forget_used(&mut self, db: &str, namespace: &str, used: &Routing) {
        let (table, database) = match used {
            Routing::Sharded(table, database) => (Some(table), database.as_ref()),
            Routing::Unsharded(_, database) => (None, database.as_ref()),
            Routing::Config(_) => (None, None),
        };
        let version = |database: &Database| database.version.as_bytes().to_vec();
        if self.databases.get(db).map(version) == database.map(version) {
            self.databases.remove(db);
        }
        let is_newer = |now: &Option<Arc<Table>>| now.as_ref().map(Arc::as_ptr) != table.map(Arc::as_ptr);
        if !self.collections.get(namespace).is_some_and(is_newer) {
            self.forget(namespace);
        }
    }

    fn forget_where(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.collections.retain(|namespace, _| !is_gone(namespace));
        self.former.retain(|namespace, _| !is_gone(namespace));
        let loading = self.loading.iter_mut().filter(|(namespace, _)| is_gone(namespace));
        loading.for_each(|(_, is_outdated)| *is_outdated = true);
    }
}

/// The one load of a collection's table at a time. Its end wakes those who wait for it.
struct Load<'c> {
    catalog: &'c Catalog,
    namespace: &'c str,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.catalog.known.lock().loading.remove(self.namespace);
        self.catalog.loaded.notify_all();
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub primary: String,
    /// `databaseVersion` of a request.
    pub version: DocBuf,
    /// It is not used any more.
    pub is_dropping: bool,
    /// The name that a request is about was no view.
    pub no_view: bool,
}

/// Place of the documents of a collection.
#[derive(Clone)]
pub(crate) enum Routing {
    /// On the shard of its database. None: the database does not exist.
    Unsharded(Arc<Shard>, Option<Database>),
    Sharded(Arc<Table>, Option<Database>),
    /// On the config servers.
    Config(Arc<Shard>),
}

impl Routing {
    /// Returns the collation of a statement: the one that it names, or that of the collection.
    pub(crate) fn collation<'c>(&'c self, named: Option<Doc<'c>>) -> Option<Doc<'c>> {
        let of_collection = match self {
            Routing::Sharded(table, _) => table.collation.as_ref().map(DocBuf::as_doc),
            Routing::Unsharded(..) | Routing::Config(_) => None,
        };
        named.filter(|named| !named.is_empty()).or(of_collection)
    }
}

impl Catalog {
    /// `config_db` is `set/host:port,...` of the config servers. Errors: it is not of that form.
    pub(crate) fn new(config_db: &str, connect: Connect) -> std::result::Result<Catalog, String> {
        let clock = Arc::<ClusterClock>::default();
        Ok(Catalog {
            config: Arc::new(Shard::new("config", config_db, connect.clone(), clock.clone())?),
            clock,
            connect,
            known: Mutex::default(),
            loaded: Condvar::new(),
            recent: Mutex::default(),
            no_views: Mutex::default(),
            lost: Mutex::default(),
            sessions: Mutex::default(),
            unrepaired: Mutex::default(),
        })
    }

    /// Returns a shard that the cluster may not have yet.
    pub(crate) fn new_shard(&self, name: &str, hosts: &str) -> std::result::Result<Shard, String> {
        Shard::new(name, hosts, self.connect.clone(), self.clock.clone())
    }

    /// Reads a new copy of what is known. None: the config servers cannot be asked, so the known one has to do; shards check its versions.
    fn new_copy<T>(&self, interrupt: &Interrupt, read: impl FnOnce(&Interrupt) -> Result<T>) -> Result<Option<T>> {
        {
            let mut lost = self.lost.lock();
            if lost.is_some_and(|when| when.elapsed() < LOST) {
                return Ok(None);
            }
            // only this request tries again
            *lost = lost.map(|_| Instant::now());
        }
        let limited = interrupt.clone().within(NEW_COPY_MAX);
        match self.config.reach(SEARCH_MAX, &limited).and_then(|()| read(&limited)) {
            Err(error) if is_unreachable(&error) => {
                interrupt.check()?;
                *self.lost.lock() = Some(Instant::now());
                Ok(None)
            }
            read => {
                *self.lost.lock() = None;
                read.map(Some)
            }
        }
    }

    /// Runs a read on the config servers. None: they cannot be asked.
    pub(crate) fn ask_config(&self, db: &str, command: &DocBuf, interrupt: &Interrupt) -> Result<Option<DocBuf>> {
        self.new_copy(interrupt, |interrupt| self.config.call(db, command, interrupt))
    }

    /// Reads all shards again, and returns them.
    pub(crate) fn refresh_shards(&self, interrupt: &Interrupt) -> Result<Vec<Arc<Shard>>> {
        let documents = self.read("shards", &DocBuf::new(), "_id", interrupt)?;
        let mut known = self.known.lock();
        let mut shards = BTreeMap::new();
        for document in &documents {
            let (Some(name), Some(hosts)) =
                (fields::string(document.as_doc(), "_id"), fields::string(document.as_doc(), "host"))
            else {
                continue;
            };
            let same = known.shards.get(name).filter(|shard| hosts.starts_with(&format!("{}/", shard.set))).cloned();
            let shard = match same {
                Some(shard) => shard,
                None => Arc::new(self.new_shard(name, hosts).map_err(|text| Error::new(Code::INTERNAL_ERROR, text))?),
            };
            shards.insert(name.to_owned(), shard);
        }
        if shards.keys().any(|name| !known.shards.contains_key(name)) {
            known.shard_found = Some(Instant::now());
        }
        known.shards = shards;
        Ok(known.shards.values().cloned().collect())
    }

    /// Returns the time at which a shard became known here that was not before. None: none is known.
    pub(crate) fn shard_found(&self) -> Option<Instant> {
        self.known.lock().shard_found
    }

    /// Reads all shards again if the config servers can be asked, and returns them.
    pub(crate) fn newest_shards(&self, interrupt: &Interrupt) -> Result<Vec<Arc<Shard>>> {
        let read = self.new_copy(interrupt, |interrupt| self.refresh_shards(interrupt))?;
        read.map_or_else(|| self.shards(interrupt), Ok)
    }

    /// Returns the shards as far as they are known.
    pub(crate) fn shards(&self, interrupt: &Interrupt) -> Result<Vec<Arc<Shard>>> {
        let known: Vec<Arc<Shard>> = self.known.lock().shards.values().cloned().collect();
        if known.is_empty() { self.refresh_shards(interrupt) } else { Ok(known) }
    }

    /// Asks the members of the shards again that reads have used.
    pub(crate) fn follow_members(&self) {
        let known: Vec<Arc<Shard>> = self.known.lock().shards.values().cloned().collect();
        known.iter().for_each(|shard| shard.follow_members());
    }

    pub(crate) fn forget_members(&self) {
        self.known.lock().shards.values().for_each(|shard| shard.forget_members());
    }

    pub(crate) fn shard(&self, name: &str, interrupt: &Interrupt) -> Result<Arc<Shard>> {
        if let Some(shard) = self.known.lock().shards.get(name) {
            return Ok(shard.clone());
        }
        let shards = self.refresh_shards(interrupt)?;
        let found = shards.into_iter().find(|shard| shard.name == name);
        found.ok_or_else(|| Error::new(Code::SHARD_NOT_FOUND, format!("Shard {name} not found")))
    }

    /// Returns a database, if it exists.
    pub(crate) fn database(&self, name: &str, interrupt: &Interrupt) -> Result<Option<Database>> {
        if let Some(database) = self.known.lock().databases.get(name) {
            return Ok(Some(database.clone()));
        }
        let Some(document) = self.read_one("databases", name.into(), interrupt)? else { return Ok(None) };
        let (Some(primary), Some(version)) =
            (fields::string(document.as_doc(), "primary"), fields::document(document.as_doc(), "version"))
        else {
            return Err(Error::new(
                Code::INTERNAL_ERROR,
                format!("config.databases of {name} has no primary or version"),
            ));
        };
        let is_dropping = fields::is_true(document.as_doc(), "dropping");
        let database = Database { primary: primary.to_owned(), version: version.to_buf(), is_dropping, no_view: false };
        if !is_dropping {
            self.known.lock().databases.insert(name.to_owned(), database.clone());
        }
        Ok(Some(database))
    }

    /// Returns all databases with their primary shards, or those of a name.
    pub(crate) fn databases(&self, name: Option<&str>, interrupt: &Interrupt) -> Result<BTreeMap<String, String>> {
        let filter: DocBuf = name.into_iter().map(|name| ("_id", name)).collect();
        let read = self.new_copy(interrupt, |interrupt| self.read("databases", &filter, "_id", interrupt))?;
        if let Some(read) = read {
            let part = |database: &DocBuf, name| fields::string(database.as_doc(), name).unwrap_or_default().to_owned();
            return Ok(read.iter().map(|database| (part(database, "_id"), part(database, "primary"))).collect());
        }
        let known = self.known.lock();
        let known = known.databases.iter().filter(|(own, _)| name.is_none_or(|name| name == *own));
        Ok(known.map(|(own, database)| (own.clone(), database.primary.clone())).collect())
    }

    /// Returns the names of the sharded collections of a database.
    pub(crate) fn sharded_of(&self, db: &str, interrupt: &Interrupt) -> Result<Vec<String>> {
        let (begin, end) = (format!("{db}."), format!("{db}/"));
        let filter = DocBuf::new().with("_id", &DocBuf::new().with("$gte", begin.as_str()).with("$lt", end.as_str()));
        let read = self.new_copy(interrupt, |interrupt| self.names("collections", &filter, interrupt))?;
        Ok(match read {
            Some(names) => names,
            None => {
                let known: BTreeSet<String> =
                    self.known.lock().tables_of(db).map(|table| table.namespace.clone()).collect();
                known.into_iter().collect()
            }
        })
    }

    /// Returns the names of all sharded collections, of which some may be unsplittable.
    pub(crate) fn sharded(&self, interrupt: &Interrupt) -> Result<Vec<String>> {
        self.names("collections", &DocBuf::new(), interrupt)
    }

    /// Like [`Catalog::database`]; waits until one that is being dropped is gone.
    fn database_in_use(&self, name: &str, interrupt: &Interrupt) -> Result<Option<Database>> {
        let until = Instant::now() + DROP_PATIENCE;
        loop {
            let found = self.database(name, interrupt)?;
            if !found.as_ref().is_some_and(|database| database.is_dropping) {
                return Ok(found);
            }
            interrupt.check()?;
            if Instant::now() > until {
                let text = format!("database {name} is being dropped");
                return Err(Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text));
            }
            std::thread::sleep(DROP_NAP);
        }
    }

    /// Returns a database, and whether it is new: it is created on the shard with the fewest if it does not exist.
    pub(crate) fn database_or_new(
        &self,
        name: &str,
        primary: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<(Database, bool)> {
        if let Some(database) = self.database_in_use(name, interrupt)? {
            return Ok((database, false));
        }
        let chosen = match primary {
            Some(primary) => self.shard(primary, interrupt)?.name.clone(),
            None => self.emptiest(interrupt)?,
        };
        let version = new_version(1);
        let document = DocBuf::new().with("_id", name).with("primary", chosen.as_str()).with("version", &version);
        let is_new = match self.insert("databases", &[document], interrupt) {
            // another router was faster
            Err(error) if error.code == Code::DUPLICATE_KEY => false,
            other => other.map(|()| true)?,
        };
        let created = self.database_in_use(name, interrupt)?;
        let dropped = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("database {name} was dropped meanwhile"));
        Ok((created.ok_or_else(dropped)?, is_new))
    }

    fn emptiest(&self, interrupt: &Interrupt) -> Result<String> {
        let mut shards = self.refresh_shards(interrupt)?;
        let draining = self.read("shards", &DocBuf::new().with("draining", true), "_id", interrupt)?;
        let is_draining = |shard: &Arc<Shard>| {
            draining.iter().any(|own| fields::string(own.as_doc(), "_id") == Some(shard.name.as_str()))
        };
        if draining.len() < shards.len() {
            shards.retain(|shard| !is_draining(shard));
        }
        let databases = self.read("databases", &DocBuf::new(), "_id", interrupt)?;
        let count = |name: &str| {
            let of = |database: &&DocBuf| fields::string(database.as_doc(), "primary") == Some(name);
            databases.iter().filter(of).count()
        };
        let least = shards.iter().min_by_key(|shard| count(&shard.name));
        let none = || Error::new(Code::SHARD_NOT_FOUND, "No shards found");
        least.map(|shard| shard.name.clone()).ok_or_else(none)
    }

    /// Returns the table of a collection. None: it is not sharded. One request reads it, others wait for that.
    pub(crate) fn table(&self, namespace: &str, interrupt: &Interrupt) -> Result<Option<Arc<Table>>> {
        let mut known = self.known.lock();
        let former = loop {
            if let Some(known) = known.collections.get(namespace) {
                return Ok(known.clone());
            }
            if let Some(former) = known.begin_load(namespace) {
                break former;
            }
            self.loaded.wait_for(&mut known, WATCH);
            interrupt.check()?;
        };
        drop(known);
        self.finish_load(namespace, former.as_deref(), interrupt)
    }

    /// Reads the table of a collection, also if it is known. That one stays if the config servers cannot be asked.
    pub(crate) fn newest_table(&self, namespace: &str, interrupt: &Interrupt) -> Result<Option<Arc<Table>>> {
        let mut known = self.known.lock();
        let former = loop {
            if let Some(former) = known.begin_load(namespace) {
                break former;
            }
            self.loaded.wait_for(&mut known, WATCH);
            interrupt.check()?;
        };
        drop(known);
        let table = self.finish_load(namespace, former.as_deref(), interrupt)?;
        self.known.lock().databases.remove(namespace.split('.').next().unwrap_or_default());
        Ok(table)
    }

    /// Reads a table, after [`Copies::begin_load`].
    fn finish_load(
        &self,
        namespace: &str,
        former: Option<&Table>,
        interrupt: &Interrupt,
    ) -> Result<Option<Arc<Table>>> {
        let load = Load { catalog: self, namespace };
        let table = self.load(namespace, former, interrupt)?.map(Arc::new);
        let mut known = self.known.lock();
        if known.loading.get(namespace) == Some(&false) {
            known.keep(namespace, table.clone());
        }
        drop(known);
        drop(load);
        Ok(table)
    }

    fn load(&self, namespace: &str, former: Option<&Table>, interrupt: &Interrupt) -> Result<Option<Table>> {
        let Some(collection) = self.read_one("collections", namespace.into(), interrupt)? else { return Ok(None) };
        if fields::is_true(collection.as_doc(), "dropped") {
            return Ok(None);
        }
        if let Some(former) = former {
            let changes = self.read("chunks", &former.changes(), "lastmod", interrupt)?;
            if let Some(table) = former.with_changes(collection.as_doc(), &changes)? {
                return Ok(Some(table));
            }
        }
        let mut table = Table::begin(namespace, collection.as_doc())?;
        let uuid = ValueRef::Binary { subtype: 4, bytes: &table.uuid };
        let filter = DocBuf::new().with("uuid", uuid);
        let mut last = Vec::new();
        self.each("chunks", &filter, "min", interrupt, |chunk| table.push(chunk, &mut last))?;
        table.finish(&last).map(Some)
    }

    /// Finds out where a collection is.
    pub(crate) fn routing(&self, db: &str, namespace: &str, interrupt: &Interrupt) -> Result<Routing> {
        if db == "config" || db == "admin" {
            return Ok(Routing::Config(self.config.clone()));
        }
        let database = self.database_in_use(db, interrupt)?;
        if database.is_some()
            && let Some(table) = self.table(namespace, interrupt)?
        {
            return Ok(Routing::Sharded(table, database));
        }
        Ok(match database {
            Some(database) => {
                let no_view = self.no_views.lock().contains(namespace);
                let shard = self.shard(&database.primary, interrupt)?;
                Routing::Unsharded(shard, Some(Database { no_view, ..database }))
            }
            None => {
                let none = || Error::new(Code::SHARD_NOT_FOUND, "No shards found");
                Routing::Unsharded(self.shards(interrupt)?.into_iter().next().ok_or_else(none)?, None)
            }
        })
    }

    /// Returns the routing of a read if nothing has to be read for it. None: something has, or the name may be one of a view or a time series.
    pub(crate) fn known_routing(&self, db: &str, name: &str) -> Option<Routing> {
        if matches!(db, "admin" | "config" | "local") || name.is_empty() || name.starts_with("system.") {
            return None;
        }
        let known = self.known.lock();
        let database = known.databases.get(db)?.clone();
        let buckets = known.collections.get(&format!("{db}.{BUCKETS}{name}"))?;
        if buckets.as_ref().is_some_and(|table| table.time_series.is_some()) {
            return None;
        }
        let namespace = format!("{db}.{name}");
        if let Some(table) = known.collections.get(&namespace)? {
            return Some(Routing::Sharded(table.clone(), Some(database)));
        }
        let shard = known.shards.get(&database.primary)?.clone();
        drop(known);
        let no_view = self.no_views.lock().contains(&namespace);
        let needs_no_view = |(found, when): &(bool, Instant)| !found && when.elapsed() < RECENT;
        let is_plain = no_view || self.recent.lock().get(db).is_some_and(needs_no_view);
        is_plain.then(|| Routing::Unsharded(shard, Some(Database { no_view, ..database })))
    }

    pub(crate) fn known_shard(&self, name: &str) -> Option<Arc<Shard>> {
        self.known.lock().shards.get(name).cloned()
    }

    pub(crate) fn forget(&self, db: &str, namespace: &str) {
        let mut known = self.known.lock();
        known.databases.remove(db);
        known.forget(namespace);
    }

    /// Like [`Catalog::forget`], for what a request has used: another one may have read what is new already.
    pub(crate) fn forget_used(&self, db: &str, namespace: &str, used: &Routing) {
        self.known.lock().forget_used(db, namespace, used);
    }

    /// Forgets what a request has used that a shard has refused; returns the name of the collection, which may be another one where it is about several.
    pub(crate) fn forget_refused<'e>(
        &self,
        (db, namespace): (&str, &'e str),
        used: &Routing,
        error: &'e Error,
    ) -> &'e str {
        self.forget_used(db, namespace, used);
        let details = error.details.as_ref().map(DocBuf::as_doc);
        let refused = details.and_then(|details| fields::string(details, "ns")).unwrap_or(namespace);
        if refused != namespace {
            self.forget(refused.split('.').next().unwrap_or(db), refused);
        }
        refused
    }

    /// The next load of a table reads all of its chunks.
    pub(crate) fn forget_former(&self, namespace: &str) {
        self.known.lock().former.remove(namespace);
    }

    pub(crate) fn forget_database(&self, db: &str) {
        let prefix = format!("{db}.");
        let mut known = self.known.lock();
        known.databases.remove(db);
        known.forget_where(|namespace| namespace.starts_with(&prefix));
    }

    /// Lets the thread that continues changes repair a collection.
    pub(crate) fn request_repair(&self, namespace: &str) {
        let mut unrepaired = self.unrepaired.lock();
        if unrepaired.len() < UNREPAIRED_MAX {
            unrepaired.insert(namespace.to_owned());
        }
    }

    /// Returns the collections that are to be repaired. They are requested again if that fails.
    pub(crate) fn take_unrepaired(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.unrepaired.lock())
    }

    pub(crate) fn forget_all(&self) {
        let mut known = self.known.lock();
        known.databases.clear();
        known.forget_where(|_| true);
    }
}

/// Returns the version of a database that is created, or moved for the `last_mod`th time.
pub(crate) fn new_version(last_mod: i32) -> DocBuf {
    let uuid = Uuid::new_v4();
    let now = now();
    DocBuf::new()
        .with("uuid", ValueRef::Binary { subtype: 4, bytes: uuid.as_bytes() })
        .with("timestamp", ValueRef::Timestamp(now))
        .with("lastMod", last_mod)
}

/// Returns a timestamp for a new generation.
pub(crate) fn now() -> Timestamp {
    let ms = arbor_protocol::log::now_ms();
    Timestamp { seconds: (ms / 1000) as u32, increment: 1 + rand::random::<u32>() % 1_000_000 }
}

/// Returns the version of one of the collections of a command on several, for the shard that has all of each.
pub(crate) fn version_entry(namespace: &str, routing: &Routing) -> Option<DocBuf> {
    match routing {
        Routing::Unsharded(_, Some(database)) => {
            let entry = DocBuf::new().with("ns", namespace).with("shardVersion", &table::unsharded());
            Some(entry.with("databaseVersion", &database.version))
        }
        _ => None,
    }
}

/// Adds the version that the shard is to check.
pub(crate) fn versioned(mut command: DocBuf, routing: &Routing, shard: &str) -> DocBuf {
    match routing {
        Routing::Config(_) | Routing::Unsharded(_, None) => {}
        Routing::Unsharded(_, Some(database)) => {
            let name = command.as_doc().first().map_or("", |(name, _)| name);
            let mut version = table::unsharded();
            if database.no_view && ["aggregate", "count", "distinct", "find"].contains(&name) {
                version.append("noView", true);
            }
            command.append("shardVersion", &version).append("databaseVersion", &database.version);
        }
        Routing::Sharded(table, _) => drop(command.append("shardVersion", &table.version_for(shard))),
    }
    command
}

#[cfg(test)]
mod tests {
    use arbor_notation::doc;

    use super::*;

    fn database(last_mod: i32) -> Database {
        let version = DocBuf::new().with("lastMod", last_mod);
        Database { primary: "s0".to_owned(), version, is_dropping: false, no_view: false }
    }

    fn table() -> Arc<Table> {
        Arc::new(Table::of_key("db.c", &doc("{a: 1}")))
    }

    #[test]
    fn only_what_a_request_has_used_is_forgotten() {
        let (old_table, new_table) = (table(), table());
        let connect: Connect = Arc::new(|_, _| unreachable!("nothing is sent"));
        let shard = Shard::new("s0", "s0/h:1", connect, Arc::default()).unwrap();
        let sharded = Routing::Sharded(old_table.clone(), Some(database(1)));
        let unsharded = Routing::Unsharded(Arc::new(shard), Some(database(1)));
        // used, version of the database now, table now, whether the database and the table are known afterwards
        let cases = [
            (&sharded, 1, Some(&old_table), false, false),
            (&sharded, 2, Some(&old_table), true, false),
            (&sharded, 1, Some(&new_table), false, true),
            (&sharded, 2, Some(&new_table), true, true),
            (&sharded, 2, None, true, true),
            (&unsharded, 1, None, false, false),
            (&unsharded, 2, None, true, false),
            (&unsharded, 1, Some(&new_table), false, true),
        ];
        for (at, (used, last_mod, table, keeps_database, keeps_table)) in cases.into_iter().enumerate() {
            let mut known = Copies::default();
            known.databases.insert("db".to_owned(), database(last_mod));
            known.keep("db.c", table.cloned());
            known.forget_used("db", "db.c", used);
            assert_eq!(known.databases.contains_key("db"), keeps_database, "the database in case {at}");
            assert_eq!(known.collections.contains_key("db.c"), keeps_table, "the table in case {at}");
        }
        let mut known = Copies::default();
        known.loading.insert("db.c".to_owned(), false);
        known.forget_used("db", "db.c", &sharded);
        assert_eq!(known.loading.get("db.c"), Some(&true), "what is being read may be old");
    }
}
