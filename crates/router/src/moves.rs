//! Moves of chunks. The router copies the range from the donor to the recipient, and is the only one to decide: the donor and the
//! recipient follow what the config servers say.
//!
//! M1: the owner changes by one transaction on the config servers, which also proves that this router still has the lock of the
//! collection. So a move that another router has given up cannot be committed any more. M2: before it the range's writers wait
//! on the donor; after it the donor learns the new version first, so no two shards serve the range at once. M3: a router that ends
//! leaves pending ranges and its lock; who takes that over, or a request that the donor holds, settles them by what the
//! config servers say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ObjectId, Timestamp, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;

use crate::administration::Known;
use crate::catalog::{now, updates};
use crate::chunks::{check_names, replacement};
use crate::definitions::{copy_indexes, create_like, first_batch};
use crate::lock::{Guard, is_lock_lost};
use crate::shard::Shard;
use crate::table::{Table, key_of_bound};
use crate::throttle::{SLICE, Sum, Throttle};
use crate::{Request, fields};

/// The gate closes when a round of changes had no more than this.
pub(crate) const FEW_CHANGES: usize = 64;
pub(crate) const ROUNDS_MAX: u32 = 1000;
/// Longest wait for a range that is being deleted on the recipient, and for writers that do not end.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(600);
pub(crate) const NAP: Duration = Duration::from_millis(50);
/// Steps that are not to be left half done continue for this long, whatever the client does. Those before, which hold writers, end by then.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(60);

/// A range on its way.
struct Move<'r> {
    request: &'r Request<'r>,
    guard: &'r Guard<'r>,
    table: Arc<Table>,
    from: Arc<Shard>,
    to: Arc<Shard>,
    id: ObjectId,
    min: DocBuf,
    max: DocBuf,
    documents: u64,
    bytes: u64,
    /// Time that the copy has waited for the sake of clients.
    throttled: Duration,
}

impl<'r> Request<'r> {
    /// `moveChunk`
    pub(crate) fn move_chunk(&self) -> Result<DocBuf> {
        let (namespace, to) = (self.text("moveChunk")?, self.text("to")?);
        let body = self.body();
        let bounds = match (fields::document(body, "find"), fields::array(body, "bounds")) {
            (Some(_), None) => None,
            (None, Some(bounds)) => match (bounds.get(0), bounds.get(1), bounds.iter().count()) {
                (Some(ValueRef::Document(low)), Some(ValueRef::Document(high)), 2) => Some((low, high)),
                _ => return Err(Error::bad_value("bounds must be an array of two documents")),
            },
            _ => return Err(Error::bad_value("need to specify either find or bounds")),
        };
        let guard = self.lock_for_move(namespace)?;
        let table = self.sharded(namespace)?;
        let key = match (fields::document(body, "find"), bounds) {
            (Some(find), _) => table.bound_of_filter(find)?,
            (_, Some((low, high))) => {
                check_names(&table, low)?;
                check_names(&table, high)?;
                low.to_buf()
            }
            _ => unreachable!("checked above"),
        };
        let chunk = self.chunk_with(&table, key.as_doc())?;
        if let Some((low, high)) = bounds {
            let end = |name| fields::document(chunk.as_doc(), name).map(key_of_bound).unwrap_or_default();
            if end("min") != key_of_bound(low) || end("max") != key_of_bound(high) {
                return Err(Error::bad_value(format!("no chunk found with the shard key bounds [{low}, {high})")));
            }
        }
        self.move_to(&guard, table, &chunk, to)
    }

    /// `moveRange`: the range is a chunk, or a part of one, which is split then.
    pub(crate) fn move_range(&self) -> Result<DocBuf> {
        let (namespace, to) = (self.text("moveRange")?, self.text("toShard")?);
        let body = self.body();
        let (min, max) = (fields::document(body, "min"), fields::document(body, "max"));
        let guard = self.lock_for_move(namespace)?;
        let mut table = self.sharded(namespace)?;
        for bound in [min, max].into_iter().flatten() {
            check_names(&table, bound)?;
        }
        let Some(chunk) = (match (min, max) {
            (Some(min), _) => Some(self.chunk_with(&table, min)?),
            // the chunk that ends there, or in which it is
            (None, Some(max)) => self.catalog().last_chunk(&table.uuid, "$lt", max, self.interrupt())?,
            (None, None) => None,
        }) else {
            return Err(Error::bad_value("moveRange needs min or max"));
        };
        let end = |name: &str| fields::document(chunk.as_doc(), name).map(Doc::to_buf).unwrap_or_default();
        let (low, high) = (min.map_or_else(|| end("min"), Doc::to_buf), max.map_or_else(|| end("max"), Doc::to_buf));
        let (first, last) = (key_of_bound(low.as_doc()), key_of_bound(high.as_doc()));
        if first >= last || last > key_of_bound(end("max").as_doc()) {
            let text = format!("the range [{}, {}) is not within one chunk", low.as_doc(), high.as_doc());
            return Err(Error::bad_value(text));
        }
        if fields::string(chunk.as_doc(), "shard") == Some(to) {
            return self.move_to(&guard, table, &chunk, to);
        }
        for middle in [&low, &high] {
            let chunk = self.chunk_with(&table, low.as_doc())?;
            let at = key_of_bound(middle.as_doc());
            let own = |name| fields::document(chunk.as_doc(), name).map(key_of_bound).unwrap_or_default();
            if at > own("min") && at < own("max") {
                self.split_at(&guard, &table, &chunk, middle)?;
                table = self.sharded(namespace)?;
            }
        }
        let chunk = self.chunk_with(&table, low.as_doc())?;
        self.move_to(&guard, table, &chunk, to)
    }

    /// `moveCollection`: a collection that is not sharded, from one shard to another.
    pub(crate) fn move_collection(&self) -> Result<DocBuf> {
        let (namespace, to) = (self.text("moveCollection")?, self.text("toShard")?);
        let parsed = arbor_store::Namespace::parse(namespace)?;
        if matches!(parsed.db(), "admin" | "local" | "config") || parsed.is_system() {
            return Err(Error::new(Code::ILLEGAL_OPERATION, format!("cannot move the collection {namespace}")));
        }
        let to = self.shard_to_fill(to)?;
        let guard = self.lock_for_move(namespace)?;
        let table = match self.tracked(namespace)? {
            Some(table) if !table.unsplittable => {
                let text = "moveCollection can only be called on an unsharded collection";
                return Err(Error::new(Code::ILLEGAL_OPERATION, text));
            }
            Some(table) => table,
            None => self.track(&guard, &parsed)?,
        };
        let lowest = DocBuf::new().with("_id", ValueRef::MinKey);
        let chunk = self.chunk_with(&table, lowest.as_doc())?;
        self.move_to(&guard, table, &chunk, &to.name)?;
        Ok(DocBuf::new())
    }

    /// Takes the lock of a collection, without waiting for it, and completes what a change before has left. Errors: another operation is in progress.
    pub(crate) fn lock_for_move(&self, namespace: &str) -> Result<Guard<'r>> {
        let held = || {
            let text = format!("Unable to move a range of {namespace}: another operation on it is in progress");
            Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text)
        };
        self.completed(self.try_lock_as(namespace, true)?.ok_or_else(held)?)
    }

    pub(crate) fn move_to(&self, guard: &Guard<'_>, table: Arc<Table>, chunk: &DocBuf, to: &str) -> Result<DocBuf> {
        let (begun, interrupt) = (Instant::now(), self.interrupt());
        let to = self.catalog().shard(to, interrupt)?;
        let own = chunk.as_doc();
        let from = self.catalog().shard(fields::string(own, "shard").unwrap_or_default(), interrupt)?;
        let millis = |begun: Instant| DocBuf::new().with("millis", begun.elapsed().as_millis() as i64);
        if from.name == to.name {
            return Ok(millis(begun));
        }
        let target = self.catalog().read_one("shards", to.name.as_str().into(), interrupt)?.unwrap_or_default();
        if fields::is_true(target.as_doc(), "draining") {
            let text = format!("Shard {} is currently draining", to.name);
            return Err(Error::new(Code::SHARD_NOT_FOUND, text));
        }
        let collection = self.catalog().read_one("collections", table.namespace.as_str().into(), interrupt)?;
        let permitted = collection
            .and_then(|own| own.get("permitMigrations").map(|_| fields::is_true(own.as_doc(), "permitMigrations")));
        if permitted == Some(false) {
            let text = format!("Collection {} is not allowed to have its chunks moved", table.namespace);
            return Err(Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text));
        }
        if fields::is_true(own, "jumbo") && !fields::is_true(self.body(), "forceJumbo") {
            return Err(Error::new(Code::CHUNK_TOO_BIG, "cannot move a chunk that is jumbo without forceJumbo"));
        }
        let (Some(min), Some(max)) = (fields::document(own, "min"), fields::document(own, "max")) else {
            return Err(Error::new(Code::INTERNAL_ERROR, "a chunk has no bounds"));
        };
        let id = arbor_protocol::topology::new_object_id();
        let (min, max) = (min.to_buf(), max.to_buf());
        let mut moved = Move {
            request: self,
            guard,
            table,
            from,
            to,
            id,
            min,
            max,
            documents: 0,
            bytes: 0,
            throttled: Duration::ZERO,
        };
        moved.log("moveChunk.start", DocBuf::new());
        match moved.run(chunk) {
            Ok(times) => {
                let details = times.with("clonedDocs", moved.documents as i64).with("clonedBytes", moved.bytes as i64);
                let details = details.with("throttledMS", moved.throttled.as_millis() as i64);
                moved.log("moveChunk.commit", details.with("totalTimeMS", begun.elapsed().as_millis() as i64));
                moved.log("moveChunk.from", DocBuf::new().with("note", "success"));
                if ["_waitForDelete", "waitForDelete"].iter().any(|name| fields::is_true(self.body(), name)) {
                    moved.wait_for_deletion()?;
                }
                Ok(millis(begun))
            }
            Err(error) => {
                let failed = DocBuf::new().with("errmsg", error.message.as_str());
                moved.log("moveChunk.error", failed.clone());
                moved.log("moveChunk.from", failed.with("note", "aborted"));
                Err(error)
            }
        }
    }

    /// Brings a shard in line with the config servers: its version, and the owners of ranges that were moving.
    pub(crate) fn settle(&self, table: &Table, shard: &Shard, guard: &Guard<'_>, interrupt: &Interrupt) -> Result<()> {
        let namespace = table.namespace.as_str();
        let listed = shard.call("admin", &DocBuf::new().with("_shardsvrMoveRanges", namespace), interrupt)?;
        let (mut kept, mut dropped) = (ArrayBuf::new(), ArrayBuf::new());
        for value in fields::array(listed.as_doc(), "ranges").iter().flat_map(|all| all.iter()) {
            let ValueRef::Document(row) = value else { continue };
            let (Some(id), Some(ValueRef::Binary { bytes, .. })) = (row.get("_id"), row.get("low")) else { continue };
            if row.get("pending").is_none() {
                continue;
            }
            // an operation on all documents of the shard, of the collection as it still is
            let is_whole = row.get("whole").is_some();
            let owned = is_whole || table.shard_of(bytes) == shard.name;
            if owned {
                kept.push(id)
            } else {
                dropped.push(id)
            };
        }
        let command = Known::Collection(table).command(namespace, &shard.name, guard);
        let command = command.with("kept", &kept).with("dropped", &dropped);
        shard.call("admin", &command, interrupt).map(drop)
    }

    /// Waits until a shard has deleted the documents that have left it; `check` ends the wait.
    pub(crate) fn wait_for_ranges(
        &self,
        table: &Table,
        shard: &Shard,
        guard: &Guard<'_>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let (interrupt, until) = (self.interrupt(), Instant::now() + BUSY_MAX);
        let ask = DocBuf::new().with("_shardsvrMoveRanges", table.namespace.as_str());
        self.settle(table, shard, guard, interrupt)?;
        while !list(shard.call("admin", &ask, interrupt)?.as_doc(), "ranges").is_empty() {
            interrupt.check()?;
            check()?;
            if Instant::now() > until {
                let text = format!("documents of {} that have moved were not deleted in time", table.namespace);
                return Err(Error::new(Code::EXCEEDED_TIME_LIMIT, text));
            }
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

impl Move<'_> {
    fn command(&self, name: &str) -> DocBuf {
        let command = DocBuf::new().with(name, self.table.namespace.as_str()).with("id", ValueRef::ObjectId(self.id));
        self.guard.fenced(command)
    }

    fn begin_command(&self, name: &str) -> DocBuf {
        let range = DocBuf::new().with("min", &self.min).with("max", &self.max);
        let (low, high) = (key_of_bound(self.min.as_doc()), key_of_bound(self.max.as_doc()));
        self.command(name)
            .with("key", &self.table.key)
            .with("range", &range)
            .with("low", ValueRef::Binary { subtype: 0, bytes: &low })
            .with("high", ValueRef::Binary { subtype: 0, bytes: &high })
    }

    /// Adds a row to `config.changelog`. Nothing depends on it; `sh.status()` counts those of `moveChunk.from`.
    fn log(&self, what: &str, details: DocBuf) {
        let id = format!("{}-{}", self.request.router.address, arbor_protocol::topology::new_object_id());
        let details = DocBuf::new()
            .with("min", &self.min)
            .with("max", &self.max)
            .with("from", self.from.name.as_str())
            .with("to", self.to.name.as_str())
            .as_doc()
            .iter()
            .chain(details.as_doc().iter())
            .collect::<DocBuf>();
        let row = DocBuf::new()
            .with("_id", id.as_str())
            .with("server", self.request.router.address.as_str())
            .with("shard", self.from.name.as_str())
            .with("clientAddr", "")
            .with("time", ValueRef::DateTime(arbor_protocol::log::now_ms()))
            .with("what", what)
            .with("ns", self.table.namespace.as_str())
            .with("details", &details);
        let interrupt = self.request.router.within(Duration::from_secs(10));
        let _ = self.request.catalog().insert("changelog", &[row], &interrupt);
    }

    /// Returns the times of the steps.
    fn run(&mut self, chunk: &DocBuf) -> Result<DocBuf> {
        let interrupt = self.request.interrupt();
        let begun = Instant::now();
        // what an earlier move has left
        self.settle_both(&self.table, interrupt)?;
        let copied = self.prepare().and_then(|()| self.copy());
        let cloned = begun.elapsed();
        let closed = copied.and_then(|()| self.close());
        let closed = match closed {
            Ok(closed) => closed,
            Err(error) => {
                self.give_up();
                return Err(error);
            }
        };
        let committed = self.last_changes().and_then(|()| self.commit(chunk));
        if let Err(error) = committed {
            // a commit of which the reply was lost may have succeeded
            match self.is_moved(chunk) {
                Ok(true) => {}
                Ok(false) => {
                    self.give_up();
                    return Err(error);
                }
                // the gate stays closed until a router finds out
                Err(_) => return Err(error),
            }
        }
        let namespace = self.table.namespace.as_str();
        self.request.forget(namespace);
        let finished = self.finish();
        let critical = closed.elapsed();
        finished?;
        Ok(DocBuf::new()
            .with("cloneTimeMS", cloned.as_millis() as i64)
            .with("criticalSectionTimeMS", critical.as_millis() as i64)
            .with("criticalSectionMicros", critical.as_micros() as i64))
    }

    fn settle_both(&self, table: &Table, interrupt: &Interrupt) -> Result<()> {
        self.request.settle(table, &self.from, self.guard, interrupt)?;
        self.request.settle(table, &self.to, self.guard, interrupt)
    }

    /// Both shards follow the config servers, as soon as they can be reached.
    fn finish(&self) -> Result<()> {
        let interrupt = self.request.router.within(FINISH_MAX);
        let table = retried(&interrupt, || {
            self.request.forget(&self.table.namespace);
            self.request.catalog().table(&self.table.namespace, &interrupt)
        })?;
        // otherwise it was dropped
        if let Some(table) = table {
            retried(&interrupt, || self.request.settle(&table, &self.from, self.guard, &interrupt))?;
            retried(&interrupt, || self.request.settle(&table, &self.to, self.guard, &interrupt))?;
        }
        self.guard.settled();
        Ok(())
    }

    /// The range stays. Where that fails, the lock is left.
    fn give_up(&self) {
        let interrupt = self.request.router.within(FINISH_MAX);
        let _ = retried(&interrupt, || self.guard.end_begun(&interrupt)).and_then(|()| self.finish());
    }

    fn prepare(&self) -> Result<()> {
        let interrupt = self.request.interrupt();
        self.guard.leave();
        let (db, name) = self.table.namespace.split_once('.').unwrap_or_default();
        let filter = DocBuf::new().with("name", name);
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &filter);
        let listed = self.from.call(db, &list, interrupt)?;
        for collection in first_batch(listed.as_doc())? {
            create_like(collection, db, &self.to, self.guard, interrupt)?;
        }
        copy_indexes(db, name, (&self.from, &self.to), self.guard, interrupt)?;
        let until = Instant::now() + BUSY_MAX;
        loop {
            let reply = self.to.call("admin", &self.begin_command("_shardsvrMoveIn"), interrupt)?;
            if !fields::is_true(reply.as_doc(), "busy") {
                break;
            }
            if Instant::now() > until {
                let text = "Failed to delete the range on the recipient: operation exceeded time limit";
                return Err(Error::new(Code::EXCEEDED_TIME_LIMIT, text));
            }
            self.pause()?;
        }
        self.from.call("admin", &self.begin_command("_shardsvrMoveOut"), interrupt).map(drop)
    }

    fn pause(&self) -> Result<()> {
        self.request.interrupt().check()?;
        self.guard.renew(self.request.interrupt())?;
        std::thread::sleep(NAP);
        Ok(())
    }

    fn copy(&mut self) -> Result<()> {
        let interrupt = self.request.interrupt();
        let mut from: Option<Vec<u8>> = None;
        let mut throttles = [Throttle::default(), Throttle::default()];
        let (mut begun, mut before) = (Instant::now(), self.clients()?);
        loop {
            self.guard.renew(interrupt)?;
            let mut read = self.command("_shardsvrMoveRead");
            if let Some(from) = &from {
                read.append("from", ValueRef::Binary { subtype: 0, bytes: from });
            }
            let reply = self.from.call("admin", &read, interrupt)?;
            let documents = list(reply.as_doc(), "documents");
            if !documents.is_empty() {
                self.documents += documents.len() as u64;
                self.bytes += documents.iter().map(|doc| doc.as_bytes().len() as u64).sum::<u64>();
                let write = self.command("_shardsvrMoveWrite");
                self.to.call_with("admin", &write, &[("documents", &documents)], interrupt)?;
            }
            match reply.get("next") {
                Some(ValueRef::Binary { bytes, .. }) => from = Some(bytes.to_vec()),
                _ => break,
            }
            let work = begun.elapsed();
            if work >= SLICE {
                interrupt.check()?;
                let sums = before.into_iter().zip(self.clients()?);
                let pauses = throttles.iter_mut().zip(sums);
                let pauses = pauses.map(|(throttle, (before, after))| throttle.pause_after(before, after, work));
                let pause = pauses.max().unwrap_or_default();
                self.throttled += pause;
                std::thread::sleep(pause);
                (begun, before) = (Instant::now(), self.clients()?);
            }
        }
        for _ in 0..ROUNDS_MAX {
            self.guard.renew(interrupt)?;
            let (sent, left) = self.send_changes(interrupt)?;
            if sent + left <= FEW_CHANGES {
                return Ok(());
            }
        }
        let text = "the documents of the range change faster than they are copied";
        Err(Error::new(Code::EXCEEDED_TIME_LIMIT, text))
    }

    /// Asks both shards for the latencies of their clients.
    fn clients(&self) -> Result<[Sum; 2]> {
        let ask = DocBuf::new().with("_shardsvrMoveClients", self.table.namespace.as_str());
        let reply = |shard: &Shard| shard.call("admin", &ask, self.request.interrupt());
        Ok([Sum::of(reply(&self.from)?.as_doc()), Sum::of(reply(&self.to)?.as_doc())])
    }

    /// Sends what has changed; returns how much that was, and how much is known to be left.
    fn send_changes(&self, interrupt: &Interrupt) -> Result<(usize, usize)> {
        let reply = self.from.call("admin", &self.command("_shardsvrMoveChanges"), interrupt)?;
        let parts = ["documents", "deletes", "sessions"].map(|name| (name, list(reply.as_doc(), name)));
        let sent = parts.iter().map(|(_, some)| some.len()).sum();
        if sent > 0 {
            let sequences: Vec<(&str, &[DocBuf])> = parts
                .iter()
                .filter(|(_, some)| !some.is_empty())
                .map(|(name, some)| (*name, some.as_slice()))
                .collect();
            self.to.call_with("admin", &self.command("_shardsvrMoveWrite"), &sequences, interrupt)?;
        }
        Ok((sent, usize::try_from(fields::int(reply.as_doc(), "left")).unwrap_or(0)))
    }

    /// Holds the writers of the range; returns since when.
    fn close(&self) -> Result<Instant> {
        let interrupt = self.request.interrupt();
        let until = Instant::now() + BUSY_MAX;
        loop {
            let begun = Instant::now();
            let reply = self.from.call("admin", &self.command("_shardsvrMoveClose"), interrupt)?;
            if !fields::is_true(reply.as_doc(), "busy") {
                return Ok(begun);
            }
            if Instant::now() > until {
                return Err(Error::new(Code::EXCEEDED_TIME_LIMIT, "transactions that write into the range do not end"));
            }
            self.pause()?;
            self.send_changes(interrupt)?;
        }
    }

    fn last_changes(&self) -> Result<()> {
        let interrupt = self.request.interrupt().within(FINISH_MAX);
        while self.send_changes(&interrupt)? != (0, 0) {}
        let (db, name) = self.table.namespace.split_once('.').unwrap_or_default();
        let indexes = |shard: &Shard| -> Result<Vec<String>> {
            let listed = shard.call(db, &DocBuf::new().with("listIndexes", name), &interrupt)?;
            let mut indexes: Vec<String> = first_batch(listed.as_doc())?.iter().map(Doc::to_string).collect();
            indexes.sort_unstable();
            Ok(indexes)
        };
        if indexes(&self.from)? == indexes(&self.to)? {
            return Ok(());
        }
        let text = "the indexes of the collection were changed while a range of it moved";
        Err(Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text))
    }

    fn commit(&self, chunk: &DocBuf) -> Result<()> {
        let interrupt = self.request.interrupt().within(FINISH_MAX);
        let own = chunk.as_doc();
        let (major, _) = self.table.last_version();
        let version = |minor| fields::timestamp(major + 1, minor);
        let since = Timestamp { increment: 0, ..now() };
        let step = DocBuf::new().with("validAfter", ValueRef::Timestamp(since)).with("shard", self.to.name.as_str());
        let history = fields::array(own, "history");
        let history: ArrayBuf = std::iter::once(ValueRef::Document(step.as_doc()))
            .chain(history.iter().flat_map(|steps| steps.iter()).take(20))
            .collect();
        let moved = fields::without(own, &["shard", "lastmod", "onCurrentShardSince", "history", "jumbo"])
            .with("shard", self.to.name.as_str())
            .with("lastmod", version(0))
            .with("onCurrentShardSince", ValueRef::Timestamp(since))
            .with("history", &history);
        let mut changed = vec![replacement(&moved)];
        // another chunk of the donor shows that its chunks have changed
        let id = own.get("_id").unwrap_or(ValueRef::Null);
        let other = self.request.catalog().other_chunk(&self.table.uuid, &self.from.name, id, &interrupt)?;
        if let Some(other) = other {
            let other = fields::without(other.as_doc(), &["lastmod"]).with("lastmod", version(1));
            changed.push(replacement(&other));
        }
        self.request.catalog().transaction([self.guard], &[updates("chunks", &changed)], &interrupt)
    }

    /// Finds out whether the config servers have committed the move. After that they do not any more.
    fn is_moved(&self, chunk: &DocBuf) -> Result<bool> {
        let interrupt = self.request.router.within(FINISH_MAX);
        let Some(id) = chunk.get("_id") else { return Ok(false) };
        retried(&interrupt, || self.guard.end_begun(&interrupt))?;
        let now = retried(&interrupt, || self.request.catalog().read_one("chunks", id, &interrupt))?;
        Ok(now.is_some_and(|now| fields::string(now.as_doc(), "shard") == Some(&self.to.name)))
    }

    fn wait_for_deletion(&self) -> Result<()> {
        let interrupt = self.request.interrupt();
        let list_ranges = DocBuf::new().with("_shardsvrMoveRanges", self.table.namespace.as_str());
        loop {
            let listed = self.from.call("admin", &list_ranges, interrupt)?;
            let own = |row: &DocBuf| fields::object_id(row.as_doc(), "_id") == Some(self.id);
            if !list(listed.as_doc(), "ranges").iter().any(own) {
                return Ok(());
            }
            self.pause()?;
        }
    }
}

pub(crate) fn list(reply: Doc<'_>, name: &str) -> Vec<DocBuf> {
    let values = fields::array(reply, name);
    let values = values.iter().flat_map(|values| values.iter());
    values.filter_map(|value| if let ValueRef::Document(doc) = value { Some(doc.to_buf()) } else { None }).collect()
}

/// Repeats what fails, until the time is over, or another router has the lock.
pub(crate) fn retried<T>(interrupt: &Interrupt, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match step() {
            Err(error) if is_lock_lost(&error) || interrupt.check().is_err() => return Err(error),
            Err(_) => std::thread::sleep(NAP),
            done => return done,
        }
    }
}
