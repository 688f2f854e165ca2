//! Documents of the config servers, read and written with majority.
//!
//! O1: what says who owns what, and is to own it ([`OWNED`]), is updated and deleted in transactions alone, which prove that the locks are held (T3 of
//! [`transaction`](super::transaction)); but for the chunks of a collection that is no more. O2: a write whose reply may be lost is repeated here.
//! It has a transaction number, by which the config servers know it the second time, if each of its statements is of one document; the others
//! find nothing more to do then.

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_command::analysis::{ConfigCollections, expiring_index};
use arbor_command::{Error, Result};
use arbor_query::Interrupt;
use uuid::Uuid;

use super::Catalog;
use super::transaction::repeated;
use crate::fields;
use crate::shard::{error_of, is_lost};

const OWNED: [&str; 5] = ["chunks", "collections", "databases", "shards", "tags"];

pub(crate) fn updates(collection: &str, statements: &[DocBuf]) -> DocBuf {
    DocBuf::new().with("update", collection).with("updates", &statements.iter().collect::<ArrayBuf>())
}

/// Returns the command that deletes all documents that a filter finds.
pub(crate) fn deletes(collection: &str, filter: &DocBuf) -> DocBuf {
    let statement = DocBuf::new().with("q", filter).with("limit", 0i32);
    DocBuf::new().with("delete", collection).with("deletes", &std::iter::once(&statement).collect::<ArrayBuf>())
}

pub(crate) fn inserts(collection: &str, documents: &[DocBuf]) -> DocBuf {
    DocBuf::new().with("insert", collection).with("documents", &documents.iter().collect::<ArrayBuf>())
}

/// A session of the router's own, for one write at a time.
pub(super) struct Session {
    id: Uuid,
    last_write: i64,
}

pub(super) fn lsid(id: Uuid) -> DocBuf {
    DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: id.as_bytes() })
}

/// Returns true for commands that may have a transaction number.
fn is_of_single_documents(command: Doc<'_>) -> bool {
    let statements = fields::array(command, "updates");
    let mut statements = statements.iter().flat_map(|all| all.iter());
    let is_multi = |statement| matches!(statement, ValueRef::Document(own) if fields::is_true(own, "multi"));
    match command.first().map_or("", |(name, _)| name) {
        "insert" => true,
        "update" => !statements.any(is_multi),
        _ => false,
    }
}

fn needs_lock(command: Doc<'_>) -> bool {
    matches!(command.first(), Some(("update" | "delete", ValueRef::String(name))) if OWNED.contains(&name))
}

impl Catalog {
    /// Reads all documents of a collection of the config servers.
    pub(crate) fn read(
        &self,
        collection: &str,
        filter: &DocBuf,
        sort: &str,
        interrupt: &Interrupt,
    ) -> Result<Vec<DocBuf>> {
        let mut documents = Vec::new();
        self.each(collection, filter, sort, interrupt, |doc| {
            documents.push(doc.to_buf());
            Ok(())
        })?;
        Ok(documents)
    }

    pub(super) fn each(
        &self,
        collection: &str,
        filter: &DocBuf,
        sort: &str,
        interrupt: &Interrupt,
        take: impl FnMut(Doc<'_>) -> Result<()>,
    ) -> Result<()> {
        let find = DocBuf::new().with("find", collection).with("filter", filter);
        self.each_of("config", find.with("sort", &DocBuf::new().with(sort, 1i32)), interrupt, take)
    }

    /// Reads the documents of a `find` on the config servers.
    fn each_of(
        &self,
        db: &str,
        find: DocBuf,
        interrupt: &Interrupt,
        mut take: impl FnMut(Doc<'_>) -> Result<()>,
    ) -> Result<()> {
        let collection = fields::string(find.as_doc(), "find").unwrap_or_default().to_owned();
        let find = find.with("readConcern", &DocBuf::new().with("level", "majority"));
        let mut reply = self.config.call(db, &find, interrupt)?;
        loop {
            let Some(cursor) = fields::document(reply.as_doc(), "cursor") else {
                return Err(Error::new(Code::INTERNAL_ERROR, "the config servers sent a reply without a cursor"));
            };
            let batch = fields::array(cursor, "firstBatch").or_else(|| fields::array(cursor, "nextBatch"));
            for value in batch.iter().flat_map(|batch| batch.iter()) {
                if let ValueRef::Document(doc) = value {
                    take(doc)?;
                }
            }
            let id = fields::int(cursor, "id");
            if id == 0 {
                *self.lost.lock() = None;
                return Ok(());
            }
            let more = DocBuf::new().with("getMore", id).with("collection", collection.as_str());
            reply = self.config.call(db, &more, interrupt)?;
        }
    }

    /// Reads users or roles.
    pub(crate) fn accounts(
        &self,
        collection: &str,
        filter: Doc<'_>,
        limit: Option<u64>,
        interrupt: &Interrupt,
    ) -> Result<Vec<DocBuf>> {
        let mut find = DocBuf::new().with("find", collection).with("filter", filter);
        if let Some(limit) = limit {
            find.append("limit", limit as i64);
        }
        let mut documents = Vec::new();
        self.each_of("admin", find, interrupt, |doc| {
            documents.push(doc.to_buf());
            Ok(())
        })?;
        Ok(documents)
    }

    pub(crate) fn read_one(&self, collection: &str, id: ValueRef<'_>, interrupt: &Interrupt) -> Result<Option<DocBuf>> {
        let filter = DocBuf::new().with("_id", id);
        Ok(self.read(collection, &filter, "_id", interrupt)?.into_iter().next())
    }

    /// Returns the last chunk of a collection whose lower bound is at (`$lte`) or before (`$lt`) a bound.
    pub(crate) fn last_chunk(
        &self,
        uuid: &[u8],
        operator: &str,
        bound: Doc<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<DocBuf>> {
        let uuid = ValueRef::Binary { subtype: 4, bytes: uuid };
        let filter = DocBuf::new().with("uuid", uuid).with("min", &DocBuf::new().with(operator, bound));
        let find = DocBuf::new().with("find", "chunks").with("filter", &filter);
        let find = find.with("sort", &DocBuf::new().with("min", -1i32)).with("limit", 1i32);
        self.first(find, interrupt)
    }

    /// Returns a chunk that a shard has of a collection, other than the one with an `_id`.
    pub(crate) fn other_chunk(
        &self,
        uuid: &[u8],
        shard: &str,
        id: ValueRef<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<DocBuf>> {
        let uuid = ValueRef::Binary { subtype: 4, bytes: uuid };
        let filter = DocBuf::new().with("uuid", uuid).with("shard", shard).with("_id", &DocBuf::new().with("$ne", id));
        self.first(DocBuf::new().with("find", "chunks").with("filter", &filter).with("limit", 1i32), interrupt)
    }

    /// Returns the time of a state of the config servers in which there is a lock, with its holder. None: it is not there any more.
    pub(crate) fn time_of_lock(&self, id: &DocBuf, interrupt: &Interrupt) -> Result<Option<Timestamp>> {
        let find = DocBuf::new().with("find", "locks").with("filter", id);
        let find = find.with("readConcern", &DocBuf::new().with("level", "snapshot"));
        let reply = self.config.call("config", &find, interrupt)?;
        let cursor = fields::document(reply.as_doc(), "cursor").unwrap_or(Doc::empty());
        let is_there = fields::array(cursor, "firstBatch").is_some_and(|batch| batch.get(0).is_some());
        match cursor.get("atClusterTime") {
            Some(ValueRef::Timestamp(time)) => Ok(is_there.then_some(time)),
            _ => Err(Error::new(Code::INTERNAL_ERROR, "the config servers sent a snapshot without its time")),
        }
    }

    fn first(&self, find: DocBuf, interrupt: &Interrupt) -> Result<Option<DocBuf>> {
        let mut found = None;
        self.each_of("config", find, interrupt, |doc| {
            found = Some(doc.to_buf());
            Ok(())
        })?;
        Ok(found)
    }

    /// Runs a command on the config servers with majority.
    pub(crate) fn write(&self, command: DocBuf, interrupt: &Interrupt) -> Result<DocBuf> {
        assert!(!needs_lock(command.as_doc()), "only the holder of a lock changes who owns what");
        self.write_any(command, interrupt)
    }

    fn write_any(&self, command: DocBuf, interrupt: &Interrupt) -> Result<DocBuf> {
        let concern = DocBuf::new().with("w", "majority").with("wtimeout", 60_000i32);
        let mut command = command.with("writeConcern", &concern);
        let free = self.sessions.lock().pop();
        let mut session = free.unwrap_or_else(|| Session { id: Uuid::new_v4(), last_write: 0 });
        if is_of_single_documents(command.as_doc()) {
            session.last_write += 1;
            command.append("lsid", &lsid(session.id)).append("txnNumber", session.last_write);
        }
        let outcome = repeated(interrupt, is_lost, |limited| self.run("config", &command, limited));
        if outcome.as_ref().err().is_none_or(|error| error.code == Code::DUPLICATE_KEY) {
            // one that may still be running is not waited for by later writes
            self.sessions.lock().push(session);
        }
        outcome
    }

    /// Runs a command on the config servers. Errors: also those of its statements and of its write concern.
    pub(super) fn run(&self, db: &str, command: &DocBuf, interrupt: &Interrupt) -> Result<DocBuf> {
        let reply = self.config.call(db, command, interrupt)?;
        if let Some(error) = fields::array(reply.as_doc(), "writeErrors").and_then(|errors| errors.get(0))
            && let ValueRef::Document(error) = error
        {
            return Err(error_of(error));
        }
        match fields::document(reply.as_doc(), "writeConcernError") {
            Some(error) => Err(error_of(error)),
            None => Ok(reply),
        }
    }

    /// Replaces a document by its `_id`, or inserts it.
    pub(crate) fn put(&self, collection: &str, document: &DocBuf, interrupt: &Interrupt) -> Result<()> {
        let id: DocBuf = document.get("_id").into_iter().map(|id| ("_id", id)).collect();
        let statement = DocBuf::new().with("q", &id).with("u", document).with("upsert", true);
        self.write(updates(collection, &[statement]), interrupt).map(drop)
    }

    pub(crate) fn insert(&self, collection: &str, documents: &[DocBuf], interrupt: &Interrupt) -> Result<()> {
        for some in documents.chunks(10_000) {
            self.write(inserts(collection, some), interrupt)?;
        }
        Ok(())
    }

    pub(crate) fn delete(&self, collection: &str, filter: &DocBuf, interrupt: &Interrupt) -> Result<()> {
        self.write(deletes(collection, filter), interrupt).map(drop)
    }

    /// Deletes the chunks of a collection that is no more. No other one gets its UUID, so that needs no lock.
    pub(crate) fn delete_chunks(&self, uuid: ValueRef<'_>, interrupt: &Interrupt) -> Result<()> {
        self.write_any(deletes("chunks", &DocBuf::new().with("uuid", uuid)), interrupt).map(drop)
    }

    /// Reads the `_id` of all documents, where these are names, in order.
    pub(super) fn names(&self, collection: &str, filter: &DocBuf, interrupt: &Interrupt) -> Result<Vec<String>> {
        let read = self.read(collection, filter, "_id", interrupt)?;
        Ok(read.iter().filter_map(|one| fields::string(one.as_doc(), "_id")).map(str::to_owned).collect())
    }

    /// Returns the newest rows of `config.changelog` whose kind begins so, the newest first.
    pub(crate) fn last_events(&self, what: &str, limit: i64, interrupt: &Interrupt) -> Result<Vec<DocBuf>> {
        let pattern = format!("^{}", what.replace('.', "\\."));
        let of_kind = DocBuf::new().with("$regex", pattern.as_str());
        let find = DocBuf::new()
            .with("find", "changelog")
            .with("filter", &DocBuf::new().with("what", &of_kind))
            .with("sort", &DocBuf::new().with("$natural", -1i32))
            .with("limit", limit);
        let mut rows = Vec::new();
        self.each_of("config", find, interrupt, |row| {
            rows.push(row.to_buf());
            Ok(())
        })?;
        Ok(rows)
    }
}

impl ConfigCollections for Catalog {
    fn read(&self, collection: &str, filter: &DocBuf, interrupt: &Interrupt) -> Result<Vec<DocBuf>> {
        Catalog::read(self, collection, filter, "_id", interrupt)
    }

    fn put(&self, collection: &str, documents: &[DocBuf], interrupt: &Interrupt) -> Result<()> {
        for some in documents.chunks(1000) {
            let replace = |document: &DocBuf| {
                let id: DocBuf = document.get("_id").into_iter().map(|id| ("_id", id)).collect();
                DocBuf::new().with("q", &id).with("u", document).with("upsert", true)
            };
            self.write(updates(collection, &some.iter().map(replace).collect::<Vec<DocBuf>>()), interrupt)?;
        }
        Ok(())
    }

    fn expire_at(&self, collection: &str, field: &str, interrupt: &Interrupt) -> Result<()> {
        let indexes: ArrayBuf = std::iter::once(&expiring_index(field)).collect();
        self.write(DocBuf::new().with("createIndexes", collection).with("indexes", &indexes), interrupt).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use arbor_notation::doc;

    use super::*;

    #[test]
    fn who_owns_what_is_changed_with_a_lock_alone() {
        for (command, expect) in [
            ("{update: 'chunks', updates: []}", true),
            ("{delete: 'databases', deletes: []}", true),
            ("{insert: 'databases', documents: []}", false),
            ("{update: 'tags', updates: []}", true),
            ("{update: 'locks', updates: []}", false),
            ("{createIndexes: 'chunks', indexes: []}", false),
        ] {
            assert_eq!(needs_lock(doc(command).as_doc()), expect, "{command}");
        }
    }

    #[test]
    fn writes_of_single_documents_are_numbered() {
        let update = |multi: &str| {
            format!("{{update: 'c', updates: [{{q: {{}}, u: {{}}}}, {{q: {{}}, u: {{}}, multi: {multi}}}]}}")
        };
        for (command, expect) in [
            ("{insert: 'c', documents: [{_id: 1}, {_id: 2}]}".to_owned(), true),
            (update("false"), true),
            (update("true"), false),
            ("{delete: 'c', deletes: [{q: {}, limit: 0}]}".to_owned(), false),
            ("{createIndexes: 'c', indexes: []}".to_owned(), false),
        ] {
            assert_eq!(is_of_single_documents(doc(&command).as_doc()), expect, "{command}");
        }
    }
}
