//! The drop of a database.
//!
//! B1: the config servers decide by one transaction, `dropping` in the document of the database. Before it the shards refuse requests on the
//! collections that are not sharded; after it nothing uses the database until all of it is gone. B2: who has the lock of the database completes
//! it. B3: the shards then know no version of it, so a router that still has one learns that it is gone.

use arbor_bson::{Code, DocBuf};
use arbor_command::{Answer, Error, Result};

use crate::administration::Known;
use crate::catalog::{deletes, updates};
use crate::lock::Guard;
use crate::moves::{FINISH_MAX, retried};
use crate::two_phase::on_each;
use crate::zones::ranges_of_database;
use crate::{Request, fields};

impl Request<'_> {
    pub(crate) fn drop_database(&self) -> Result<Answer> {
        let (db, interrupt) = (self.routed.db, self.interrupt());
        if db == "config" || db == "admin" {
            let text = format!("Cannot drop '{db}' database");
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        let guard = self.lock_renewed(db)?;
        self.catalog().forget_database(db);
        let id = DocBuf::new().with("_id", db);
        let shards = self.catalog().refresh_shards(interrupt)?;
        let known = self.catalog().read_one("databases", db.into(), interrupt)?.is_some();
        if !known {
            let drop = guard.fenced(DocBuf::new().with("dropDatabase", 1i32));
            let commands = shards.into_iter().map(|shard| (shard, drop.clone())).collect();
            on_each(db, commands, interrupt).into_iter().try_for_each(|(_, outcome)| outcome.map(drop_reply))?;
            self.transaction_without_zones(&guard, &ranges_of_database(db), &[], interrupt)?;
            return Ok(Answer::Reply(DocBuf::new().with("info", "database does not exist")));
        }
        let set = DocBuf::new().with("$set", &DocBuf::new().with("dropping", true));
        let decision = updates("databases", &[DocBuf::new().with("q", &id).with("u", &set)]);
        let blocked = self.set_ownership(&shards, db, Known::Blocked, &guard);
        let decided = blocked.and_then(|()| self.catalog().transaction([&guard], &[decision], interrupt));
        let (is_decided, finished) = self.finishing(|request| {
            let interrupt = request.interrupt();
            let is_decided = match &decided {
                Ok(()) => Ok(true),
                // a commit of which the reply was lost may have succeeded
                Err(_) => retried(interrupt, || guard.end_begun(interrupt)).and_then(|()| {
                    let now = retried(interrupt, || request.catalog().read_one("databases", db.into(), interrupt))?;
                    Ok(now.is_some_and(|now| fields::is_true(now.as_doc(), "dropping")))
                }),
            };
            let finished = match is_decided {
                Ok(true) => guard.held_while(|| retried(interrupt, || request.finish_database(db, &guard))),
                Ok(false) => request.bring_database_in_line(db, &guard).or(Ok(())),
                Err(_) => Ok(()),
            };
            (is_decided, finished)
        });
        finished?;
        match is_decided? {
            true => Ok(Answer::Reply(DocBuf::new().with("dropped", db))),
            false => decided.map(|()| Answer::Reply(DocBuf::new())),
        }
    }

    /// Completes the change of a database that was decided, if one was: another primary shard, or its drop. Requires the lock of its name.
    pub(crate) fn finish_database(&self, db: &str, guard: &Guard<'_>) -> Result<()> {
        let interrupt = self.router.within(FINISH_MAX);
        self.finish_moving_primary(db, guard, &interrupt)?;
        let found = self.catalog().read_one("databases", db.into(), &interrupt)?;
        if !found.is_some_and(|database| fields::is_true(database.as_doc(), "dropping")) {
            return Ok(());
        }
        let shards = self.catalog().refresh_shards(&interrupt)?;
        self.set_ownership(&shards, db, Known::Blocked, guard)?;
        let prefix = format!("{db}.");
        for collection in self.catalog().read("collections", &DocBuf::new(), "_id", &interrupt)? {
            let namespace = fields::string(collection.as_doc(), "_id").unwrap_or_default();
            if namespace.starts_with(&prefix) {
                self.drop_everywhere(namespace)?;
            }
        }
        let drop = guard.fenced(DocBuf::new().with("dropDatabase", 1i32));
        let commands = shards.iter().map(|shard| (shard.clone(), drop.clone())).collect();
        on_each(db, commands, &interrupt).into_iter().try_for_each(|(_, outcome)| outcome.map(drop_reply))?;
        self.set_ownership(&shards, db, Known::Nothing, guard)?;
        let gone = deletes("databases", &DocBuf::new().with("_id", db));
        self.transaction_without_zones(guard, &ranges_of_database(db), &[gone], &interrupt)?;
        self.catalog().forget_database(db);
        guard.settled();
        Ok(())
    }

    /// Completes what a router has left that ended while it held a lock, and brings all shards in line. Requires the lock. Errors: also that
    /// another router is completing it.
    pub(crate) fn complete(&self, lock: &str, guard: &Guard<'_>) -> Result<()> {
        if let Some(namespace) = crate::definition_changes::collection_of_lock(lock) {
            return self.finish_definition(namespace, guard);
        }
        match lock.split_once('.') {
            // a lock of the cluster's own
            Some(("config", _)) => Ok(()),
            Some((_, collection)) if !collection.is_empty() => {
                self.finish_change(lock, guard)?;
                self.bring_in_line(lock, guard).map(drop)
            }
            _ => {
                self.finish_database(lock, guard)?;
                self.bring_database_in_line(lock, guard)
            }
        }
    }
}

fn drop_reply(_: DocBuf) {}
