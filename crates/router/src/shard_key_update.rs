//! Updates that may give a document another shard key, and upserts of documents whose shard key the filter does not say.
//!
//! In one transaction the shard of the document says what the update makes of it. If that belongs to the same shard, the shard updates it; else
//! it is deleted there and inserted on the other one. The transaction is the client's, or one of the router's own.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result, Routed};
use arbor_protocol::generic::Generic;
use arbor_protocol::request::Numbered;
use arbor_session::{Intent, SessionId};
use uuid::Uuid;

use crate::catalog::{Routing, versioned};
use crate::shard::{Shard, error_of};
use crate::{Request, fields};

/// Asks a shard for the outcome of a `findAndModify` without the write.
const TENTATIVE: &str = "$_arborTentative";
/// Attempts of a transaction that others have ended.
const ATTEMPTS: u32 = 10;
/// Pause after the first one; doubled after each.
const PAUSE: Duration = Duration::from_millis(5);

/// An update of at most one document.
pub(crate) struct UpdateOfOne<'u> {
    pub query: Doc<'u>,
    pub update: ValueRef<'u>,
    pub upsert: bool,
    /// Other fields of the statement, as `findAndModify` has them.
    pub options: DocBuf,
}

/// A document before and after its update. Before it was inserted there is none.
pub(crate) struct Updated {
    pub before: Option<DocBuf>,
    pub after: DocBuf,
}

/// A transaction on its way.
struct InTransaction<'r> {
    request: Request<'r>,
    generic: Generic<'r>,
    /// `lsid` and the number.
    fields: DocBuf,
    is_own: bool,
    begun: Cell<bool>,
}

impl Request<'_> {
    /// Runs an update on the first document that matches, if one does. Errors: it is stale, or others change the document all the time.
    pub(crate) fn update_one_and_move(&self, routing: &Routing, update: &UpdateOfOne<'_>) -> Result<Option<Updated>> {
        if self.routed.generic.is_in_transaction() {
            return self.transaction_for(None).run(routing, update);
        }
        let mut attempts = 0;
        loop {
            let own = self.transaction_for(Some(Uuid::new_v4()));
            let done = own.run(routing, update).and_then(|done| own.end("commitTransaction").map(|()| done));
            let error = match done {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let _ended_anyway = own.end("abortTransaction");
            let again =
                matches!(error.code, Code::WRITE_CONFLICT | Code::NO_SUCH_TRANSACTION | Code::MIGRATION_CONFLICT);
            if !again || attempts == ATTEMPTS {
                return Err(error);
            }
            self.interrupt().check()?;
            std::thread::sleep(PAUSE * 2u32.pow(attempts));
            attempts += 1;
        }
    }

    fn transaction_for(&self, own: Option<Uuid>) -> InTransaction<'_> {
        let mut shared = DocBuf::new();
        let mut generic = *self.routed.generic;
        match &own {
            Some(id) => {
                let session = DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: id.as_bytes() });
                shared.append("lsid", &session).append("txnNumber", 1i64).append("autocommit", false);
                generic.session = Some(SessionId { id: *id, user: [0; 32] });
            }
            None => fields::copy(self.body(), &["lsid", "txnNumber", "autocommit"], &mut shared),
        }
        fields::copy(self.body(), &["$audit", "maxTimeMS"], &mut shared);
        InTransaction { request: *self, generic, fields: shared, is_own: own.is_some(), begun: Cell::new(false) }
    }
}

impl InTransaction<'_> {
    /// Runs a statement as a part of the transaction.
    fn with<T>(
        &self,
        name: &str,
        statement: DocBuf,
        work: impl FnOnce(&Request<'_>, DocBuf) -> Result<T>,
    ) -> Result<T> {
        let is_first = !self.begun.replace(true);
        let begins = is_first && (self.is_own || fields::is_true(self.request.body(), "startTransaction"));
        let mut body: DocBuf = statement.as_doc().iter().chain(self.fields.as_doc().iter()).collect();
        if begins {
            body.append("startTransaction", true);
            fields::copy(self.request.body(), &["readConcern"], &mut body);
        }
        let mut generic = self.generic;
        if self.is_own {
            let intent = match name {
                "commitTransaction" => Intent::Commit,
                "abortTransaction" => Intent::Abort,
                _ if begins => Intent::Begin,
                _ => Intent::Continue,
            };
            generic.numbered = Some(Numbered { number: 1, intent });
        }
        let info = arbor_command::command_info(name).unwrap_or_else(|| unreachable!("{name} is a command"));
        let outer = self.request.routed;
        let (user, interrupt, db) = (outer.user, outer.interrupt, outer.db);
        let routed = Routed { info, db, body: body.as_doc(), sequences: &[], generic: &generic, user, interrupt };
        let request = Request { router: self.request.router, server: self.request.server, routed: &routed };
        // the shard's first statement of the transaction gets the concern of the transaction
        let plain = fields::without(request.plain().as_doc(), &["readConcern"]);
        work(&request, plain)
    }

    fn on(&self, routing: &Routing, shard: &Arc<Shard>, name: &str, statement: DocBuf) -> Result<DocBuf> {
        let reply = self.with(name, statement, |request, plain| {
            request.on_one(shard, request.routed.db, versioned(plain, routing, &shard.name), &[])
        })?;
        match fields::array(reply.as_doc(), "writeErrors").and_then(|errors| errors.get(0)) {
            Some(ValueRef::Document(error)) => Err(error_of(error)),
            _ => Ok(reply),
        }
    }

    fn end(&self, name: &str) -> Result<()> {
        if self.is_own && !self.begun.get() {
            return Ok(());
        }
        let mut command = DocBuf::new().with(name, 1i32);
        fields::copy(self.request.body(), &["writeConcern"], &mut command);
        self.with(name, command, |request, _| request.end_transaction()).map(drop)
    }

    fn run(&self, routing: &Routing, update: &UpdateOfOne<'_>) -> Result<Option<Updated>> {
        let Routing::Sharded(table, _) = routing else { unreachable!("the collection is sharded") };
        let collection = self.request.collection()?;
        let context = self.request.context(routing.collation(fields::document(update.options.as_doc(), "collation")));
        let (names, _) = table.shards_for_filter(update.query, &context);
        for shard in self.request.shards_named(&names)? {
            let mut find = DocBuf::new().with("find", collection).with("filter", update.query).with("limit", 1i32);
            find.append("singleBatch", true);
            fields::copy(update.options.as_doc(), &["collation", "sort", "hint", "let"], &mut find);
            let found = self.on(routing, &shard, "find", find)?;
            let batch = fields::document(found.as_doc(), "cursor").and_then(|own| fields::array(own, "firstBatch"));
            let Some(ValueRef::Document(before)) = batch.and_then(|batch| batch.get(0)) else { continue };
            let id = DocBuf::new().with("_id", before.get("_id").unwrap_or(ValueRef::Null));
            // a positional operator needs the whole condition, not only the id
            let both: ArrayBuf = [update.query, id.as_doc()].into_iter().collect();
            let query = DocBuf::new().with("$and", &both);
            let modify = self.modification(collection, query.as_doc(), update);
            let tried = self.on(routing, &shard, "findAndModify", modify.clone().with(TENTATIVE, true))?;
            let after = fields::document(tried.as_doc(), "value").ok_or_else(changed_meanwhile)?;
            let key = table.key_of_document(after)?;
            let changed = key != table.key_of_document(before)?;
            if changed && self.is_own && self.request.routed.generic.numbered.is_none() {
                let text =
                    "Must run update to shard key field in a multi-statement transaction or with retryWrites: true.";
                return Err(Error::new(Code::ILLEGAL_OPERATION, text));
            }
            if table.shard_of(&key) != shard.name {
                self.delete(routing, &shard, &id)?;
                self.insert(routing, after, update)?;
                return Ok(Some(Updated { before: Some(before.to_buf()), after: after.to_buf() }));
            }
            let modified = self.on(routing, &shard, "findAndModify", modify)?;
            let after = fields::document(modified.as_doc(), "value").ok_or_else(changed_meanwhile)?;
            // the time of the update may be part of the key
            if table.shard_of(&table.key_of_document(after)?) != shard.name {
                return Err(changed_meanwhile());
            }
            return Ok(Some(Updated { before: Some(before.to_buf()), after: after.to_buf() }));
        }
        if !update.upsert {
            return Ok(None);
        }
        // any shard knows what the document is; then it goes where its key belongs
        let any = self.request.catalog().shard(table.shards().next().unwrap_or_default(), self.request.interrupt())?;
        let modify = self.modification(collection, update.query, update).with("upsert", true).with(TENTATIVE, true);
        let tried = self.on(routing, &any, "findAndModify", modify)?;
        let outcome = fields::document(tried.as_doc(), "lastErrorObject").unwrap_or(Doc::empty());
        let Some(after) = fields::document(tried.as_doc(), "value").filter(|_| outcome.get("upserted").is_some())
        else {
            return Err(Error::new(Code::WRITE_CONFLICT, "a document was inserted that the upsert finds"));
        };
        self.insert(routing, after, update)?;
        Ok(Some(Updated { before: None, after: after.to_buf() }))
    }

    /// Returns the statement that updates the document that a query finds.
    fn modification(&self, collection: &str, query: Doc<'_>, update: &UpdateOfOne<'_>) -> DocBuf {
        let mut modify = DocBuf::new().with("findAndModify", collection).with("query", query);
        modify.append("update", update.update).append("new", true);
        let options = ["collation", "arrayFilters", "let", "bypassDocumentValidation"];
        fields::copy(update.options.as_doc(), &options, &mut modify);
        modify
    }

    fn delete(&self, routing: &Routing, shard: &Arc<Shard>, id: &DocBuf) -> Result<()> {
        let mut deletes = ArrayBuf::new();
        deletes.push(&DocBuf::new().with("q", id).with("limit", 1i32));
        let delete = DocBuf::new().with("delete", self.request.collection()?).with("deletes", &deletes);
        let deleted = self.on(routing, shard, "delete", delete)?;
        if fields::int(deleted.as_doc(), "n") == 1 { Ok(()) } else { Err(changed_meanwhile()) }
    }

    /// Inserts a document where its key belongs.
    fn insert(&self, routing: &Routing, document: Doc<'_>, update: &UpdateOfOne<'_>) -> Result<()> {
        let Routing::Sharded(table, _) = routing else { unreachable!("the collection is sharded") };
        let mut documents = ArrayBuf::new();
        documents.push(document);
        let mut insert = DocBuf::new().with("insert", self.request.collection()?).with("documents", &documents);
        fields::copy(update.options.as_doc(), &["bypassDocumentValidation"], &mut insert);
        let key = table.key_of_document(document)?;
        let target = self.request.catalog().shard(table.shard_of(&key), self.request.interrupt())?;
        self.on(routing, &target, "insert", insert).map(drop)
    }
}

fn changed_meanwhile() -> Error {
    Error::new(Code::WRITE_CONFLICT, "the document was changed while its shard key was updated")
}
