//! Commands of the cluster: shards, databases, zones, the balancer's switch.
//!
//! A1: a change of who owns what goes in this order: the shards refuse requests of the old version ("blocked"), the config servers are
//! changed, the shards learn the new version. A2: each command that changes something on a shard is that of the holder of a lock, and proves it
//! ([`Guard::fenced`]): a shard that has heard of a later holder refuses it. A3: a lock is deleted once all shards are in line with the config
//! servers, and is left to grow old where they may not be ([`Guard::leave`]). Who takes an old lock over completes what is left and brings all shards
//! in line first ([`Request::take_over`]), so nothing that an earlier holder has sent, or sends later, stays on any of them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_command::{Answer, Error, FENCING_TOKEN, LOCK_IS_LOST, Result, TOKEN_LIFE};
use arbor_query::Interrupt;

use crate::balancer::{self, Selection, Situation};
use crate::catalog::{Database, Routing, deletes, inserts, now, updates};
use crate::chunks::replacement;
use crate::moves::retried;
use crate::shard::Shard;
use crate::table::{self, Table};
use crate::{Request, Router, fields};

/// A lock that is older than this belongs to a router that has ended.
const LOCK_AGE_MAX_MS: i64 = 120_000;
/// One that is renewed every [`RENEWAL`], as those of moves are.
const RENEWED_AGE_MAX_MS: i64 = 15_000;
const RENEWAL: Duration = Duration::from_secs(2);
const HELD_NAP: Duration = Duration::from_millis(20);
const LOCK_PATIENCE: Duration = Duration::from_secs(20);
/// Longest wait of `balancerStop` for the round that runs.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// A token that is older is read again.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(TOKEN_LIFE.as_secs() / 6);

/// The lock of `config.tags`.
const ZONES: &str = "config.tags";

/// The lock of a namespace in `config.locks`.
pub(crate) struct Guard<'r> {
    router: &'r Router,
    id: DocBuf,
    token: Token,
    /// Time of its last renewal.
    renewed: Cell<Instant>,
    is_left: Cell<bool>,
}

/// The time of a state of the config servers in which a lock was this one's. Those of later holders are later.
///
/// It is read again where it is older than [`TOKEN_AGE_MAX`], so that no shard forgets it (F5 of `fencing`), or than what the router knows of a shard, which
/// takes none of before it became one (F6). Where that fails, as when the config servers cannot be asked, the one before may do: the shards decide.
struct Token {
    time: Cell<Timestamp>,
    /// Time at which that was read.
    read: Cell<Instant>,
}

impl Token {
    /// A token that no shard takes.
    fn none() -> Token {
        Token { time: Cell::new(Timestamp { seconds: 0, increment: 0 }), read: Cell::new(Instant::now()) }
    }

    /// Returns the token of a command that is sent now. `age_max`: beyond that it is read again; `shard_found`: time at which the newest shard became known.
    fn current(
        &self,
        age_max: Duration,
        shard_found: Option<Instant>,
        read: impl FnOnce() -> Result<Timestamp>,
    ) -> Timestamp {
        if self.read.get().elapsed() > age_max || shard_found.is_some_and(|found| found >= self.read.get()) {
            let _ = self.renew(read);
        }
        self.time.get()
    }

    /// Reads a later one. Errors: also that another router has the lock.
    fn renew(&self, read: impl FnOnce() -> Result<Timestamp>) -> Result<()> {
        let begun = Instant::now();
        self.time.set(read()?.max(self.time.get()));
        self.read.set(begun);
        Ok(())
    }
}

/// Says at its end that something is over.
struct EndMark<'o>(&'o AtomicBool);

impl Drop for EndMark<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Guard<'_> {
    /// Returns the command that makes the lock young; in a transaction it also proves that the lock is held.
    pub(crate) fn renewal(&self) -> DocBuf {
        renewal(&self.id)
    }

    fn name(&self) -> &str {
        fields::string(self.id.as_doc(), "_id").unwrap_or_default()
    }

    /// Returns a command with the proof of the lock for a shard, which refuses it once it has heard of a later holder.
    pub(crate) fn fenced(&self, command: DocBuf) -> DocBuf {
        let (router, found) = (self.router, self.router.catalog.shard_found());
        let token = self.token.current(TOKEN_AGE_MAX, found, || self.read_token(&router.within(RENEWAL)));
        let token = DocBuf::new().with("lock", self.name()).with("token", ValueRef::Timestamp(token));
        command.with(FENCING_TOKEN, &token)
    }

    pub(crate) fn is_of_zones(&self) -> bool {
        self.name() == ZONES
    }

    /// Ends what this holder has begun without knowing its outcome: a transaction, since this writes the lock as they do, and commands on shards, which
    /// wait for earlier tokens, and refuse them afterwards. Errors: also that another router has the lock.
    pub(crate) fn end_begun(&self, interrupt: &Interrupt) -> Result<()> {
        self.router.catalog.write(self.renewal(), interrupt)?;
        let before = self.token.time.get();
        self.token.renew(|| self.read_token(interrupt))?;
        match self.token.time.get() > before {
            true => Ok(()),
            false => Err(Error::new(Code::INTERNAL_ERROR, "the config servers have read a state of before a renewal")),
        }
    }

    fn read_token(&self, interrupt: &Interrupt) -> Result<Timestamp> {
        self.router.catalog.time_of_lock(&self.id, interrupt)?.ok_or_else(lock_is_lost)
    }

    /// Keeps the lock young while something runs that does not do so itself.
    pub(crate) fn held_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let (router, id, over) = (self.router, &self.id, AtomicBool::new(false));
        std::thread::scope(|scope| {
            // also if it panics
            let _end = EndMark(&over);
            let over = &over;
            scope.spawn(move || {
                let mut renewed = Instant::now();
                while !over.load(Ordering::Acquire) {
                    std::thread::sleep(HELD_NAP);
                    if renewed.elapsed() >= RENEWAL {
                        // one that fails is tried again; a lock that was taken away stays so
                        let _ = router.catalog.write(renewal(id), &router.within(RENEWAL));
                        renewed = Instant::now();
                    }
                }
            });
            work()
        })
    }

    /// From now on the end of this holder leaves the lock to grow old: its next one is to complete the work.
    pub(crate) fn leave(&self) {
        self.is_left.set(true);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.is_left.get()
    }

    /// Nothing is left to complete.
    pub(crate) fn settled(&self) {
        self.is_left.set(false);
    }

    /// Makes the lock young again, if it is time. Errors: another router has taken it away.
    pub(crate) fn renew(&self, interrupt: &Interrupt) -> Result<()> {
        if self.renewed.get().elapsed() < RENEWAL {
            return Ok(());
        }
        let reply = self.router.catalog.write(self.renewal(), interrupt)?;
        if fields::int(reply.as_doc(), "n") == 0 {
            return Err(lock_is_lost());
        }
        self.renewed.set(Instant::now());
        Ok(())
    }
}

fn renewal(id: &DocBuf) -> DocBuf {
    let now = ValueRef::DateTime(arbor_protocol::log::now_ms());
    let set = DocBuf::new().with("$set", &DocBuf::new().with("when", now).with("renewed", true));
    updates("locks", &[DocBuf::new().with("q", id).with("u", &set)])
}

pub(crate) fn lock_is_lost() -> Error {
    Error::new(Code::LOCK_BUSY, LOCK_IS_LOST)
}

/// Returns true for an error after which the holder of a lock is to do nothing more: another router has it.
pub(crate) fn is_lock_lost(error: &Error) -> bool {
    error.code == Code::LOCK_BUSY && error.message == LOCK_IS_LOST
}

/// Returns true for the lock of a router that has ended.
fn is_old(lock: Doc<'_>) -> bool {
    let age_max = if lock.get("renewed").is_some() { RENEWED_AGE_MAX_MS } else { LOCK_AGE_MAX_MS };
    matches!(lock.get("when"), Some(ValueRef::DateTime(when)) if when < arbor_protocol::log::now_ms() - age_max)
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.is_left.get() {
            return;
        }
        // where it fails, the lock grows old
        let interrupt = self.router.within(Duration::from_secs(10));
        let _ = self.router.catalog.delete("locks", &self.id, &interrupt);
    }
}

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

    /// Takes the lock of a namespace, so that one change at a time is made to it.
    pub(crate) fn lock(&self, name: &str) -> Result<Guard<'r>> {
        self.lock_as(name, false)
    }

    /// Takes the lock of all ranges of zones. Others are taken before it, and it is held for a few requests only: changes of zones do not wait for moves.
    pub(crate) fn lock_zones(&self) -> Result<Guard<'r>> {
        self.lock_renewed(ZONES)
    }

    /// Takes a lock that the holder renews, so that it is old soon after the holder has ended.
    pub(crate) fn lock_renewed(&self, name: &str) -> Result<Guard<'r>> {
        self.lock_as(name, true)
    }

    fn lock_as(&self, name: &str, is_renewed: bool) -> Result<Guard<'r>> {
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            match self.try_lock_as(name, is_renewed)? {
                Some(guard) => return Ok(guard),
                None if Instant::now() > until => {
                    let text = format!("another operation on {name} is in progress");
                    return Err(Error::new(Code::LOCK_BUSY, text));
                }
                None => {
                    self.interrupt().check()?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Takes the lock of a collection, which is held for a few requests only, like [`Request::completed`].
    pub(crate) fn lock_collection(&self, namespace: &str) -> Result<Guard<'r>> {
        self.completed(self.lock(namespace)?)
    }

    /// Completes what a change of a collection before has left whose lock this is. Errors: also that another router is completing it.
    pub(crate) fn completed(&self, guard: Guard<'r>) -> Result<Guard<'r>> {
        self.finish_change(guard.name(), &guard)?;
        Ok(guard)
    }

    /// `is_renewed`: the holder renews the lock from now on, so it is old soon after the holder has ended. None: it is held by another router.
    pub(crate) fn try_lock_as(&self, name: &str, is_renewed: bool) -> Result<Option<Guard<'r>>> {
        let lock = self.new_lock(name, is_renewed);
        match self.catalog().insert("locks", std::slice::from_ref(&lock), self.interrupt()) {
            Ok(()) => self.guard_of(&lock, false),
            Err(error) if error.code == Code::DUPLICATE_KEY => {
                match self.catalog().read_one("locks", name.into(), self.interrupt())? {
                    Some(held) if is_old(held.as_doc()) => self.take_over(held.as_doc()),
                    _ => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the lock of a holder that has ended, as it was then, and completes what that one has left. None: another router was faster.
    pub(crate) fn take_over(&self, held: Doc<'_>) -> Result<Option<Guard<'r>>> {
        let name = fields::string(held, "_id").unwrap_or_default();
        let lock = self.new_lock(name, true);
        let statement = DocBuf::new().with("q", held).with("u", &lock);
        let reply = self.catalog().write(updates("locks", &[statement]), self.interrupt())?;
        if fields::int(reply.as_doc(), "n") == 0 {
            return Ok(None);
        }
        let guard = self.guard_of(&lock, true)?;
        if let Some(guard) = &guard {
            guard.held_while(|| self.complete(name, guard))?;
            guard.settled();
        }
        Ok(guard)
    }

    fn new_lock(&self, name: &str, is_renewed: bool) -> DocBuf {
        let lock = DocBuf::new()
            .with("_id", name)
            .with("state", 2i32)
            .with("ts", ValueRef::ObjectId(arbor_protocol::topology::new_object_id()))
            .with("who", self.router.address.as_str())
            .with("when", ValueRef::DateTime(arbor_protocol::log::now_ms()));
        if is_renewed { lock.with("renewed", true) } else { lock }
    }

    /// Begins to hold a lock that was written. None: another router has taken it away.
    fn guard_of(&self, lock: &DocBuf, is_left: bool) -> Result<Option<Guard<'r>>> {
        let id = lock.as_doc().iter().filter(|(name, _)| matches!(*name, "_id" | "ts")).collect();
        let (renewed, is_left) = (Cell::new(Instant::now()), Cell::new(is_left));
        let guard = Guard { router: self.router, id, token: Token::none(), renewed, is_left };
        match guard.token.renew(|| guard.read_token(self.interrupt())) {
            Err(error) if is_lock_lost(&error) => Ok(None),
            taken => taken.map(|()| Some(guard)),
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

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    fn at(seconds: u32) -> Timestamp {
        Timestamp { seconds, increment: 1 }
    }

    fn token(seconds: u32) -> Token {
        let token = Token::none();
        token.renew(|| Ok(at(seconds))).unwrap();
        token
    }

    fn unread() -> Result<Timestamp> {
        unreachable!("the token is young")
    }

    #[test]
    fn an_old_token_is_read_again() {
        let token = token(5);
        assert_eq!(token.current(LONG, None, unread), at(5));
        assert_eq!(token.current(NONE, None, || Ok(at(7))), at(7));
        assert_eq!(token.current(LONG, None, unread), at(7));
        assert_eq!(token.current(NONE, None, || Ok(at(6))), at(7), "a member that is behind has said it");
    }

    #[test]
    fn a_token_of_before_a_shard_is_read_again() {
        let token = token(5);
        let found = Instant::now();
        assert_eq!(token.current(LONG, Some(found), || Ok(at(7))), at(7));
        assert_eq!(token.current(LONG, Some(found), unread), at(7));
    }

    #[test]
    fn a_holder_that_could_not_renew_its_token_has_the_one_before_and_tries_again() {
        let (token, tries) = (token(5), Cell::new(0));
        let failing = |error: fn() -> Error| {
            tries.set(tries.get() + 1);
            Err(error())
        };
        let lost = || Error::new(Code::HOST_UNREACHABLE, "the config servers cannot be reached");
        let errors: [fn() -> Error; 3] = [lost, lock_is_lost, lost];
        for (tried, error) in (1..).zip(errors) {
            assert_eq!((token.current(NONE, None, || failing(error)), tries.get()), (at(5), tried));
        }
        assert_eq!(token.current(NONE, None, || Ok(at(7))), at(7));
        assert_eq!(
            token.renew(lock_is_lost_now).unwrap_err().code,
            Code::LOCK_BUSY,
            "where it is asked for, it is said"
        );
        assert_eq!(token.current(LONG, None, unread), at(7));
    }

    fn lock_is_lost_now() -> Result<Timestamp> {
        Err(lock_is_lost())
    }
}
