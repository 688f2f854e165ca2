//! `movePrimary`: the unsharded collections of a database go to another shard. No client uses them meanwhile.
//!
//! M1: `moving` in the document of the database says which collections are copied, and between which shards, before the first one is
//! made. M2: the config servers decide by one transaction, which names the new primary shard and proves that this router still has the lock of
//! the database. M3: `moving` stays until the shard that is not the primary has none of these collections. The holder of the lock
//! sees to it: this router, or another one once the lock is old.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;

use crate::administration::Known;
use crate::catalog::{new_version, updates};
use crate::chunks::replacement;
use crate::definitions::{copy_indexes, create_like, first_batch};
use crate::lock::Guard;
use crate::moves::retried;
use crate::shard::Shard;
use crate::{Request, fields};

impl Request<'_> {
    /// `movePrimary`
    pub(crate) fn move_primary(&self) -> Result<DocBuf> {
        let (db, to) = (self.text("movePrimary")?, self.text("to")?);
        let to = self.shard_to_fill(to)?;
        let guard = self.lock_renewed(db)?;
        let (moved, finished) = guard.held_while(|| {
            let moved = self.finish_database(db, &guard).and_then(|()| self.move_primary_locked(db, &to, &guard));
            let finished = self.finishing(|request| {
                let (interrupt, has_begun) = (request.interrupt(), guard.is_left());
                retried(interrupt, || {
                    if has_begun && moved.is_err() {
                        guard.end_begun(interrupt)?;
                    }
                    request.finish_moving_primary(db, &guard, interrupt)?;
                    if has_begun { request.bring_database_in_line(db, &guard) } else { Ok(()) }
                })
            });
            (moved, finished)
        });
        if finished.is_err() {
            guard.leave();
        }
        finished.and(moved)
    }

    fn move_primary_locked(&self, db: &str, to: &Arc<Shard>, guard: &Guard<'_>) -> Result<DocBuf> {
        let interrupt = self.interrupt();
        self.catalog().forget_database(db);
        let Some(database) = self.catalog().database(db, interrupt)? else {
            return Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("Database {db} not found")));
        };
        let reply = DocBuf::new().with("primary", to.name.as_str());
        if database.primary == to.name {
            return Ok(reply);
        }
        let from = self.catalog().shard(&database.primary, interrupt)?;
        self.set_ownership(std::slice::from_ref(&from), db, Known::Blocked, guard)?;
        self.copy_and_decide(db, (&from, to), &database.version, guard).map(|()| reply)
    }

    fn copy_and_decide(
        &self,
        db: &str,
        (from, to): (&Arc<Shard>, &Arc<Shard>),
        version: &DocBuf,
        guard: &Guard<'_>,
    ) -> Result<()> {
        let interrupt = self.interrupt();
        let collections = self.collections_to_move(db, from)?;
        let there = self.collections_to_move(db, to)?;
        let names: Vec<&str> = collections.iter().filter_map(|one| fields::string(one.as_doc(), "name")).collect();
        let of_both = |one: &&DocBuf| fields::string(one.as_doc(), "name").is_some_and(|name| names.contains(&name));
        if let Some(name) = there.iter().find(of_both).and_then(|one| fields::string(one.as_doc(), "name")) {
            let text = format!("the shard {} has a collection {db}.{name} already", to.name);
            return Err(Error::new(Code::NAMESPACE_EXISTS, text));
        }
        let moving = DocBuf::new()
            .with("id", ValueRef::ObjectId(arbor_protocol::topology::new_object_id()))
            .with("from", from.name.as_str())
            .with("to", to.name.as_str())
            .with("collections", &names.iter().copied().collect::<ArrayBuf>());
        let database = DocBuf::new().with("_id", db);
        let before =
            database.clone().with("primary", from.name.as_str()).with("version", version).with("moving", &moving);
        self.catalog().transaction([guard], &[replaces(&before)], interrupt)?;
        for collection in &collections {
            copy_collection(collection.as_doc(), db, (from, to), guard, interrupt)?;
        }
        let last_mod = fields::int(version.as_doc(), "lastMod") as i32;
        let version = new_version(last_mod.saturating_add(1));
        let after = database.with("primary", to.name.as_str()).with("version", &version).with("moving", &moving);
        self.catalog().transaction([guard], &[replaces(&after)], interrupt)
    }

    /// Returns the collections and views of a shard that belong to the primary shard.
    fn collections_to_move(&self, db: &str, shard: &Shard) -> Result<Vec<DocBuf>> {
        let list = DocBuf::new().with("listCollections", 1i32).with("cursor", &DocBuf::new());
        let listed = shard.call(db, &list, self.interrupt())?;
        let mut found = Vec::new();
        for collection in first_batch(listed.as_doc())? {
            let name = fields::string(collection, "name").unwrap_or_default();
            if !name.starts_with("system.")
                && self.catalog().buckets(db, name, self.interrupt())?.is_none()
                && self.catalog().table(&format!("{db}.{name}"), self.interrupt())?.is_none()
            {
                found.push(collection.to_buf());
            }
        }
        Ok(found)
    }

    /// Removes what a move of the primary shard, which was decided or has failed, left on the other shard. Requires the lock of the database.
    pub(crate) fn finish_moving_primary(&self, db: &str, guard: &Guard<'_>, interrupt: &Interrupt) -> Result<()> {
        let Some(database) = self.catalog().read_one("databases", db.into(), interrupt)? else { return Ok(()) };
        let Some(moving) = fields::document(database.as_doc(), "moving") else { return Ok(()) };
        let primary = fields::string(database.as_doc(), "primary").unwrap_or_default();
        let end = |name: &str| fields::string(moving, name).unwrap_or_default();
        let (other, was_decided) = if primary == end("to") { (end("from"), true) } else { (end("to"), false) };
        let other = self.catalog().shard(other, interrupt)?;
        self.catalog().forget_database(db);
        if was_decided && let Some(version) = fields::document(database.as_doc(), "version") {
            let shards = [other.clone(), self.catalog().shard(primary, interrupt)?];
            for shard in shards {
                let known = Known::Database(&version.to_buf()).command(db, &shard.name, guard);
                shard.call("admin", &known, interrupt)?;
            }
        }
        let names = fields::array(moving, "collections");
        for name in names.iter().flat_map(|names| names.iter()) {
            let ValueRef::String(name) = name else { continue };
            // a collection goes without an event; what is left is a view, or a time series
            let unseen = DocBuf::new().with("_shardsvrReplaceCollection", format!("{db}.{name}").as_str());
            other.call("admin", &guard.fenced(unseen), interrupt)?;
            match other.call(db, &guard.fenced(DocBuf::new().with("drop", name)), interrupt) {
                Err(error) if error.code == Code::NAMESPACE_NOT_FOUND => {}
                dropped => drop(dropped?),
            }
        }
        let own = DocBuf::new().with("_id", db).with("moving.id", moving.get("id").unwrap_or(ValueRef::Null));
        let unset = DocBuf::new().with("$unset", &DocBuf::new().with("moving", ""));
        let statement = DocBuf::new().with("q", &own).with("u", &unset);
        self.catalog().transaction([guard], &[updates("databases", &[statement])], interrupt)
    }
}

/// Returns the command that replaces a document of `config.databases`, which is there.
fn replaces(database: &DocBuf) -> DocBuf {
    updates("databases", &[replacement(database)])
}

fn copy_collection(
    listed: Doc<'_>,
    db: &str,
    (from, to): (&Shard, &Shard),
    guard: &Guard<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let name = fields::string(listed, "name").unwrap_or_default();
    create_like(listed, db, to, guard, interrupt)?;
    match fields::string(listed, "type") {
        Some("collection") => {
            copy_indexes(db, name, (from, to), guard, interrupt)?;
            copy_documents(db, name, (from, to), guard, interrupt)
        }
        Some("timeseries") => {
            let buckets = format!("system.buckets.{name}");
            copy_indexes(db, &buckets, (from, to), guard, interrupt)?;
            copy_documents(db, &buckets, (from, to), guard, interrupt)
        }
        _ => Ok(()),
    }
}

fn copy_documents(
    db: &str,
    name: &str,
    (from, to): (&Shard, &Shard),
    guard: &Guard<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut reply = from.call(db, &DocBuf::new().with("find", name).with("batchSize", 1000i32), interrupt)?;
    let take = DocBuf::new().with("_shardsvrTakeDocuments", format!("{db}.{name}").as_str());
    loop {
        let Some(cursor) = fields::document(reply.as_doc(), "cursor") else {
            return Err(Error::new(Code::INTERNAL_ERROR, "a shard sent a reply without a cursor"));
        };
        let batch = fields::array(cursor, "firstBatch").or_else(|| fields::array(cursor, "nextBatch"));
        let documents: Vec<DocBuf> = batch
            .iter()
            .flat_map(|batch| batch.iter())
            .filter_map(|value| if let ValueRef::Document(doc) = value { Some(doc.to_buf()) } else { None })
            .collect();
        if !documents.is_empty() {
            to.call_with("admin", &guard.fenced(take.clone()), &[("documents", &documents)], interrupt)?;
        }
        let id = fields::int(cursor, "id");
        if id == 0 {
            return Ok(());
        }
        let more = DocBuf::new().with("getMore", id).with("collection", name).with("batchSize", 1000i32);
        reply = from.call(db, &more, interrupt)?;
    }
}
