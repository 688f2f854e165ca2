//! Changes of the indexes and options of a collection on chosen shards: on all of its shards or on none. Clients read and write meanwhile.
//!
//! D1: a document of `config.definitionChanges` says what is to be done, and is there before the first shard is asked. D2: the router runs
//! it on all shards that have a part of the collection, also an empty one. If one refuses it, `undoing` is set, and the indexes that it was
//! to make are dropped; then the document is deleted. D3: who has the lock completes what another router has left.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result};

use crate::catalog::{Routing, deletes, updates, versioned};
use crate::chunks::replacement;
use crate::definitions::first_batch;
use crate::lock::Guard;
use crate::moves::FINISH_MAX;
use crate::shard::Shard;
use crate::table::Table;
use crate::two_phase::on_each;
use crate::{Request, fields, is_stale};

const CHANGES: &str = "definitionChanges";
/// Names of locks begin with it. Names of databases have no spaces.
const LOCK: &str = "definition of ";

pub(crate) type Replies = Vec<(Arc<Shard>, DocBuf)>;

/// Returns the collection whose definition has a lock of this name.
pub(crate) fn collection_of_lock(name: &str) -> Option<&str> {
    name.strip_prefix(LOCK)
}

/// A change on its way.
struct Change<'c> {
    namespace: &'c str,
    /// Value of `config.collections.uuid`.
    uuid: Vec<u8>,
    command: DocBuf,
    /// Names of the indexes that it makes.
    made: Vec<String>,
}

impl Change<'_> {
    fn of<'c>(namespace: &'c str, stored: Doc<'_>) -> Result<Change<'c>> {
        let broken = || Error::new(Code::INTERNAL_ERROR, format!("config.{CHANGES} of {namespace} is not whole"));
        let (uuid, command) = (fields::binary(stored, "uuid"), fields::binary(stored, "command"));
        let (uuid, command) = uuid.zip(command).ok_or_else(broken)?;
        let made = fields::array(stored, "made").into_iter().flat_map(|names| names.iter());
        Ok(Change {
            namespace,
            uuid: uuid.to_vec(),
            command: Doc::parse(command).map_err(|_| broken())?.to_buf(),
            made: made.filter_map(fields::text).map(str::to_owned).collect(),
        })
    }

    fn name(&self) -> &str {
        self.command.as_doc().first().map_or("", |(name, _)| name)
    }

    /// A shard that has nothing to drop has done it.
    fn is_done(&self, error: &Error) -> bool {
        self.name() == "dropIndexes" && error.code == Code::INDEX_NOT_FOUND
    }
}

/// Returns true for errors that say nothing about the change itself.
fn may_succeed_later(error: &Error) -> bool {
    is_stale(error)
        || matches!(error.code, Code::HOST_UNREACHABLE | Code::LOCK_BUSY | Code::LOCK_TIMEOUT | Code::SHARD_NOT_FOUND)
}

impl<'r> Request<'r> {
    /// Takes the lock of the indexes and options of a collection.
    pub(crate) fn lock_definition(&self, namespace: &str) -> Result<Guard<'r>> {
        // an index build takes as long as it takes
        self.lock_patiently(&format!("{LOCK}{namespace}"))
    }

    /// Takes a lock whose holder may work for long.
    pub(crate) fn lock_patiently(&self, name: &str) -> Result<Guard<'r>> {
        loop {
            match self.lock_renewed(name) {
                Err(error) if error.code == Code::LOCK_BUSY => self.interrupt().check()?,
                other => return other,
            }
        }
    }

    /// Runs `command` on all shards of a collection. Errors: a shard refuses it, and none has done it; or some cannot be reached, and it is
    /// completed later.
    pub(crate) fn change_definition(&self, namespace: &str, command: DocBuf) -> Result<Replies> {
        let guard = self.lock_definition(namespace)?;
        let done = guard.held_while(|| self.change_definition_locked(namespace, command, &guard));
        if done.as_ref().err().is_some_and(may_succeed_later) {
            guard.leave();
        }
        done
    }

    fn change_definition_locked(&self, namespace: &str, command: DocBuf, guard: &Guard<'_>) -> Result<Replies> {
        self.finish_definition(namespace, guard)?;
        let dropped = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} was dropped meanwhile"));
        let table = self.tracked(namespace)?.ok_or_else(dropped)?;
        let parts = self.parts_of(&table)?;
        let requested = names_of_indexes(command.as_doc());
        let existing = self.indexes_of_parts(&table, &parts)?;
        let made = requested.iter().filter(|name| !existing.contains_key(*name)).cloned().collect();
        let change = Change { namespace, uuid: table.uuid.clone(), command, made };
        if fields::document(change.command.as_doc(), "index").is_some_and(|index| fields::is_true(index, "unique")) {
            // the documents of one shard may not allow it
            let tried = Change { command: change.command.clone().with("dryRun", true), made: Vec::new(), ..change };
            self.run_on_parts(&tried, guard)?;
            return self.decide_and_run(&Change { command: without_dry_run(tried.command), ..tried }, guard);
        }
        let is_there = |name: &String| existing.get(name).is_some_and(|count| *count == parts.len());
        if !requested.is_empty() && requested.iter().all(is_there) {
            return self.run_on_parts(&change, guard);
        }
        self.decide_and_run(&change, guard)
    }

    fn decide_and_run(&self, change: &Change<'_>, guard: &Guard<'_>) -> Result<Replies> {
        let binary = |bytes| ValueRef::Binary { subtype: 0, bytes };
        // another router completes it in another session
        let stored: DocBuf = change.command.as_doc().iter().filter(|(name, _)| !is_of_session(name)).collect();
        let document = DocBuf::new()
            .with("_id", change.namespace)
            .with("uuid", ValueRef::Binary { subtype: 4, bytes: &change.uuid })
            .with("command", binary(stored.as_bytes()))
            .with("made", &change.made.iter().map(String::as_str).collect::<ArrayBuf>());
        let decision = updates(CHANGES, &[replacement(&document).with("upsert", true)]);
        self.catalog().transaction([guard], &[decision], self.interrupt())?;
        let done = self.run_on_parts(change, guard);
        self.end_change(change, done, guard)
    }

    /// Completes the change of a definition that another router has left. Requires the lock of the definition.
    pub(crate) fn finish_definition(&self, namespace: &str, guard: &Guard<'_>) -> Result<()> {
        let Some(stored) = self.catalog().read_one(CHANGES, namespace.into(), self.interrupt())? else {
            return Ok(());
        };
        let change = Change::of(namespace, stored.as_doc())?;
        let done = match fields::is_true(stored.as_doc(), "undoing") {
            true => Err(Error::new(Code::INDEX_BUILD_ABORTED, "a shard has refused it")),
            false => self.run_on_parts(&change, guard),
        };
        match self.end_change(&change, done, guard) {
            Err(error) if may_succeed_later(&error) => Err(error),
            // it is as if it had not been begun
            _ => Ok(()),
        }
    }

    /// Forgets a change that is done; undoes one that a shard has refused.
    fn end_change(&self, change: &Change<'_>, done: Result<Replies>, guard: &Guard<'_>) -> Result<Replies> {
        let interrupt = self.router.within(FINISH_MAX);
        let id = DocBuf::new().with("_id", change.namespace);
        match done {
            Err(error) if may_succeed_later(&error) => return Err(error),
            Err(_) if !change.made.is_empty() => {
                let set = DocBuf::new().with("$set", &DocBuf::new().with("undoing", true));
                let undoing = updates(CHANGES, &[DocBuf::new().with("q", &id).with("u", &set)]);
                self.catalog().transaction([guard], &[undoing], &interrupt)?;
                self.undo(change, guard)?;
            }
            _ => {}
        }
        self.catalog().transaction([guard], &[deletes(CHANGES, &id)], &interrupt)?;
        done
    }

    /// Drops the indexes that a change has made.
    fn undo(&self, change: &Change<'_>, guard: &Guard<'_>) -> Result<()> {
        let (_, name) = change.namespace.split_once('.').unwrap_or_default();
        for index in &change.made {
            let undone = Change {
                namespace: change.namespace,
                uuid: change.uuid.clone(),
                command: DocBuf::new().with("dropIndexes", name).with("index", index.as_str()),
                made: Vec::new(),
            };
            match self.run_on_parts(&undone, guard) {
                Err(error) if may_succeed_later(&error) => return Err(error),
                // the collection is gone, or nothing was made
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs a change where it has not run yet, as long as shards get parts of the collection.
    fn run_on_parts(&self, change: &Change<'_>, guard: &Guard<'_>) -> Result<Replies> {
        let (db, _) = change.namespace.split_once('.').unwrap_or_default();
        let mut asked = BTreeSet::new();
        let mut done = Vec::new();
        let mut had_nothing = None;
        self.with_routing(db, change.namespace, false, |routing| {
            let table = match routing {
                Routing::Sharded(table, _) if table.uuid == change.uuid => table,
                _ => {
                    let text = format!("{} was dropped meanwhile", change.namespace);
                    return Err(Error::new(Code::NAMESPACE_NOT_FOUND, text));
                }
            };
            loop {
                let mut left = self.parts_of(table)?;
                left.retain(|shard| !asked.contains(&shard.name));
                if left.is_empty() {
                    return Ok(());
                }
                let of_shard = |shard: Arc<Shard>| {
                    let command = guard.fenced(versioned(change.command.clone(), routing, &shard.name));
                    (shard, command)
                };
                let mut failed = None;
                for (shard, outcome) in on_each(db, left.into_iter().map(of_shard).collect(), self.interrupt()) {
                    match outcome {
                        Err(error) if !change.is_done(&error) => failed = failed.or(Some(error)),
                        outcome => {
                            asked.insert(shard.name.clone());
                            match outcome {
                                Ok(reply) => done.push((shard, reply)),
                                Err(error) => had_nothing = Some(error),
                            }
                        }
                    }
                }
                failed.map_or(Ok(()), Err)?;
            }
        })?;
        match had_nothing.filter(|_| done.is_empty()) {
            Some(error) => Err(error),
            None => Ok(done),
        }
    }

    /// Returns the shards that have a part of a collection: those with chunks, and those that had some or are to get one.
    fn parts_of(&self, table: &Table) -> Result<Vec<Arc<Shard>>> {
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let filter = DocBuf::new().with("name", name);
        let list = DocBuf::new().with("listCollections", 1i32).with("filter", &filter).with("nameOnly", true);
        let shards = self.catalog().refresh_shards(self.interrupt())?;
        let commands = shards.into_iter().map(|shard| (shard, list.clone())).collect();
        let mut parts = Vec::new();
        for (shard, listed) in on_each(db, commands, self.interrupt()) {
            let has_chunks = table.shards().any(|own| own == shard.name);
            if has_chunks || !first_batch(listed?.as_doc())?.is_empty() {
                parts.push(shard);
            }
        }
        Ok(parts)
    }

    /// Returns the names of indexes, and how many parts have one of the name.
    fn indexes_of_parts(&self, table: &Table, parts: &[Arc<Shard>]) -> Result<HashMap<String, usize>> {
        let (db, name) = table.namespace.split_once('.').unwrap_or_default();
        let list = DocBuf::new().with("listIndexes", name);
        let commands = parts.iter().map(|shard| (shard.clone(), list.clone())).collect();
        let mut indexes = HashMap::new();
        for (_, listed) in on_each(db, commands, self.interrupt()) {
            for index in first_batch(listed?.as_doc())? {
                let name = fields::string(index, "name").unwrap_or_default();
                *indexes.entry(name.to_owned()).or_default() += 1;
            }
        }
        Ok(indexes)
    }
}

/// Returns the names of the indexes that a command is to make.
fn names_of_indexes(command: Doc<'_>) -> Vec<String> {
    let indexes = fields::array(command, "indexes").into_iter().flat_map(|all| all.iter());
    let name = |index| match index {
        ValueRef::Document(index) => fields::string(index, "name").map(str::to_owned),
        _ => None,
    };
    indexes.filter_map(name).collect()
}

fn without_dry_run(command: DocBuf) -> DocBuf {
    fields::without(command.as_doc(), &["dryRun"])
}

/// Returns true for the fields of a command that are about its client.
fn is_of_session(name: &str) -> bool {
    name.starts_with('$') || matches!(name, "lsid" | "txnNumber" | "maxTimeMS" | "comment")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn locks_of_definitions_are_no_namespaces() {
        assert_eq!(collection_of_lock(&format!("{LOCK}db.definition of c")), Some("db.definition of c"));
        assert_eq!(collection_of_lock("db.definition of c"), None);
    }

    #[test]
    fn a_stored_change_is_read_again() {
        let command = doc("{createIndexes: 'c', indexes: [{name: 'a_1', key: {a: 1}}, {key: {b: 1}}]}");
        assert_eq!(names_of_indexes(command.as_doc()), ["a_1"]);
        let stored = DocBuf::new()
            .with("uuid", ValueRef::Binary { subtype: 4, bytes: &[7; 16] })
            .with("command", ValueRef::Binary { subtype: 0, bytes: command.as_bytes() })
            .with("made", &["a_1"].into_iter().collect::<ArrayBuf>());
        let change = Change::of("db.c", stored.as_doc()).unwrap();
        assert_eq!((change.name(), change.made.as_slice()), ("createIndexes", ["a_1".to_owned()].as_slice()));
        assert_eq!(change.command.as_bytes(), command.as_bytes());
        assert!(Change::of("db.c", fields::without(stored.as_doc(), &["command"]).as_doc()).is_err());
    }
}
