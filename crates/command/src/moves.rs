//! A shard's side of chunk moves. A router copies a range from its donor to its recipient by the commands here:
//!
//! | command | on | does |
//! |---|---|---|
//! | `_shardsvrMoveIn` | recipient | hides the range, and waits until nothing of it is left there |
//! | `_shardsvrMoveOut` | donor | notes the move, follows the log from here on |
//! | `_shardsvrMoveClients` | both | how long operations of clients take |
//! | `_shardsvrMoveRead` | donor | the next documents of the range in the order of the shard key |
//! | `_shardsvrMoveChanges` | donor | documents that have changed since, by `_id`, as they are now; retryable writes |
//! | `_shardsvrMoveWrite` | recipient | takes them |
//! | `_shardsvrMoveClose` | donor | holds the writers of the range, once those that run have ended |
//! | `_shardsvrMoveOpen` | donor | lets them continue: the range stays |
//! | `_shardsvrTakeDocuments` | any | takes documents of a collection that is not sharded |
//! | `_shardsvrMoveRanges` | both | the ranges whose owner the router is to say |
//!
//! After the config servers know the new owner, `_shardsvrSetOwnership` ends the move on both.
//!
//! V1: while the range is on its way, documents of it are hidden on the recipient and change on the donor only. V2: rows of
//! `config.rangeDeletions` are there before the first document is, and until the last one is gone, so after a crash nothing of a
//! range that is not owned is shown, or stays. V3: a closed gate is noted durably (`critical`): a donor that ends meanwhile refuses
//! all requests of the collection until a router says who owns the range. V4: changes of moves are without notes: streams show
//! a document's changes once, on the shard that owned it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ObjectId, ValueRef};
use arbor_lang::{Context, Filter, KeyRanges, shard_key_of};
use arbor_oplog::events;
use arbor_query::{Interrupt, Sharded as _, shard_key_spans};
use arbor_repl::not_primary;
use arbor_session::{Carried, SessionId};
use arbor_store::{
    Collection, Direction, FieldKind, Index, IndexCursor, Namespace, OpenTransaction, OrderCursor, RecordCursor,
    UpdateKind, capped_position, record,
};
use arbor_txn::{Durability, View};
use parking_lot::{Condvar, Mutex};

use crate::call::Call;
use crate::incoming::Incoming;
use crate::ownership::{Placed, Writing};
use crate::session::two_phase;
use crate::{Commands, Error, Result, session};

mod ranges;

use ranges::deletions;
pub(crate) use ranges::{ClearedRange, HiddenRanges, both, delete_rows, of_time_series, owned_before};

/// Longest time that one attempt holds writers while others end.
const DRAIN_MAX: Duration = Duration::from_millis(500);
/// Longest wait of a writer at a closed gate; then its router finds out what happened.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Longest wait for reads that do not hide a range yet before its documents arrive.
const OLD_READS_MAX: Duration = Duration::from_secs(1);
/// A donor that waits for its history checks this often whether it still leads its set.
const HISTORY_NAP: Duration = Duration::from_millis(50);
/// Bytes of documents in one reply.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_DOCUMENTS: usize = 1000;
/// Sessions that have written since then may send a write again.
const RETRIES_SINCE_MS: i64 = 30 * 60 * 1000;
const CONFLICTS_MAX: u32 = 100;
/// End of the message of a shard that does not know a move, or not any more.
pub const MOVE_IS_OVER: &str = "is over";

/// Returns true for commands that a closed gate holds.
pub(crate) fn is_write(command: &str) -> bool {
    const WRITES: &[&str] = &[
        "insert",
        "update",
        "delete",
        "findAndModify",
        "findandmodify",
        "bulkWrite",
        "createIndexes",
        "dropIndexes",
        "deleteIndexes",
        "collMod",
        "drop",
        "convertToCapped",
    ];
    WRITES.contains(&command)
}

/// A range that is leaving this shard.
pub(crate) struct Moving {
    id: ObjectId,
    key: DocBuf,
    low: Vec<u8>,
    high: Vec<u8>,
    gate: Mutex<Gate>,
    changed: Condvar,
    /// Writers of the range.
    writers: Arc<AtomicUsize>,
    /// Writers that began before the move did.
    earlier: Vec<Arc<AtomicUsize>>,
    log: Mutex<Followed>,
}

#[derive(Default)]
struct Gate {
    closed: bool,
    over: bool,
    /// Transactions that may have written into the range.
    transactions: HashSet<(SessionId, i64)>,
    /// Those that began before the move did are among them.
    has_earlier: bool,
}

/// Changes that the recipient does not have yet.
struct Followed {
    from: Position,
    documents: BTreeMap<Vec<u8>, DocBuf>,
    sessions: BTreeSet<Vec<u8>>,
}

/// Outcome of a writer's arrival.
pub(crate) enum Entered {
    /// It does not concern the range.
    Elsewhere,
    Writing(Writing),
    Closed,
}

impl Moving {
    pub(crate) fn enter(&self, request: &Incoming<'_>, transaction: Option<(SessionId, i64)>) -> Entered {
        if !self.concerns(request) {
            return Entered::Elsewhere;
        }
        let mut gate = self.gate.lock();
        let known = transaction.is_some_and(|own| gate.transactions.contains(&own));
        if gate.over || gate.closed && !known {
            return Entered::Closed;
        }
        gate.transactions.extend(transaction);
        Entered::Writing(Writing::begin(&self.writers))
    }

    /// Waits until the gate is open, or the move over; false: it took too long.
    pub(crate) fn wait_open(&self) -> bool {
        let until = Instant::now() + WAIT_MAX;
        let mut gate = self.gate.lock();
        while gate.closed && !gate.over {
            if self.changed.wait_until(&mut gate, until).timed_out() {
                return false;
            }
        }
        true
    }

    fn set_closed(&self, closed: bool) {
        self.gate.lock().closed = closed;
        self.changed.notify_all();
    }

    pub(crate) fn end(&self) {
        self.gate.lock().over = true;
        self.changed.notify_all();
    }

    fn has_key(&self, doc: Doc<'_>) -> bool {
        let key = shard_key_of(self.key.as_doc(), doc);
        self.low <= key && key < self.high
    }

    /// Returns true if a request can write documents of the range.
    fn concerns(&self, request: &Incoming<'_>) -> bool {
        let name = request.body.first().map_or("", |(name, _)| name);
        let statements = |field: &str, check: &dyn Fn(Doc<'_>) -> bool| {
            let of_sequence = request.sequences.iter().filter(|some| some.name == field).flat_map(|some| some.iter());
            let of_body = match request.body.get(field) {
                Some(ValueRef::Array(all)) => Some(all),
                _ => None,
            };
            let of_body = of_body.iter().flat_map(|all| all.iter()).filter_map(|value| match value {
                ValueRef::Document(doc) => Some(doc),
                _ => None,
            });
            of_sequence.chain(of_body).any(check)
        };
        match name {
            // of measurements, not of buckets
            _ if ranges::is_of_time_series(request) => true,
            "insert" => statements("documents", &|doc| self.has_key(doc)),
            "update" => statements("updates", &|statement| self.may_match(statement, "q")),
            "delete" => statements("deletes", &|statement| self.may_match(statement, "q")),
            "findAndModify" | "findandmodify" => self.may_match(request.body, "query"),
            _ => true,
        }
    }

    fn may_match(&self, statement: Doc<'_>, name: &str) -> bool {
        let Some(ValueRef::Document(filter)) = statement.get(name) else { return true };
        if statement.get("collation").is_some() {
            return true;
        }
        let Ok(filter) = Filter::parse_query(filter, &Context::new(0)) else { return true };
        let spans = shard_key_spans(&filter, self.key.as_doc());
        spans
            .iter()
            .any(|span| span.low < self.high && span.high.as_deref().is_none_or(|high| self.low.as_slice() < high))
    }
}

fn string<'d>(doc: Doc<'d>, name: &str) -> &'d str {
    match doc.get(name) {
        Some(ValueRef::String(text)) => text,
        _ => "",
    }
}

pub(crate) fn bytes_of(doc: Doc<'_>, name: &str) -> Vec<u8> {
    match doc.get(name) {
        Some(ValueRef::Binary { bytes, .. }) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

fn id_of(doc: Doc<'_>) -> ObjectId {
    match doc.get("_id") {
        Some(ValueRef::ObjectId(id)) => id,
        _ => ObjectId([0; 12]),
    }
}

fn is_pending(row: Doc<'_>) -> bool {
    row.get("pending").is_some()
}

/// The range's documents are not the shard's own.
pub(crate) fn is_hidden(row: Doc<'_>) -> bool {
    !is_pending(row) || string(row, "side") == "recipient"
}

pub(crate) fn key_of(row: Doc<'_>) -> DocBuf {
    match row.get("keyPattern") {
        Some(ValueRef::Document(key)) => key.to_buf(),
        _ => DocBuf::new(),
    }
}

fn binary(bytes: &[u8]) -> ValueRef<'_> {
    ValueRef::Binary { subtype: 0, bytes }
}

/// An index that begins with the shard key, or the records themselves.
pub(crate) enum Order<'c> {
    Records,
    /// A capped collection keeps it.
    Insertion,
    Index(&'c Index),
}

pub(crate) fn order_of<'c>(collection: &'c Collection, key: Doc<'_>) -> Result<Order<'c>> {
    let parts: Vec<(&str, FieldKind)> = key
        .iter()
        .map(|(path, direction)| match direction {
            ValueRef::String("hashed") => (path, FieldKind::Hashed),
            _ => (path, FieldKind::Plain),
        })
        .collect();
    let is_id = matches!(parts.as_slice(), [("_id", FieldKind::Plain)]);
    if collection.order.is_some() {
        // it is on one shard, so the range is all of it
        return Ok(Order::Insertion);
    }
    if is_id && collection.collation.is_simple() {
        return Ok(Order::Records);
    }
    let fits = |index: &&Arc<Index>| {
        let fields = index.key_pattern.iter();
        let same = index.key_pattern.len() >= parts.len()
            && fields.zip(&parts).all(|(own, (path, kind))| {
                own.path == *path && own.kind == *kind && own.direction == Direction::Ascending
            });
        same && index.partial.is_none() && !index.sparse && index.collation.is_simple()
    };
    let found = collection.indexes.iter().find(fits);
    if found.is_none() && is_id {
        // the same: a sharded collection has an index of its key
        return Ok(Order::Records);
    }
    let none = || Error::new(Code::INDEX_NOT_FOUND, "the collection has no index of its shard key");
    found.map(|index| Order::Index(index)).ok_or_else(none)
}

/// Documents of a range, and the place at which the next ones begin.
struct Batch {
    documents: Vec<DocBuf>,
    next: Option<Vec<u8>>,
}

fn read_range(
    view: &(impl View + ?Sized),
    collection: &Collection,
    key: Doc<'_>,
    from: &[u8],
    high: &[u8],
    documents_max: usize,
) -> Result<Batch> {
    let mut documents = Vec::new();
    let mut bytes = 0;
    let full = |documents: &[DocBuf], bytes| documents.len() >= documents_max || bytes >= BATCH_BYTES;
    match order_of(collection, key)? {
        Order::Records => {
            let mut cursor = RecordCursor::new(view, collection)?;
            let mut found = cursor.seek(from)?;
            while found && cursor.id_key() < high {
                if full(&documents, bytes) {
                    return Ok(Batch { documents, next: Some(cursor.id_key().to_vec()) });
                }
                bytes += cursor.doc().as_bytes().len();
                documents.push(cursor.doc().to_buf());
                found = cursor.next()?;
            }
        }
        Order::Insertion => {
            let mut cursor = OrderCursor::new(view, collection)?;
            // the lower end of the range is no position
            let mut found = cursor.seek(if cursor.is_position(from) { from } else { &[] })?;
            while found {
                if full(&documents, bytes) {
                    return Ok(Batch { documents, next: Some(cursor.position().to_vec()) });
                }
                bytes += cursor.doc().as_bytes().len();
                documents.push(cursor.doc().to_buf());
                found = cursor.next()?;
            }
        }
        Order::Index(index) => {
            let mut cursor = IndexCursor::new(view, index)?;
            let mut found = cursor.seek(from)?;
            while found && cursor.key() < high {
                if full(&documents, bytes) {
                    return Ok(Batch { documents, next: Some(cursor.position().to_vec()) });
                }
                if let Some(doc) = record(view, collection, cursor.id_key())? {
                    bytes += doc.len();
                    documents.push(Doc::trusted(&doc).to_buf());
                }
                found = cursor.next()?;
            }
        }
    }
    Ok(Batch { documents, next: None })
}

impl Followed {
    /// Takes the document that a recipient is to learn of next: of a capped collection the one that was inserted first.
    fn next(
        &mut self,
        view: &(impl View + ?Sized),
        collection: &Collection,
        ordered: &mut Option<Vec<Vec<u8>>>,
    ) -> Result<Option<(Vec<u8>, DocBuf)>> {
        if collection.order.is_none() {
            return Ok(self.documents.pop_first());
        }
        if ordered.is_none() {
            let mut placed = Vec::new();
            for id_key in self.documents.keys() {
                placed.push((capped_position(view, collection, id_key)?, id_key.clone()));
            }
            // the last one is taken first
            placed.sort_unstable_by(|a, b| b.cmp(a));
            *ordered = Some(placed.into_iter().map(|(_, id_key)| id_key).collect());
        }
        let next = ordered.as_mut().and_then(Vec::pop);
        Ok(next.and_then(|id_key| self.documents.remove_entry(&id_key)))
    }
}

impl Commands {
    fn moving(&self, name: &str, id: ObjectId) -> Result<(Arc<Placed>, Arc<Moving>)> {
        let placed = self.placed(name)?;
        let moving = placed.moving.clone().filter(|moving| moving.id == id);
        let over = || Error::new(Code::OPERATION_FAILED, format!("the move of a range of {name} {MOVE_IS_OVER}"));
        Ok((placed, moving.ok_or_else(over)?))
    }
}

fn id_field(call: &Call<'_>) -> Result<ObjectId> {
    match call.required("id")? {
        ValueRef::ObjectId(id) => Ok(id),
        other => Err(call.field("id").wrong_type(other, "objectId").into()),
    }
}

fn binary_field(call: &Call<'_>, name: &str) -> Result<Vec<u8>> {
    match call.required(name)? {
        ValueRef::Binary { bytes, .. } => Ok(bytes.to_vec()),
        other => Err(call.field(name).wrong_type(other, "binData").into()),
    }
}

fn named<'c>(call: &Call<'c>) -> Result<&'c str> {
    Ok(call.field(call.info.name).string(call.target())?)
}

/// Returns the row of a range that begins to move.
fn new_row(call: &Call<'_>, name: &str, side: &str) -> Result<DocBuf> {
    let key = call.field("key").document(call.required("key")?)?;
    let range = call.field("range").document(call.required("range")?)?;
    let (low, high) = (binary_field(call, "low")?, binary_field(call, "high")?);
    if low >= high {
        return Err(Error::bad_value("the range is empty"));
    }
    let row = DocBuf::new()
        .with("_id", ValueRef::ObjectId(id_field(call)?))
        .with("nss", name)
        .with("range", range)
        .with("keyPattern", key)
        .with("whenToClean", "now")
        .with("pending", true)
        .with("side", side)
        .with("low", binary(&low))
        .with("high", binary(&high));
    // the range is all that the shard has: its owner is not to be found by its begin
    let is_whole = call.optional("whole").map(|value| call.field("whole").bool(value)).transpose()?;
    Ok(if is_whole == Some(true) { row.with("whole", true) } else { row })
}

const BEGIN: &[&str] = &["id", "key", "range", "low", "high", "whole"];

/// `_shardsvrMoveIn`: `busy: true` asks the router to try again later.
pub(crate) fn move_in(call: &mut Call<'_>) -> Result<()> {
    call.only(BEGIN)?;
    let (name, server) = (named(call)?, call.server);
    let row = new_row(call, name, "recipient")?;
    let namespace = Namespace::parse(name)?;
    {
        let _changing = server.change_ownership()?;
        server.placed(name)?;
        let (low, high) = (bytes_of(row.as_doc(), "low"), bytes_of(row.as_doc(), "high"));
        let mut others = server
            .range_rows(Some(name))?
            .into_iter()
            .filter(|other| bytes_of(other.as_doc(), "low") < high && low < bytes_of(other.as_doc(), "high"));
        if others.any(|other| id_of(other.as_doc()) != id_of(row.as_doc())) {
            call.reply.append("busy", true);
            return Ok(());
        }
        server.persist(&deletions()?, row.as_doc())?;
        server.database.make_durable(Durability::Journaled, None)?;
        server.republish(name)?;
    }
    // A read that began before may not have its view yet: it would see what arrives. One that takes longer has it.
    let until = Instant::now() + OLD_READS_MAX;
    while server.has_old_requests(name) && Instant::now() < until {
        call.interrupt.check()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    if namespace.is_resharding() {
        // a collection of that name is new
        return Ok(());
    }
    // what a direct client has put there, or a lost row left
    server.delete_all(&namespace, row.as_doc(), BATCH_DOCUMENTS, |_| Ok(call.interrupt.check().map(|()| true)?))?;
    Ok(())
}

/// `_shardsvrMoveOut`
pub(crate) fn move_out(call: &mut Call<'_>) -> Result<()> {
    call.only(BEGIN)?;
    let (name, server) = (named(call)?, call.server);
    let row = new_row(call, name, "donor")?;
    let _changing = server.change_ownership()?;
    let placed = server.placed(name)?;
    server.persist(&deletions()?, row.as_doc())?;
    let since = arbor_protocol::log::now_ms() - RETRIES_SINCE_MS;
    let sessions = server.sessions.written_since(since)?;
    let next = placed.next();
    let moving = Moving {
        id: id_of(row.as_doc()),
        key: key_of(row.as_doc()),
        low: bytes_of(row.as_doc(), "low"),
        high: bytes_of(row.as_doc(), "high"),
        gate: Mutex::default(),
        changed: Condvar::new(),
        writers: Arc::default(),
        earlier: placed.older.iter().chain([&placed.writers]).cloned().collect(),
        log: Mutex::new(Followed {
            from: server.database.transactions.shown(),
            documents: BTreeMap::new(),
            sessions: sessions.into_iter().map(session::bytes).collect(),
        }),
    };
    if let Some(before) = &placed.moving {
        before.end();
    }
    server.publish(name, next.with_moving(moving))
}

/// `_shardsvrMoveClients`: the reads and writes that have ended since the server began, and their microseconds.
pub(crate) fn move_clients(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let (ops, micros) = call.server.metrics.reads_and_writes();
    call.reply.append("ops", ops as i64).append("micros", micros as i64);
    Ok(())
}

/// `_shardsvrMoveRead`
pub(crate) fn move_read(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id", "from"])?;
    let (name, server) = (named(call)?, call.server);
    let (_, moving) = server.moving(name, id_field(call)?)?;
    let from = call.optional("from").map(|_| binary_field(call, "from")).transpose()?;
    let Some((collection, view)) = server.database.store.snapshot(&Namespace::parse(name)?)? else { return Ok(()) };
    let from = from.as_ref().unwrap_or(&moving.low);
    let batch = read_range(&view, &collection, moving.key.as_doc(), from, &moving.high, BATCH_DOCUMENTS)?;
    call.reply.append("documents", &batch.documents.iter().collect::<ArrayBuf>());
    if let Some(next) = &batch.next {
        call.reply.append("next", binary(next));
    }
    Ok(())
}

/// `_shardsvrMoveChanges`: `left` says how many changes are known beyond those of the reply.
pub(crate) fn move_changes(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id"])?;
    let (name, server) = (named(call)?, call.server);
    let (_, moving) = server.moving(name, id_field(call)?)?;
    let mut log = moving.log.lock();
    server.wait_for_history(&call.interrupt)?;
    let mut history = server.database.transactions.history(log.from);
    let collection = Namespace::parse(name)?;
    let Some((collection, _)) = server.database.store.snapshot(&collection)? else { return Ok(()) };
    while let Some((_, record)) = history.read()? {
        call.interrupt.check()?;
        for event in events(&record).map_err(arbor_query::feed::damaged)? {
            if event.place.namespace != name {
                continue;
            }
            if let Some(id) = event.id() {
                log.documents.insert(collection.id_key(id), DocBuf::new().with("_id", id));
            }
            if let Some(statement) = event.statement {
                log.sessions.insert(session::bytes(statement.session));
            }
        }
    }
    log.from = history.position();
    let view = server.database.transactions.read()?;
    let (mut documents, mut deletes, mut sessions) = (ArrayBuf::new(), ArrayBuf::new(), ArrayBuf::new());
    let (mut bytes, mut ordered) = (0, None);
    while bytes < BATCH_BYTES
        && let Some((id_key, id)) = log.next(&view, &collection, &mut ordered)?
    {
        match record(&view, &collection, &id_key)?.filter(|doc| moving.has_key(Doc::trusted(doc))) {
            Some(doc) => {
                bytes += doc.len();
                documents.push(Doc::trusted(&doc));
            }
            None => {
                bytes += id.as_bytes().len();
                deletes.push(&id);
            }
        }
    }
    while bytes < BATCH_BYTES
        && let Some(id) = log.sessions.pop_first()
    {
        let Some(carried) = session::from_bytes(&id).map(|id| server.sessions.carried(id)).transpose()?.flatten()
        else {
            continue;
        };
        let mut statements = ArrayBuf::new();
        for (statement, answer) in &carried.statements {
            bytes += answer.len() + 32;
            statements.push(&DocBuf::new().with("s", *statement).with("a", binary(answer)));
        }
        let entry = DocBuf::new().with("id", binary(&id)).with("number", carried.number);
        sessions.push(&entry.with("statements", &statements));
    }
    call.reply.append("documents", &documents).append("deletes", &deletes).append("sessions", &sessions);
    call.reply.append("left", (log.documents.len() + log.sessions.len()) as i64);
    Ok(())
}

impl Commands {
    /// Waits until the history shows all that was written before the call. It ends at what is visible, on the disk and, in a set of several
    /// members, with the set; a write can be over for its client before all of these hold.
    fn wait_for_history(&self, interrupt: &Interrupt) -> Result<()> {
        let transactions = &self.database.transactions;
        let end = transactions.log().appended();
        while !transactions.position_reached(end).wait(Instant::now() + HISTORY_NAP) {
            interrupt.check()?;
            if !self.is_primary() {
                return Err(not_primary().into());
            }
        }
        assert!(transactions.shown() >= end, "the changes of a move end at the last write of the donor");
        Ok(())
    }
}

/// Returns the documents of a field, or of the sequence of its name.
fn documents_of<'c>(call: &Call<'c>, field: &str) -> Vec<Doc<'c>> {
    let array = match call.body.get(field) {
        Some(ValueRef::Array(array)) => Some(array),
        _ => None,
    };
    let of_body = array.into_iter().flat_map(|array| array.iter()).filter_map(|value| match value {
        ValueRef::Document(doc) => Some(doc),
        _ => None,
    });
    let of_sequence = call.sequences.iter().filter(|some| some.name == field).flat_map(|some| some.iter());
    of_body.chain(of_sequence).collect()
}

/// `_shardsvrTakeDocuments`
pub(crate) fn take_all(call: &mut Call<'_>) -> Result<()> {
    call.only(&["documents"])?;
    let all = KeyRanges::new(DocBuf::new().with("_id", 1i32), vec![(Vec::new(), vec![u8::MAX])]);
    let (server, documents) = (call.server, documents_of(call, "documents"));
    server.take_documents(&Namespace::parse(named(call)?)?, &all, &documents, &[])?;
    server.database.make_durable(Durability::Journaled, None)?;
    Ok(())
}

/// `_shardsvrMoveWrite`
pub(crate) fn move_write(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id", "documents", "deletes", "sessions"])?;
    let (name, server, id) = (named(call)?, call.server, id_field(call)?);
    let namespace = Namespace::parse(name)?;
    let list = |field: &str| documents_of(call, field);
    let row =
        server.range_rows(Some(name))?.into_iter().find(|row| id_of(row.as_doc()) == id && is_pending(row.as_doc()));
    let over = || Error::new(Code::OPERATION_FAILED, format!("the move of a range of {name} {MOVE_IS_OVER}"));
    let row = row.filter(|row| string(row.as_doc(), "side") == "recipient").ok_or_else(over)?;
    let row = row.as_doc();
    let range = KeyRanges::new(key_of(row), vec![(bytes_of(row, "low"), bytes_of(row, "high"))]);
    let (documents, deletes) = (list("documents"), list("deletes"));
    if !documents.is_empty() || !deletes.is_empty() {
        server.take_documents(&namespace, &range, &documents, &deletes)?;
    }
    for entry in list("sessions") {
        let Some(session) = session::from_bytes(&bytes_of(entry, "id")) else { continue };
        let number = match entry.get("number") {
            Some(ValueRef::Int64(number)) => number,
            _ => continue,
        };
        let statements = match entry.get("statements") {
            Some(ValueRef::Array(all)) => all.iter().filter_map(|one| match one {
                ValueRef::Document(one) => match one.get("s") {
                    Some(ValueRef::Int32(statement)) => Some((statement, bytes_of(one, "a"))),
                    _ => None,
                },
                _ => None,
            }),
            _ => continue,
        };
        let carried = Carried { session, number, statements: statements.collect() };
        let interrupt = &call.interrupt;
        server.sessions.take_over(&carried, arbor_protocol::log::now_ms(), &|| interrupt.check().is_err())?;
    }
    server.database.make_durable(Durability::Journaled, None)?;
    Ok(())
}

impl Commands {
    fn take_documents(
        &self,
        namespace: &Namespace,
        range: &KeyRanges,
        documents: &[Doc<'_>],
        deletes: &[Doc<'_>],
    ) -> Result<()> {
        let placed = self.placed(namespace.as_str()).ok();
        let part = placed.as_ref().map(|placed| self.part(namespace, placed));
        repeated(|| {
            let open = OpenTransaction::begin_unclaimed(&self.database.store)?;
            let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} does not exist"));
            let collection = open.collection_that_moves(namespace)?.ok_or_else(missing)?;
            let existing = |id: ValueRef<'_>| -> Result<Option<DocBuf>> {
                let view = open.view();
                let found = record(&view, &collection, &collection.id_key(id))?;
                Ok(found.map(|doc| Doc::trusted(&doc).to_buf()))
            };
            let in_range = |doc: &DocBuf| range.contain(doc.as_doc());
            let is_left = |doc: &DocBuf| part.as_ref().is_some_and(|part| part.is_left(doc.as_doc()));
            let mut changes: Vec<(Option<DocBuf>, Option<Doc<'_>>)> = Vec::new();
            // first, so that a capped collection makes no room for what is gone
            for key in deletes {
                changes.push((key.get("_id").map(existing).transpose()?.flatten().filter(in_range), None));
            }
            for doc in documents {
                if !range.contain(*doc) {
                    return Err(Error::bad_value("a document is not in the range that moves"));
                }
                let old = doc.get("_id").map(existing).transpose()?.flatten();
                if let Some(left) = old.as_ref().filter(|old| !in_range(old) && is_left(old)) {
                    changes.push((Some(left.clone()), None));
                }
                changes.push((old.filter(in_range), Some(*doc)));
            }
            let written = open.with(|txn| {
                txn.hide();
                changes.iter().try_for_each(|(old, new)| match (old, new) {
                    (None, Some(new)) => arbor_store::insert(txn, &collection, *new),
                    (Some(old), Some(new)) => {
                        arbor_store::update(txn, &collection, old.as_doc(), *new, UpdateKind::Replacement)
                    }
                    (Some(old), None) => arbor_store::delete(txn, &collection, old.as_doc()),
                    (None, None) => Ok(()),
                })
            });
            Ok(written.and_then(|()| open.commit(Durability::Applied)).map(drop)?)
        })
    }
}

/// Repeats a transaction that others are faster than. Errors: not WriteConflict, which a router would have to pass on.
fn repeated<T>(mut transaction: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..CONFLICTS_MAX {
        match transaction() {
            Err(error) if error.code == Code::WRITE_CONFLICT => {}
            outcome => return outcome,
        }
    }
    let text = "the documents of a range, or what is known of it, are written by others again and again";
    Err(Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text))
}

/// `_shardsvrMoveClose`: `busy: true` says that writers did not end soon, and continue.
pub(crate) fn move_close(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id"])?;
    let (name, server) = (named(call)?, call.server);
    let (placed, moving) = server.moving(name, id_field(call)?)?;
    server.set_critical(name, &placed, true)?;
    moving.set_closed(true);
    let until = Instant::now() + DRAIN_MAX;
    while moving.is_written(server) {
        if Instant::now() > until || call.interrupt.check().is_err() {
            moving.set_closed(false);
            server.set_critical(name, &placed, false)?;
            call.reply.append("busy", true);
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

impl Moving {
    fn is_written(&self, server: &Commands) -> bool {
        let running = |writers: &Arc<AtomicUsize>| writers.load(Ordering::Acquire) > 0;
        let is_open = |(session, number): &(SessionId, i64)| {
            server.sessions.open_transaction(*session).is_some_and(|open| open.number == *number)
                || server.is_to_be_decided(&two_phase::id_of(*session, *number))
        };
        if running(&self.writers) || self.earlier.iter().any(running) {
            return true;
        }
        let mut gate = self.gate.lock();
        if !gate.has_earlier {
            // not at the begin of the move: a transaction whose first statement ran then was not open yet
            let open = server.sessions.open_transactions();
            let prepared = server.database.transactions.prepared();
            let prepared = prepared.into_iter().map(|prepared| two_phase::parts(&prepared.id));
            gate.transactions.extend(open.iter().map(|open| (open.session, open.number)).chain(prepared));
            gate.has_earlier = true;
        }
        gate.transactions.iter().any(is_open)
    }
}

/// `_shardsvrMoveOpen`
pub(crate) fn move_open(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id"])?;
    let (name, server) = (named(call)?, call.server);
    let (placed, moving) = server.moving(name, id_field(call)?)?;
    server.set_critical(name, &placed, false)?;
    moving.set_closed(false);
    Ok(())
}

/// `_shardsvrMoveRanges`
pub(crate) fn move_ranges(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let rows = call.server.range_rows(Some(named(call)?))?;
    call.reply.append("ranges", &rows.iter().collect::<ArrayBuf>());
    Ok(())
}
