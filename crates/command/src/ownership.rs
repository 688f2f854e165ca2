//! A shard's knowledge of the collections and databases that routers place: the version of each, against which it checks the
//! version of a request. A request without one, of a client that is connected directly, is not checked.
//!
//! O1: a version is set while no request of its namespace runs, so a request that has passed the check runs under that version to its
//! end; while its row replicates, requests are refused as of a change under way. O2: what is known is rows of `config.cache.ownership`, so a restart or another primary of the shard checks the same.
//! O3: a chunk move sets a version while readers of the one before may still run: they see what the shard had when they began, and
//! nothing of it is deleted before they end, nor before the state that hides it is the one that requests enter under. Writers of the range have ended by then (`moves`). O4: a snapshot of before a range
//! arrived is not read under a version with the range: it would miss the range's documents. O5: a snapshot of before a range was
//! deleted is read without the range's documents. O6: nothing is kept of a database or collection that was dropped: a version is taken where it is
//! known alone, so requests with one of before are refused without a row.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arbor_base::Position;
use arbor_bson::{Array, Code, Doc, DocBuf, ObjectId, Timestamp, ValueRef};
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_session::SessionId;
use arbor_store::Namespace;
use arbor_txn::{ReadView, View};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

use crate::concerns::PastView;
use crate::fencing::Fences;
use crate::incoming::Incoming;
use crate::moves::{ClearedRange, Entered, HiddenRanges, Moving, delete_rows, is_write, owned_before};
use crate::{Commands, Error, Result};

const STRIPES: usize = 256;

/// Between the database and the name of a time series whose buckets it names.
const BUCKETS: &str = ".system.buckets.";

/// Deleted ranges of a collection that are remembered for snapshots of before.
const CLEARED_MAX: usize = 64;

/// Longest wait for the requests that run when a version is to be set.
const PATIENCE: Duration = Duration::from_secs(20);

/// The version of a sharded collection, as far as shards compare it: its generation, and the last move of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placement {
    epoch: ObjectId,
    major: u32,
}

const UNSHARDED: Placement = Placement { epoch: ObjectId([0; 12]), major: 0 };

/// Knowledge of a sharded collection, from one change of it to the next.
pub(crate) struct Placed {
    placement: Placement,
    version: DocBuf,
    /// The key by which it is sharded. None: routers of before have not said it.
    pub(crate) key: Option<DocBuf>,
    /// The ranges that requests under this state do not see.
    pub(crate) hidden: Option<HiddenRanges>,
    /// Ranges that were deleted, the oldest first, at most [`CLEARED_MAX`].
    cleared: Vec<ClearedRange>,
    /// A range is leaving.
    pub(crate) moving: Option<Arc<Moving>>,
    /// Position before which snapshots are refused: ranges have arrived by then, or ranges were deleted that are not in `cleared`.
    arrived: Option<Position>,
    /// Writers under this state.
    pub(crate) writers: Arc<AtomicUsize>,
    /// Writers under earlier ones that may still run.
    pub(crate) older: Vec<Arc<AtomicUsize>>,
}

impl Placed {
    fn new(version: Doc<'_>, key: Option<Doc<'_>>) -> Placed {
        Placed {
            placement: placement(version),
            version: version.to_buf(),
            key: key.map(Doc::to_buf),
            hidden: None,
            cleared: Vec::new(),
            moving: None,
            arrived: None,
            writers: Arc::default(),
            older: Vec::new(),
        }
    }

    /// Refuses a snapshot that does not show what has arrived.
    pub(crate) fn check_snapshot(&self, request: &Incoming<'_>, position: Position) -> Result<()> {
        let Some(arrived) = self.arrived.filter(|arrived| position < *arrived) else { return Ok(()) };
        let collection = match request.body.first() {
            Some((_, ValueRef::String(name))) => name,
            _ => "",
        };
        let text = format!(
            "Collection {}.{collection} has undergone a catalog change operation at position {} and no longer satisfies the requirements \
             for the current transaction which requires {}. Transaction will be aborted.",
            request.db, arrived.0, position.0
        );
        Err(Error::new(Code::MIGRATION_CONFLICT, text))
    }

    pub(crate) fn with_hidden(self, hidden: Option<HiddenRanges>) -> Placed {
        Placed { hidden, ..self }
    }

    pub(crate) fn with_cleared(mut self, range: ClearedRange) -> Placed {
        assert!(self.cleared.iter().all(|before| before.until <= range.until), "in the order of their deletion");
        self.cleared.push(range);
        if self.cleared.len() > CLEARED_MAX {
            let forgotten = self.cleared.remove(0);
            self.arrived = self.arrived.max(Some(forgotten.until));
        }
        self
    }

    /// Returns the filter of the documents that a request sees, which reads at a position, or what is newest. None: all that there are.
    pub(crate) fn owned_at(&self, position: Option<Position>) -> Option<Cow<'_, DocBuf>> {
        let shown = |range: &&ClearedRange| position.is_some_and(|position| position < range.until);
        let cleared: Vec<&ClearedRange> = self.cleared.iter().filter(shown).collect();
        match cleared.is_empty() {
            true => self.hidden.as_ref().map(|hidden| Cow::Borrowed(&hidden.owned)),
            false => owned_before(self.hidden.as_ref(), &cleared).map(Cow::Owned),
        }
    }

    pub(crate) fn with_moving(self, moving: Moving) -> Placed {
        Placed { moving: Some(Arc::new(moving)), ..self }
    }

    /// Returns the state after this one.
    pub(crate) fn next(&self) -> Placed {
        let older = self.older.iter().chain([&self.writers]);
        Placed {
            placement: self.placement,
            version: self.version.clone(),
            key: self.key.clone(),
            hidden: self.hidden.clone(),
            cleared: self.cleared.clone(),
            moving: self.moving.clone(),
            arrived: self.arrived,
            writers: Arc::default(),
            older: older.filter(|writers| writers.load(Ordering::Acquire) > 0).cloned().collect(),
        }
    }
}

#[derive(Clone)]
enum Known {
    Collection(Arc<Placed>),
    /// Version of a database.
    Database(DocBuf),
    /// A change is under way.
    Blocked,
}

/// The place of what a shard knows.
pub(crate) struct Ownership {
    gates: Vec<RwLock<()>>,
    known: RwLock<HashMap<String, Known>>,
    /// Held while a state is made and stored.
    changing: Mutex<()>,
    pub(crate) fences: Fences,
    /// States of before, as long as requests run under them.
    before: Mutex<HashMap<String, Vec<Weak<Placed>>>>,
    hasher: RandomState,
}

/// Held while a request runs whose version was checked.
#[derive(Default)]
pub(crate) struct Pass<'o> {
    _of_collection: Option<RwLockReadGuard<'o, ()>>,
    _of_database: Option<RwLockReadGuard<'o, ()>>,
    /// Those of a command on several collections.
    _of_each: Vec<RwLockReadGuard<'o, ()>>,
    pub(crate) placed: Option<Arc<Placed>>,
    _writing: Vec<Writing>,
}

/// A writer that runs.
pub(crate) struct Writing(Arc<AtomicUsize>);

impl Writing {
    pub(crate) fn begin(writers: &Arc<AtomicUsize>) -> Writing {
        writers.fetch_add(1, Ordering::AcqRel);
        Writing(writers.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a writer ends once");
    }
}

impl Default for Ownership {
    fn default() -> Ownership {
        Ownership {
            gates: (0..STRIPES).map(|_| RwLock::new(())).collect(),
            known: RwLock::default(),
            changing: Mutex::default(),
            fences: Fences::default(),
            before: Mutex::default(),
            hasher: RandomState::new(),
        }
    }
}

impl Ownership {
    /// Returns the gate of a name, which a time series and its buckets have in common.
    fn gate(&self, name: &str) -> &RwLock<()> {
        let hash = match name.split_once(BUCKETS) {
            Some((db, series)) => self.hasher.hash_one(format!("{db}.{series}")),
            None => self.hasher.hash_one(name),
        };
        let at = hash as usize % STRIPES;
        assert!(at < self.gates.len(), "there is a gate for each stripe");
        self.gates.get(at).unwrap_or_else(|| unreachable!("checked above"))
    }

    fn set(&self, name: &str, state: Option<Known>) {
        let Some(state) = state else {
            self.known.write().remove(name);
            self.before.lock().retain(|_, before| {
                before.retain(|old| old.strong_count() > 0);
                !before.is_empty()
            });
            return;
        };
        self.known.write().insert(name.to_owned(), state);
    }

    /// Checks the versions of a request. A write of a range that is about to leave waits until it has left, or stays. Errors: the
    /// request was sent by a table that is too old, or too new.
    pub(crate) fn enter(&self, request: &Incoming<'_>, transaction: Option<(SessionId, i64)>) -> Result<Pass<'_>> {
        let (db, body) = (request.db, request.body);
        let mut pass = Pass::default();
        if let (Some(ValueRef::Document(version)), Some((command, ValueRef::String(name)))) =
            (body.get("shardVersion"), body.first())
        {
            let namespace = format!("{db}.{name}");
            let mut waited = false;
            loop {
                // a waiting writer must not stop it: it may hold the other gate
                let guard = self.gate(&namespace).read_recursive();
                let (placed, writing) = self.check_collection(&namespace, version, is_write(command))?;
                pass._writing = Vec::from_iter(writing);
                match placed.as_ref().and_then(|placed| placed.moving.as_ref()).filter(|_| is_write(command)) {
                    None => {}
                    Some(moving) => match moving.enter(request, transaction) {
                        Entered::Elsewhere => {}
                        Entered::Writing(writing) => pass._writing.push(writing),
                        Entered::Closed if waited => return Err(stale(&namespace, version, None)),
                        Entered::Closed => {
                            // neither the gate nor the count is held meanwhile
                            pass._writing.clear();
                            drop((guard, placed.clone()));
                            waited = !moving.wait_open();
                            continue;
                        }
                    },
                }
                pass.placed = placed;
                pass._of_collection = Some(guard);
                break;
            }
        }
        if let Some(ValueRef::Array(versions)) = body.get("shardVersions") {
            for entry in versions.iter() {
                let ValueRef::Document(entry) = entry else { continue };
                let (Some(ValueRef::String(namespace)), Some(ValueRef::Document(version))) =
                    (entry.get("ns"), entry.get("shardVersion"))
                else {
                    continue;
                };
                pass._of_each.push(self.gate(namespace).read_recursive());
                self.check_collection(namespace, version, true)?;
                if let Some(ValueRef::Document(version)) = entry.get("databaseVersion") {
                    let db = namespace.split('.').next().unwrap_or_default();
                    pass._of_each.push(self.gate(db).read_recursive());
                    self.check_database(db, version)?;
                }
            }
        }
        if let Some(ValueRef::Document(version)) = body.get("databaseVersion") {
            let guard = self.gate(db).read_recursive();
            self.check_database(db, version)?;
            pass._of_database = Some(guard);
        }
        Ok(pass)
    }

    fn check_collection(
        &self,
        namespace: &str,
        received: Doc<'_>,
        writes: bool,
    ) -> Result<(Option<Arc<Placed>>, Option<Writing>)> {
        let placement = placement(received);
        let known = self.known.read();
        if let (false, Some((db, name))) = (known.is_empty(), namespace.split_once('.'))
            && !known.contains_key(namespace)
            && known.contains_key(&format!("{db}{BUCKETS}{name}"))
        {
            return Err(is_series_of_shards(namespace));
        }
        match known.get(namespace) {
            None | Some(Known::Database(_)) if placement == UNSHARDED => Ok((None, None)),
            Some(Known::Collection(own)) if own.placement == placement => {
                // counted before a change of the state can begin
                Ok((Some(own.clone()), writes.then(|| Writing::begin(&own.writers))))
            }
            Some(Known::Collection(own)) => Err(stale(namespace, received, Some(&own.version))),
            _ => Err(stale(namespace, received, None)),
        }
    }

    fn check_database(&self, db: &str, received: Doc<'_>) -> Result<()> {
        check_database(self.known.read().get(db), db, received)
    }
}

/// Adds the collections that stages read.
fn add_others(db: &str, stages: Array<'_>, found: &mut Vec<String>) {
    for stage in stages.iter() {
        let ValueRef::Document(stage) = stage else { continue };
        let Some((stage, spec)) = stage.first() else { continue };
        match (stage, spec) {
            ("$unionWith", ValueRef::String(name)) => found.push(format!("{db}.{name}")),
            ("$facet", ValueRef::Document(facets)) => facets.iter().for_each(|(_, inner)| {
                if let ValueRef::Array(inner) = inner {
                    add_others(db, inner, found);
                }
            }),
            ("$lookup" | "$graphLookup" | "$unionWith", ValueRef::Document(spec)) => {
                let field = if stage == "$unionWith" { "coll" } else { "from" };
                if let Some(ValueRef::String(name)) = spec.get(field) {
                    found.push(format!("{db}.{name}"));
                }
                if let Some(ValueRef::Array(inner)) = spec.get("pipeline") {
                    add_others(db, inner, found);
                }
            }
            _ => {}
        }
    }
}

fn sharded_now(namespace: &str) -> Error {
    let text = format!("{namespace} is sharded");
    let error = Error::new(Code::COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD, text);
    error.with_details(DocBuf::new().with("ns", namespace))
}

fn is_series_of_shards(namespace: &str) -> Error {
    let text = format!("{namespace} is a time series on several shards");
    Error::new(Code::COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD, text)
}

fn check_database(known: Option<&Known>, db: &str, received: Doc<'_>) -> Result<()> {
    let required = match known {
        Some(Known::Database(own)) if own.as_bytes() == received.as_bytes() => return Ok(()),
        Some(Known::Database(own)) => Some(own.clone()),
        None | Some(Known::Collection(..) | Known::Blocked) => None,
    };
    let mut details = DocBuf::new().with("db", db).with("vReceived", received);
    if let Some(required) = &required {
        details.append("version", required);
    }
    let text = format!("version mismatch for database {db}");
    Err(Error::new(Code::STALE_DB_VERSION, text).with_details(details))
}

fn stale(namespace: &str, received: Doc<'_>, required: Option<&DocBuf>) -> Error {
    let mut details = DocBuf::new().with("ns", namespace).with("vReceived", received);
    if let Some(required) = required {
        details.append("version", required);
    }
    let text = format!("version mismatch detected for {namespace}");
    Error::new(Code::STALE_CONFIG, text).with_details(details)
}

fn placement(version: Doc<'_>) -> Placement {
    let epoch = match version.get("e") {
        Some(ValueRef::ObjectId(epoch)) => epoch,
        _ => UNSHARDED.epoch,
    };
    match version.get("v") {
        Some(ValueRef::Timestamp(Timestamp { seconds, .. })) => Placement { epoch, major: seconds },
        _ => Placement { epoch, major: 0 },
    }
}

impl Known {
    fn of_row(row: Doc<'_>) -> Option<Known> {
        match (row.get("state"), row.get("version")) {
            (Some(ValueRef::String("blocked")), _) => Some(Known::Blocked),
            // it is not known here whether the range has left
            _ if row.get("critical").is_some() => Some(Known::Blocked),
            (Some(ValueRef::String("collection")), Some(ValueRef::Document(version))) => {
                let key = match row.get("key") {
                    Some(ValueRef::Document(key)) => Some(key),
                    _ => None,
                };
                Some(Known::Collection(Arc::new(Placed::new(version, key))))
            }
            (Some(ValueRef::String("database")), Some(ValueRef::Document(version))) => {
                Some(Known::Database(version.to_buf()))
            }
            _ => None,
        }
    }
}

impl Commands {
    /// Makes this server a shard: reads what it knew before.
    pub fn begin_sharding(&self) -> Result<()> {
        let Some(ownership) = &self.ownership else { return Ok(()) };
        self.begin_fencing(&ownership.fences)?;
        let found = arbor_query::find(&Scope::of(&self.database), &FindSpec::new(rows()?), &Interrupt::never())?;
        let mut states = HashMap::new();
        // what has arrived or was deleted before is not known any more
        let arrived = Some(self.database.transactions.read()?.position());
        for row in found.all(&Interrupt::never())? {
            let (Some(ValueRef::String(name)), Some(mut state)) = (row.get("_id"), Known::of_row(row.as_doc())) else {
                continue;
            };
            if let Known::Collection(placed) = &mut state {
                let hidden = self.hidden_ranges(name)?;
                *placed = Arc::new(Placed { arrived, ..placed.next().with_hidden(hidden) });
            }
            if let Known::Collection(placed) = &state {
                self.show_shard_key(name, placed.key.as_ref())?;
            }
            states.insert(name.to_owned(), state);
        }
        *ownership.known.write() = states;
        Ok(())
    }

    /// Lets the history name the documents of a collection by its shard key.
    fn show_shard_key(&self, name: &str, key: Option<&DocBuf>) -> Result<()> {
        self.database.store.set_shard_key(&Namespace::parse(name)?, key.map(DocBuf::as_doc));
        Ok(())
    }

    /// Holds all changes of what is known.
    pub(crate) fn change_ownership(&self) -> Result<MutexGuard<'_, ()>> {
        Ok(self.ownership()?.changing.lock())
    }

    fn ownership(&self) -> Result<&Ownership> {
        let no_shard = || {
            let text = "this server is no shard: it was started without --shardsvr";
            Error::new(Code::NO_SHARDING_ENABLED, text)
        };
        self.ownership.as_ref().ok_or_else(no_shard)
    }

    /// Returns what is known of a sharded collection. Errors: it is not, or a change of it is under way.
    pub(crate) fn placed(&self, name: &str) -> Result<Arc<Placed>> {
        match self.ownership()?.known.read().get(name) {
            Some(Known::Collection(placed)) => Ok(placed.clone()),
            _ => Err(stale(name, Doc::empty(), None)),
        }
    }

    /// Lets requests that come from now on run under another state of a collection. Requires [`Commands::change_ownership`].
    pub(crate) fn publish(&self, name: &str, placed: Placed) -> Result<()> {
        let ownership = self.ownership()?;
        // held until the state of before is in it: a reader of the new state finds the requests of the old one
        let mut before = ownership.before.lock();
        let old = ownership.known.write().insert(name.to_owned(), Known::Collection(Arc::new(placed)));
        if let Some(Known::Collection(old)) = old {
            let before = before.entry(name.to_owned()).or_default();
            before.retain(|old| old.strong_count() > 0);
            before.push(Arc::downgrade(&old));
        }
        Ok(())
    }

    /// Returns true if requests still run under an earlier state of a collection.
    pub(crate) fn has_old_requests(&self, name: &str) -> bool {
        let Some(ownership) = &self.ownership else { return false };
        let before = ownership.before.lock();
        before.get(name).is_some_and(|before| before.iter().any(|old| old.strong_count() > 0))
    }

    /// Refuses a request whose router took a view for a collection.
    pub(crate) fn check_no_view(&self, request: &Incoming<'_>) -> Result<()> {
        let (Some(ValueRef::Document(version)), Some((_, ValueRef::String(name)))) =
            (request.body.get("shardVersion"), request.body.first())
        else {
            return Ok(());
        };
        if version.get("noView").is_none() {
            return Ok(());
        }
        let (namespace, store) = (Namespace::new(request.db, name)?, &self.database.store);
        if store.view(&namespace).is_none() || store.buckets_of(&namespace).is_some() {
            return Ok(());
        }
        let text = format!("{namespace} is a view");
        Err(Error::new(Code::COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD, text))
    }

    /// Returns the collections that a read of a router needs besides its own, by its stages and by views. None of them is sharded, as far as
    /// the router knows: else it would do the stages itself.
    fn others_of(&self, request: &Incoming<'_>) -> Result<Vec<String>> {
        let (Some(ValueRef::Document(version)), Some((command, ValueRef::String(name)))) =
            (request.body.get("shardVersion"), request.body.first())
        else {
            return Ok(Vec::new());
        };
        if placement(version) != UNSHARDED || !["aggregate", "count", "distinct", "find"].contains(&command) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        if let Some(ValueRef::Array(stages)) = request.body.get("pipeline") {
            add_others(request.db, stages, &mut found);
        }
        let mut waiting = vec![format!("{}.{name}", request.db)];
        waiting.extend(found.iter().cloned());
        while let Some(name) = waiting.pop() {
            let Some(view) = Namespace::parse(&name).ok().and_then(|name| self.database.store.view(&name)) else {
                continue;
            };
            let mut below = vec![view.view_on.as_str().to_owned()];
            add_others(view.namespace.db(), view.pipeline.as_array(), &mut below);
            below.retain(|name| !found.contains(name));
            waiting.extend(below.iter().cloned());
            found.extend(below);
        }
        Ok(found)
    }

    /// Refuses a read of a router that does not know that a collection which it needs besides its own is sharded now.
    pub(crate) fn check_other_collections(&self, request: &Incoming<'_>) -> Result<()> {
        let Some(ownership) = &self.ownership else { return Ok(()) };
        let others = self.others_of(request)?;
        let known = ownership.known.read();
        let is_sharded = |name: &&String| matches!(known.get(*name), Some(Known::Collection(_) | Known::Blocked));
        others.iter().find(is_sharded).map_or(Ok(()), |name| Err(sharded_now(name)))
    }

    /// Returns true if requests still run under a state of a collection that is earlier than `own`.
    pub(crate) fn has_requests_before(&self, name: &str, own: &Arc<Placed>) -> bool {
        let Some(ownership) = &self.ownership else { return false };
        let before = ownership.before.lock();
        let earlier = |old: &&Weak<Placed>| !std::ptr::eq(old.as_ptr(), Arc::as_ptr(own));
        let mut earlier = before.get(name).into_iter().flatten().take_while(earlier);
        earlier.any(|old| old.strong_count() > 0)
    }

    /// Notes durably that it is not to be known here, after an end of the server, whether a range has left.
    pub(crate) fn set_critical(&self, name: &str, placed: &Placed, is_critical: bool) -> Result<()> {
        let mut row = DocBuf::new().with("_id", name).with("state", "collection").with("version", &placed.version);
        if let Some(key) = &placed.key {
            row.append("key", key);
        }
        if is_critical {
            row.append("critical", true);
        }
        self.persist(&rows()?, row.as_doc())?;
        Ok(self.database.make_durable(arbor_txn::Durability::Journaled, None)?)
    }

    /// Sets what is known of a collection or database, after the requests that run; `state` "none" forgets it. Of the ranges that
    /// were moving, those of `kept` are the shard's own now, those of `dropped` are not.
    pub(crate) fn set_ownership(
        &self,
        name: &str,
        (state, version, key): (&str, Option<Doc<'_>>, Option<Doc<'_>>),
        kept: &[ObjectId],
        dropped: &[ObjectId],
    ) -> Result<()> {
        let ownership = self.ownership()?;
        let mut row = DocBuf::new().with("_id", name).with("state", state);
        if let Some(version) = version {
            row.append("version", version);
        }
        if let Some(key) = key {
            row.append("key", key);
        }
        let known = Known::of_row(row.as_doc());
        if known.is_none() && state != "none" {
            return Err(Error::bad_value(format!("unknown state of a shard's collection: {state}")));
        }
        let _changing = ownership.changing.lock();
        let before = ownership.known.read().get(name).cloned();
        // requests of before may continue
        let passes = match (&before, &known) {
            (None, None) => true,
            (Some(Known::Collection(old)), Some(Known::Collection(new))) => old.placement.epoch == new.placement.epoch,
            (Some(Known::Database(old)), Some(Known::Database(new))) => old.as_bytes() == new.as_bytes(),
            _ => false,
        };
        if !passes {
            // requests that come from now on are refused; the gate is not held while the rows replicate, for which others may need the
            // threads that would wait at it
            let Some(_gate) = ownership.gate(name).try_write_for(PATIENCE) else {
                let text = format!("requests on {name} did not end in time");
                return Err(Error::new(Code::LOCK_TIMEOUT, text));
            };
            ownership.set(name, Some(Known::Blocked));
        }
        if let Err(error) = self.store_ownership(name, row.as_doc(), (&before, known), kept, dropped) {
            if !passes {
                ownership.set(name, before);
            }
            return Err(error);
        }
        if let Some(Known::Collection(old)) = before
            && let Some(moving) = &old.moving
        {
            moving.end();
        }
        Ok(())
    }

    /// Stores what is known of a collection or database from now on, and then publishes it.
    fn store_ownership(
        &self,
        name: &str,
        row: Doc<'_>,
        (before, known): (&Option<Known>, Option<Known>),
        kept: &[ObjectId],
        dropped: &[ObjectId],
    ) -> Result<()> {
        let ownership = self.ownership()?;
        let has_arrived = match (&known, kept.is_empty() && dropped.is_empty()) {
            (None, _) => {
                self.forget_ranges(name)?;
                delete_rows(&Scope::of_server(&self.database), rows()?, &DocBuf::new().with("_id", name))?;
                false
            }
            (Some(_), true) => {
                self.persist(&rows()?, row)?;
                false
            }
            // a member that follows shows a range with the version that owns it, and not before
            (Some(_), false) => self.settle_ranges(name, kept, dropped, (&rows()?, row))?,
        };
        self.database.make_durable(arbor_txn::Durability::Journaled, None)?;
        let Some(Known::Collection(placed)) = known else {
            if known.is_none() && name.contains('.') {
                self.show_shard_key(name, None)?;
            }
            ownership.set(name, known);
            return Ok(());
        };
        self.show_shard_key(name, placed.key.as_ref())?;
        let hidden = self.hidden_ranges(name)?;
        let next = match before {
            Some(Known::Collection(old)) => old.next(),
            _ => placed.next(),
        };
        let (placement, version, key) = (placed.placement, placed.version.clone(), placed.key.clone());
        // also when an earlier call, which failed behind that, has settled the ranges
        let is_new = !matches!(before, Some(Known::Collection(_)));
        let may_have_arrived = has_arrived || !kept.is_empty() || is_new;
        let arrived = if may_have_arrived { Some(self.database.transactions.read()?.position()) } else { next.arrived };
        self.publish(name, Placed { placement, version, key, hidden, moving: None, arrived, ..next })
    }
}

/// The state that a request reads whose versions were checked on a member that follows.
#[derive(Default)]
pub(crate) struct OwnedState {
    /// None: the one of the read concern, or what is newest.
    pub(crate) view: Option<ReadView>,
    pub(crate) placed: Option<Arc<Placed>>,
}

/// Reads of documents, which show the state for which their versions were checked.
const READS: &[&str] = &["find", "aggregate", "count", "distinct"];

impl Commands {
    /// Returns true if a request has versions, and this member does not set them.
    pub(crate) fn follows_versions(&self, body: Doc<'_>) -> bool {
        self.ownership.is_some()
            && (body.get("shardVersion").is_some() || body.get("databaseVersion").is_some())
            && !self.is_primary()
    }

    /// Checks the versions of a request on a member that follows. What this one knows is in rows that follow as documents do (O2), so the
    /// rows of a state say what is owned in it.
    pub(crate) fn enter_following(
        &self,
        command: &str,
        request: &Incoming<'_>,
        past: Option<&PastView>,
    ) -> Result<OwnedState> {
        let transactions = &self.database.transactions;
        let now = if past.is_some() { None } else { Some(transactions.read()?) };
        let Some(view) = past.map(|(view, _)| view).or(now.as_ref()) else { unreachable!("one of both is there") };
        let scope = Scope::of(&self.database).at(view);
        let known = |name: &str| -> Result<Option<Known>> {
            let filter = DocBuf::new().with("_id", name);
            let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(rows()?) };
            let found = arbor_query::find(&scope, &spec, &Interrupt::never())?.all(&Interrupt::never())?;
            Ok(found.first().and_then(|row| Known::of_row(row.as_doc())))
        };
        let of_past = |error: Error| match past {
            // another table would not help
            Some(_) => Error::new(Code::MIGRATION_CONFLICT, error.message.clone()),
            None => error,
        };
        let (db, body) = (request.db, request.body);
        let mut placed = None;
        if let (Some(ValueRef::Document(version)), Some((_, ValueRef::String(name)))) =
            (body.get("shardVersion"), body.first())
        {
            let namespace = format!("{db}.{name}");
            for other in self.others_of(request)? {
                if matches!(known(&other)?, Some(Known::Collection(_) | Known::Blocked)) {
                    return Err(sharded_now(&other));
                }
            }
            if let Some(buckets) = self.database.store.buckets_of(&Namespace::new(db, name)?)
                && known(buckets.namespace.as_str())?.is_some()
            {
                return Err(is_series_of_shards(&namespace));
            }
            match known(&namespace)? {
                None | Some(Known::Database(_)) if placement(version) == UNSHARDED => {}
                Some(Known::Collection(own)) if own.placement == placement(version) => {
                    let hidden = self.hidden_ranges_in(&scope, &namespace)?;
                    placed = Some(Arc::new(own.next().with_hidden(hidden)));
                }
                Some(Known::Collection(own)) => return Err(of_past(stale(&namespace, version, Some(&own.version)))),
                _ => return Err(of_past(stale(&namespace, version, None))),
            }
        }
        if let Some(ValueRef::Document(version)) = body.get("databaseVersion") {
            check_database(known(db)?.as_ref(), db, version).map_err(of_past)?;
        }
        // a tailing cursor follows the collection, which is on one shard
        let is_tail = matches!(body.get("tailable"), Some(ValueRef::Bool(true)));
        Ok(OwnedState { view: now.filter(|_| READS.contains(&command) && !is_tail), placed })
    }

    pub(crate) fn is_shard(&self) -> bool {
        self.ownership.is_some()
    }

    /// Returns the name of this shard and its cluster. None: it is part of none.
    pub(crate) fn shard_identity(&self) -> Result<Option<DocBuf>> {
        let filter = DocBuf::new().with("_id", "shardIdentity");
        let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(versions()?) };
        let found = arbor_query::find(&Scope::of(&self.database), &spec, &Interrupt::never())?;
        let stored = found.all(&Interrupt::never())?.into_iter().next();
        Ok(stored.filter(|stored| stored.get("shardName").is_some()))
    }

    pub(crate) fn set_shard_identity(&self, identity: &DocBuf) -> Result<()> {
        self.persist(&versions()?, identity.as_doc())
    }
}

fn versions() -> Result<Namespace> {
    Ok(Namespace::new("admin", "system.version")?)
}

fn rows() -> Result<Namespace> {
    Ok(Namespace::new("config", "cache.ownership")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(epoch: u8, major: u32) -> DocBuf {
        let stamp = |seconds| ValueRef::Timestamp(Timestamp { seconds, increment: 0 });
        DocBuf::new().with("e", ValueRef::ObjectId(ObjectId([epoch; 12]))).with("t", stamp(1)).with("v", stamp(major))
    }

    fn request(version: &DocBuf) -> DocBuf {
        DocBuf::new().with("find", "c").with("shardVersion", version)
    }

    fn enter<'o>(ownership: &'o Ownership, body: &DocBuf) -> Result<Pass<'o>> {
        let reply_to = arbor_wire::ReplyTo { request_id: 1, form: arbor_wire::Form::Nothing, compressor: None };
        let request =
            Incoming { db: "db", body: body.as_doc(), sequences: &[], reply_to, may_stream: false, waited_until: None };
        ownership.enter(&request, None)
    }

    fn entered(ownership: &Ownership, version: &DocBuf) -> bool {
        match enter(ownership, &request(version)) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.code, Code::STALE_CONFIG);
                false
            }
        }
    }

    #[test]
    fn only_the_known_version_passes() {
        let ownership = Ownership::default();
        assert!(entered(&ownership, &version(0, 0)) && !entered(&ownership, &version(1, 1)));
        let known = Known::Collection(Arc::new(Placed::new(version(1, 2).as_doc(), None)));
        ownership.known.write().insert("db.c".to_owned(), known);
        assert!(entered(&ownership, &version(1, 2)));
        for other in [version(0, 0), version(1, 1), version(1, 3), version(2, 2)] {
            assert!(!entered(&ownership, &other));
        }
        ownership.known.write().insert("db.c".to_owned(), Known::Blocked);
        assert!(!entered(&ownership, &version(1, 2)) && !entered(&ownership, &version(0, 0)));
        assert!(enter(&ownership, &DocBuf::new().with("find", "c")).is_ok(), "a direct client");
    }

    #[test]
    fn deleted_ranges_are_hidden_in_snapshots_of_before() {
        let mut placed = Placed::new(version(1, 2).as_doc(), None);
        assert!(placed.owned_at(None).is_none());
        let range = |at: u64| {
            let row = DocBuf::new()
                .with("keyPattern", &DocBuf::new().with("k", 1i32))
                .with("low", ValueRef::Binary { subtype: 0, bytes: &[at as u8] })
                .with("high", ValueRef::Binary { subtype: 0, bytes: &[at as u8, 1] });
            ClearedRange::of(row.as_doc(), Position(at))
        };
        for at in 1..=CLEARED_MAX as u64 {
            placed = placed.next().with_cleared(range(at));
        }
        let bounds = |placed: &Placed, at| {
            placed
                .owned_at(Some(Position(at)))
                .map_or(0, |filter| filter.as_doc().to_string().matches("BinData").count())
        };
        assert_eq!(
            [bounds(&placed, 0), bounds(&placed, 2), bounds(&placed, 63), bounds(&placed, 64)],
            [128, 124, 2, 0]
        );
        let request = request(&version(1, 2));
        let reply_to = arbor_wire::ReplyTo { request_id: 1, form: arbor_wire::Form::Nothing, compressor: None };
        let (body, sequences) = (request.as_doc(), &[]);
        let request = Incoming { db: "db", body, sequences, reply_to, may_stream: false, waited_until: None };
        assert!(placed.check_snapshot(&request, Position(0)).is_ok());
        placed = placed.with_cleared(range(65));
        // the first one is forgotten
        assert_eq!(placed.check_snapshot(&request, Position(0)).unwrap_err().code, Code::MIGRATION_CONFLICT);
        assert!(placed.check_snapshot(&request, Position(1)).is_ok() && bounds(&placed, 1) == 128);
    }

    #[test]
    fn only_the_known_version_of_a_database_passes() {
        let ownership = Ownership::default();
        let of_collection = version(0, 0);
        let code = |of_database: &DocBuf| {
            let request = request(&of_collection).with("databaseVersion", of_database);
            enter(&ownership, &request).err().map(|error| error.code)
        };
        let (before, now) = (version(1, 1), version(2, 2));
        assert_eq!(code(&before), Some(Code::STALE_DB_VERSION), "it may have been dropped");
        ownership.set("db", Some(Known::Database(now.clone())));
        assert_eq!((code(&before), code(&now)), (Some(Code::STALE_DB_VERSION), None));
        ownership.set("db", None);
        assert_eq!(code(&now), Some(Code::STALE_DB_VERSION));
    }

    #[test]
    fn nothing_is_kept_of_what_was_dropped() {
        let ownership = Ownership::default();
        let placed = || Arc::new(Placed::new(version(1, 2).as_doc(), None));
        let read = placed();
        for (name, old) in [("db.c", &read), ("db.d", &placed())] {
            ownership.set(name, Some(Known::Collection(placed())));
            ownership.before.lock().insert(name.to_owned(), vec![Arc::downgrade(old)]);
        }
        let left = |ownership: &Ownership| Vec::from_iter(ownership.before.lock().keys().cloned());
        ownership.set("db.d", None);
        assert_eq!((left(&ownership), ownership.known.read().len()), (vec!["db.c".to_owned()], 1));
        ownership.set("db.c", None);
        assert_eq!(left(&ownership), ["db.c"], "a request still runs under it");
        drop(read);
        ownership.set("db.d", None);
        assert!(left(&ownership).is_empty() && ownership.known.read().is_empty());
    }

    #[test]
    fn a_request_keeps_its_gate() {
        let ownership = Ownership::default();
        let request = request(&version(0, 0));
        let pass = enter(&ownership, &request).unwrap();
        assert!(ownership.gate("db.c").try_write().is_none());
        drop(pass);
        assert!(ownership.gate("db.c").try_write().is_some());
    }
}
