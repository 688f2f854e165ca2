//! Updates that may give a document another shard key, and upserts of documents whose shard key the filter does not say.
//!
//! In one transaction the shard of the document says what the update makes of it. If that belongs to the same shard, the shard updates it; else
//! it is deleted there and inserted on the other one. The transaction is the client's, or one of the router's own.
//!
//! U1: a statement that may be sent again has its outcome remembered by the shard that decides about the transaction, with the decision. U2: each
//! attempt begins on all shards, in a session that the statement has for all routers, with a greater number: that ends the attempt before, wherever
//! it is not decided, and finds the outcome if it is.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Error, Result, Routed};
use arbor_lang::Collation;
use arbor_protocol::generic::Generic;
use arbor_protocol::request::Numbered;
use arbor_session::{Intent, SessionId};
use uuid::Uuid;

use crate::catalog::{Routing, versioned};
use crate::first_of_order::sort_of;
use crate::read::is_descending;
use crate::rows::{Order, SORT_KEY};
use crate::shard::{Shard, error_of};
use crate::{Request, fields};

/// Asks a shard for the outcome of a `findAndModify` without the write.
const TENTATIVE: &str = "$_arborTentative";
/// Makes the session of a router's own transactions of a client's.
const OWN_SESSIONS: u128 = 0x5bd1_e995_9e37_79b9_7f4a_7c15_85eb_ca6b;
/// Attempts of all routers for one statement.
const LEVELS_MAX: i64 = 1000;
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
    /// Its number in the request.
    pub statement: i32,
    /// `new`, of a `findAndModify`.
    pub shows_new: Option<bool>,
    /// `fields`, of a `findAndModify`.
    pub shown: Option<Doc<'u>>,
}

/// The outcome of a statement that has changed something.
pub(crate) struct Done {
    /// `n`, without what was inserted for an update, `nModified` or `updatedExisting`, `upserted`, `value`.
    pub outcome: DocBuf,
    /// By an earlier request of the same number.
    pub is_of_before: bool,
}

/// Memory of the shards about a statement.
enum Recalled {
    Nothing,
    Done(DocBuf),
    /// The session has gone on to a greater number.
    TooOld(String),
}

/// A document before and after its update. Before it was inserted there is none.
struct Updated {
    before: Option<DocBuf>,
    after: DocBuf,
    /// The one of both that the client sees, with the fields that it sees. None: all of them.
    shown: Option<DocBuf>,
}

impl UpdateOfOne<'_> {
    fn outcome(&self, updated: &Updated) -> DocBuf {
        let before = updated.before.as_ref();
        let Some(shows_new) = self.shows_new else {
            let is_modified = before.is_some_and(|before| before.as_bytes() != updated.after.as_bytes());
            let doc = DocBuf::new().with("kind", "update").with("n", i64::from(before.is_some()));
            return with_upserted(doc.with("nModified", i64::from(is_modified)), updated);
        };
        let doc = DocBuf::new().with("kind", "findAndModify").with("n", 1i64);
        let doc = with_upserted(doc.with("updatedExisting", before.is_some()), updated);
        let whole = if shows_new { Some(&updated.after) } else { before };
        match whole.map(|whole| updated.shown.as_ref().unwrap_or(whole)) {
            Some(value) => doc.with("value", value),
            None => doc,
        }
    }
}

fn with_upserted(doc: DocBuf, updated: &Updated) -> DocBuf {
    match updated.before {
        Some(_) => doc,
        None => doc.with("upserted", updated.after.get("_id").unwrap_or(ValueRef::Null)),
    }
}

/// Returns the session of the transactions of all routers for one statement.
fn session_for(client: &Uuid, number: i64, statement: i32) -> Uuid {
    let of_statement = u128::from(number as u64) << 32 | u128::from(statement as u32);
    Uuid::from_u128(client.as_u128() ^ OWN_SESSIONS ^ of_statement)
}

/// Returns a number for an attempt that comes after those of the levels below, and that no other one of this router has now.
fn next_number(level: i64) -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    level << 20 | LAST.fetch_add(1, Ordering::Relaxed) & 0xf_ffff
}

/// A transaction on its way.
struct InTransaction<'r> {
    request: Request<'r>,
    generic: Generic<'r>,
    /// `lsid` and the number.
    fields: DocBuf,
    /// Its number, if it is the router's own.
    own: Option<i64>,
    begun: Cell<bool>,
}

impl Request<'_> {
    /// Runs an update on the first document that matches, if one does. Errors: it is stale, or others change the document all the time.
    pub(crate) fn update_one_and_move(&self, routing: &Routing, update: &UpdateOfOne<'_>) -> Result<Option<Done>> {
        let done = |updated: Updated| Done { outcome: update.outcome(&updated), is_of_before: false };
        if self.routed.generic.is_in_transaction() {
            return Ok(self.transaction_for(None).run(routing, update)?.map(done));
        }
        let client = self.routed.generic.session.zip(self.routed.generic.numbered);
        let (mut attempts, mut level) = (0, 0);
        loop {
            level += 1;
            let (own, recalled) = match client {
                Some((session, numbered)) => {
                    let session = session_for(&session.id, numbered.number, update.statement);
                    let own = self.transaction_for(Some((session, next_number(level))));
                    let recalled = own.recall(update);
                    // another attempt has this number, or a greater one
                    if recalled.as_ref().err().is_some_and(is_number_in_use) && level < LEVELS_MAX {
                        let _ended_anyway = own.end("abortTransaction");
                        self.interrupt().check()?;
                        continue;
                    }
                    (own, recalled)
                }
                None => (self.transaction_for(Some((Uuid::new_v4(), 1))), Ok(Recalled::Nothing)),
            };
            let ran = match recalled {
                Ok(Recalled::Nothing) => own.run(routing, update).and_then(|updated| {
                    let done = updated.map(done);
                    if let (Some(done), true) = (&done, client.is_some()) {
                        own.remember(update, &done.outcome)?;
                    }
                    own.end("commitTransaction").map(|()| done)
                }),
                Ok(known) => {
                    let _ended_anyway = own.end("abortTransaction");
                    return match known {
                        Recalled::TooOld(text) => Err(Error::new(Code::TRANSACTION_TOO_OLD, text)),
                        Recalled::Done(outcome) => Ok(Some(Done { outcome, is_of_before: true })),
                        Recalled::Nothing => Ok(None),
                    };
                }
                Err(error) => Err(error),
            };
            let error = match ran {
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
            // two routers that end each other's attempts are not to wait for equally long
            std::thread::sleep((PAUSE * 2u32.pow(attempts)).mul_f64(0.5 + rand::random::<f64>()));
            attempts += 1;
        }
    }

    fn transaction_for(&self, own: Option<(Uuid, i64)>) -> InTransaction<'_> {
        let mut shared = DocBuf::new();
        let mut generic = *self.routed.generic;
        match &own {
            Some((id, number)) => {
                let session = DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: id.as_bytes() });
                shared.append("lsid", &session).append("txnNumber", *number).append("autocommit", false);
                generic.session = Some(SessionId { id: *id, user: [0; 32] });
            }
            None => fields::copy(self.body(), &["lsid", "txnNumber", "autocommit"], &mut shared),
        }
        fields::copy(self.body(), &["$audit", "maxTimeMS"], &mut shared);
        let own = own.map(|(_, number)| number);
        InTransaction { request: *self, generic, fields: shared, own, begun: Cell::new(false) }
    }
}

/// No client asks for the end of one of the router's own again.
impl Drop for InTransaction<'_> {
    fn drop(&mut self) {
        if let (Some(session), Some(number)) = (self.generic.session, self.own) {
            self.request.router.transactions.forget(session, number);
        }
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
        let begins = is_first && (self.own.is_some() || fields::is_true(self.request.body(), "startTransaction"));
        let mut body: DocBuf = statement.as_doc().iter().chain(self.fields.as_doc().iter()).collect();
        if begins {
            body.append("startTransaction", true);
            fields::copy(self.request.body(), &["readConcern"], &mut body);
        }
        let mut generic = self.generic;
        if let Some(number) = self.own {
            let intent = match name {
                "commitTransaction" => Intent::Commit,
                "abortTransaction" => Intent::Abort,
                _ if begins => Intent::Begin,
                _ => Intent::Continue,
            };
            generic.numbered = Some(Numbered { number, intent });
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
        if self.own.is_some() && !self.begun.get() {
            return Ok(());
        }
        let mut command = DocBuf::new().with(name, 1i32);
        fields::copy(self.request.body(), &["writeConcern"], &mut command);
        self.with(name, command, |request, _| request.end_transaction()).map(drop)
    }

    fn memory(&self, update: &UpdateOfOne<'_>) -> Result<DocBuf> {
        let generic = self.request.routed.generic;
        let none = || Error::new(Code::INTERNAL_ERROR, "a statement without a number is not remembered");
        let (session, numbered) = generic.session.zip(generic.numbered).ok_or_else(none)?;
        let session = [session.id.as_bytes(), &session.user[..]].concat();
        Ok(DocBuf::new()
            .with("_shardsvrStatement", 1i32)
            .with("session", ValueRef::Binary { subtype: 0, bytes: &session })
            .with("number", numbered.number)
            .with("statement", update.statement))
    }

    /// Begins the transaction on all shards, and asks what the statement has done before.
    fn recall(&self, update: &UpdateOfOne<'_>) -> Result<Recalled> {
        let shards = self.request.catalog().newest_shards(self.request.interrupt())?;
        let replies = self.with("find", self.memory(update)?, |request, plain| {
            let commands = shards.into_iter().map(|shard| (shard, plain.clone())).collect();
            request.on_all(request.routed.db, commands)
        })?;
        let mut recalled = Recalled::Nothing;
        for (shard, reply) in &replies {
            match (fields::document(reply.as_doc(), "done"), fields::string(reply.as_doc(), "tooOld")) {
                (Some(done), _) => {
                    // a shard that cannot be reached hears of it later
                    let _ = self.request.router.carry_out_decisions(shard, self.request.interrupt());
                    return Ok(Recalled::Done(done.to_buf()));
                }
                (None, Some(text)) => recalled = Recalled::TooOld(text.to_owned()),
                (None, None) => {}
            }
        }
        Ok(recalled)
    }

    /// Has the shard that decides about the transaction remember what it does.
    fn remember(&self, update: &UpdateOfOne<'_>, outcome: &DocBuf) -> Result<()> {
        let memory = self.memory(update)?.with("done", outcome).with("new", update.shows_new == Some(true));
        self.with("find", memory, |request, plain| {
            let none = || Error::new(Code::INTERNAL_ERROR, "no shard has a part of the transaction");
            let name = request.router.transactions.recovery_shard(request.routed).ok_or_else(none)?;
            let shard = request.catalog().shard(&name, request.interrupt())?;
            request.on_one(&shard, request.routed.db, plain, &[]).map(drop)
        })
    }

    fn run(&self, routing: &Routing, update: &UpdateOfOne<'_>) -> Result<Option<Updated>> {
        let Routing::Sharded(table, _) = routing else { unreachable!("the collection is sharded") };
        let collection = self.request.collection()?;
        let context = self.request.context(routing.collation(fields::document(update.options.as_doc(), "collation")));
        let (names, _) = table.shards_for_filter(update.query, &context);
        let shards = self.request.shards_named(&names)?;
        if let Some((shard, before)) = self.first(routing, &shards, update, context.collation)? {
            let before = before.as_doc();
            let id = DocBuf::new().with("_id", before.get("_id").unwrap_or(ValueRef::Null));
            // a positional operator needs the whole condition, not only the id
            let both: ArrayBuf = [update.query, id.as_doc()].into_iter().collect();
            let query = DocBuf::new().with("$and", &both);
            let modify = self.modification(collection, query.as_doc(), update);
            let shown = match (update.shown, update.shows_new) {
                (Some(shown), Some(true)) => {
                    let modify = modify.clone().with("fields", shown).with(TENTATIVE, true);
                    Some(self.on(routing, &shard, "findAndModify", modify)?)
                }
                (Some(shown), _) => {
                    let mut find = DocBuf::new().with("find", collection).with("filter", &query).with("limit", 1i32);
                    find.append("singleBatch", true).append("projection", shown);
                    fields::copy(update.options.as_doc(), &["collation", "let"], &mut find);
                    Some(self.on(routing, &shard, "find", find)?)
                }
                (None, _) => None,
            };
            let shown = shown.map(|reply| shown_of(reply.as_doc())).transpose()?;
            let tried = self.on(routing, &shard, "findAndModify", modify.clone().with(TENTATIVE, true))?;
            let after = fields::document(tried.as_doc(), "value").ok_or_else(changed_meanwhile)?;
            let key = table.key_of_document(after)?;
            let changed = key != table.key_of_document(before)?;
            if changed && self.own.is_some() && self.request.routed.generic.numbered.is_none() {
                let text =
                    "Must run update to shard key field in a multi-statement transaction or with retryWrites: true.";
                return Err(Error::new(Code::ILLEGAL_OPERATION, text));
            }
            if table.shard_of(&key) != shard.name {
                self.delete(routing, &shard, &id)?;
                self.insert(routing, after, update)?;
                return Ok(Some(Updated { before: Some(before.to_buf()), after: after.to_buf(), shown }));
            }
            let modified = self.on(routing, &shard, "findAndModify", modify)?;
            let after = fields::document(modified.as_doc(), "value").ok_or_else(changed_meanwhile)?;
            // the time of the update may be part of the key
            if table.shard_of(&table.key_of_document(after)?) != shard.name {
                return Err(changed_meanwhile());
            }
            return Ok(Some(Updated { before: Some(before.to_buf()), after: after.to_buf(), shown }));
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
        let shown = match (update.shown, update.shows_new) {
            (Some(shown), Some(true)) => {
                let id = DocBuf::new().with("_id", after.get("_id").unwrap_or(ValueRef::Null));
                let find = DocBuf::new().with("find", collection).with("filter", &id).with("limit", 1i32);
                let find = find.with("singleBatch", true).with("projection", shown);
                let key = table.key_of_document(after)?;
                let target = self.request.catalog().shard(table.shard_of(&key), self.request.interrupt())?;
                Some(shown_of(self.on(routing, &target, "find", find)?.as_doc())?)
            }
            _ => None,
        };
        Ok(Some(Updated { before: None, after: after.to_buf(), shown }))
    }

    /// Returns the document that an update is about: the first in its order, or any, with its shard.
    fn first(
        &self,
        routing: &Routing,
        shards: &[Arc<Shard>],
        update: &UpdateOfOne<'_>,
        collation: Collation,
    ) -> Result<Option<(Arc<Shard>, DocBuf)>> {
        let options = update.options.as_doc();
        let mut find = DocBuf::new().with("find", self.request.collection()?).with("filter", update.query);
        find.append("limit", 1i32).append("singleBatch", true);
        fields::copy(options, &["collation", "sort", "hint", "let"], &mut find);
        let sort = sort_of(options);
        if sort.is_some() {
            let key = DocBuf::new().with("$meta", "sortKey");
            find.append("projection", &DocBuf::new().with(SORT_KEY, &key));
        }
        let descending = sort.iter().flat_map(|sort| sort.iter()).map(|(_, direction)| is_descending(direction));
        let order = Order { descending: descending.collect(), collation };
        let mut first: Option<(Vec<u8>, Arc<Shard>, DocBuf)> = None;
        for shard in shards {
            let found = self.on(routing, shard, "find", find.clone())?;
            let batch = fields::document(found.as_doc(), "cursor").and_then(|own| fields::array(own, "firstBatch"));
            let Some(ValueRef::Document(found)) = batch.and_then(|batch| batch.get(0)) else { continue };
            let key = order.key(found);
            if first.as_ref().is_none_or(|(least, ..)| key < *least) {
                first = Some((key, shard.clone(), fields::without(found, &[SORT_KEY])));
            }
            if sort.is_none() {
                break;
            }
        }
        Ok(first.map(|(_, shard, document)| (shard, document)))
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

/// Returns true for the errors of a transaction that cannot begin because one of its number, or a greater one, has.
fn is_number_in_use(error: &Error) -> bool {
    matches!(error.code, Code::TRANSACTION_TOO_OLD | Code(50911))
}

/// Returns the document of a reply.
fn shown_of(reply: Doc<'_>) -> Result<DocBuf> {
    let batch = fields::document(reply, "cursor").and_then(|cursor| fields::array(cursor, "firstBatch"));
    let found = match batch {
        Some(batch) => batch.get(0),
        None => reply.get("value"),
    };
    match found {
        Some(ValueRef::Document(found)) => Ok(found.to_buf()),
        _ => Err(changed_meanwhile()),
    }
}

fn changed_meanwhile() -> Error {
    Error::new(Code::WRITE_CONFLICT, "the document was changed while its shard key was updated")
}
