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
use arbor_query::{DeleteSpec, DeleteStatement, FindSpec, Interrupt, Scope, shard_key_spans};
use arbor_session::{Carried, SessionId};
use arbor_store::{
    Collection, Direction, FieldKind, Index, IndexCursor, Namespace, OpenTransaction, RecordCursor, UpdateKind, record,
};
use arbor_txn::{Durability, View};
use parking_lot::{Condvar, Mutex};

use crate::call::Call;
use crate::incoming::Incoming;
use crate::ownership::{Placed, Writing};
use crate::session::two_phase;
use crate::{Commands, Error, Result, session};

/// Longest time that one attempt holds writers while others end.
const DRAIN_MAX: Duration = Duration::from_millis(500);
/// Longest wait of a writer at a closed gate; then its router finds out what happened.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Longest wait for reads that do not hide a range yet before its documents arrive.
const OLD_READS_MAX: Duration = Duration::from_secs(1);
/// Bytes of documents in one reply.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_DOCUMENTS: usize = 1000;
/// Documents that one transaction of the range deletion removes, and the pause after it, in multiples of the time that it took: the deletion
/// uses a fifth of a processor at most.
const DELETED_TOGETHER: usize = 128;
const DELETION_PAUSES: u32 = 4;
const DELETION_PAUSE_MIN: Duration = Duration::from_millis(2);
/// Sessions that have written since then may send a write again.
const RETRIES_SINCE_MS: i64 = 30 * 60 * 1000;
const CONFLICTS_MAX: u32 = 100;

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

/// Ranges whose documents a shard has and does not own.
#[derive(Clone)]
pub(crate) struct HiddenRanges {
    /// Their rows.
    ids: Vec<ObjectId>,
    key: DocBuf,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// The filter of the other documents.
    pub owned: DocBuf,
}

/// A range whose documents were deleted: snapshots of before that show them.
#[derive(Clone)]
pub(crate) struct ClearedRange {
    pub until: Position,
    key: DocBuf,
    low: Vec<u8>,
    high: Vec<u8>,
}

impl ClearedRange {
    /// The range of a row of `config.rangeDeletions`, at the position after its deletion.
    pub(crate) fn of(row: Doc<'_>, until: Position) -> ClearedRange {
        ClearedRange { until, key: key_of(row), low: bytes_of(row, "low"), high: bytes_of(row, "high") }
    }
}

/// Returns the filter of the documents that the shard owned at a position, of which `cleared` had not yet been deleted.
pub(crate) fn owned_before(hidden: Option<&HiddenRanges>, cleared: &[&ClearedRange]) -> Option<DocBuf> {
    let of_cleared = cleared.iter().map(|range| (range.low.clone(), range.high.clone()));
    let ranges = hidden.iter().flat_map(|hidden| hidden.ranges.iter().cloned()).chain(of_cleared).collect();
    let key = hidden.map(|hidden| &hidden.key).or(cleared.first().map(|range| &range.key))?;
    Some(KeyRanges::new(key.clone(), ranges).outside())
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

fn range_rows_in(scope: &Scope<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let filter = name.map_or_else(DocBuf::new, |name| DocBuf::new().with("nss", name));
    let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(deletions()?) };
    let found = arbor_query::find(scope, &spec, &Interrupt::never())?;
    Ok(found.all(&Interrupt::never())?)
}

fn delete_row_in(scope: &Scope<'_>, filter: &DocBuf) -> Result<()> {
    let statement = DeleteStatement { q: filter.as_doc(), multi: true, hint: None, collation: None };
    let spec = DeleteSpec {
        namespace: deletions()?,
        deletes: vec![statement],
        ordered: true,
        let_variables: None,
        durability: Durability::Journaled,
    };
    let outcome = arbor_query::delete(scope, &spec, &Interrupt::never())?;
    outcome.errors.into_iter().next().map_or(Ok(()), |failed| Err(failed.error.into()))
}

fn deletions() -> Result<Namespace> {
    Ok(Namespace::new("config", "rangeDeletions")?)
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

/// An index that begins with the shard key; none: the records themselves are in its order.
pub(crate) enum Order<'c> {
    Records,
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
    if matches!(parts.as_slice(), [("_id", FieldKind::Plain)]) && collection.collation.is_simple() {
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

impl Commands {
    /// Returns the rows of ranges of a collection; of all, without a name.
    pub(crate) fn range_rows(&self, name: Option<&str>) -> Result<Vec<DocBuf>> {
        range_rows_in(&Scope::of(&self.database), name)
    }

    /// Returns the ranges of a collection whose documents are not the shard's own. None: it owns all that it has.
    pub(crate) fn hidden_ranges(&self, name: &str) -> Result<Option<HiddenRanges>> {
        self.hidden_ranges_in(&Scope::of(&self.database), name)
    }

    pub(crate) fn hidden_ranges_in(&self, scope: &Scope<'_>, name: &str) -> Result<Option<HiddenRanges>> {
        let rows = range_rows_in(scope, Some(name))?;
        let hidden: Vec<&DocBuf> = rows.iter().filter(|row| is_hidden(row.as_doc())).collect();
        let Some(first) = hidden.first() else { return Ok(None) };
        let bounds = |row: &&DocBuf| (bytes_of(row.as_doc(), "low"), bytes_of(row.as_doc(), "high"));
        let (key, ranges) = (key_of(first.as_doc()), Vec::from_iter(hidden.iter().map(bounds)));
        let owned = KeyRanges::new(key.clone(), ranges.clone()).outside();
        Ok(Some(HiddenRanges { ids: hidden.iter().map(|row| id_of(row.as_doc())).collect(), key, ranges, owned }))
    }

    fn delete_row(&self, filter: &DocBuf) -> Result<()> {
        delete_row_in(&Scope::of_server(&self.database), filter)
    }

    /// Ends moves of ranges, and stores a document, all in one transaction: the ranges of `kept` are the shard's own, those of `dropped` are to
    /// be deleted. Returns true if one has arrived.
    pub(crate) fn settle_ranges(
        &self,
        name: &str,
        kept: &[ObjectId],
        dropped: &[ObjectId],
        (namespace, document): (&Namespace, Doc<'_>),
    ) -> Result<bool> {
        for _ in 0..CONFLICTS_MAX {
            let open = OpenTransaction::begin(&self.database.store)?;
            let scope = Scope::of_server(&self.database).in_transaction(&open);
            let settled = self.settle_in(&scope, name, kept, dropped).and_then(|has_arrived| {
                self.persist_in(&scope, namespace, document)?;
                Ok(has_arrived)
            });
            let committed = settled.and_then(|has_arrived| {
                open.commit(Durability::Journaled)?;
                Ok(has_arrived)
            });
            match committed {
                // the deletion of another range has changed its row
                Err(error) if error.code == Code::WRITE_CONFLICT => {}
                outcome => return outcome,
            }
        }
        Err(Error::new(Code::WRITE_CONFLICT, "the rows of the ranges are being written"))
    }

    fn settle_in(&self, scope: &Scope<'_>, name: &str, kept: &[ObjectId], dropped: &[ObjectId]) -> Result<bool> {
        let mut has_arrived = false;
        for row in range_rows_in(scope, Some(name))? {
            let id = id_of(row.as_doc());
            if dropped.contains(&id) {
                let ready: DocBuf = row.as_doc().iter().filter(|(name, _)| *name != "pending").collect();
                self.persist_in(scope, &deletions()?, ready.as_doc())?;
            } else if kept.contains(&id) {
                has_arrived |= string(row.as_doc(), "side") == "recipient";
                delete_row_in(scope, &DocBuf::new().with("_id", ValueRef::ObjectId(id)))?;
            }
        }
        Ok(has_arrived)
    }

    pub(crate) fn forget_ranges(&self, name: &str) -> Result<()> {
        self.delete_row(&DocBuf::new().with("nss", name))
    }

    /// Requests that come from now on see the rows as they are. Requires that no other change is made.
    fn republish(&self, name: &str) -> Result<()> {
        let placed = self.placed(name)?;
        let hidden = self.hidden_ranges(name)?;
        self.publish(name, placed.next().with_hidden(hidden))
    }

    fn moving(&self, name: &str, id: ObjectId) -> Result<(Arc<Placed>, Arc<Moving>)> {
        let placed = self.placed(name)?;
        let moving = placed.moving.clone().filter(|moving| moving.id == id);
        let over = || Error::new(Code::OPERATION_FAILED, format!("the move of a range of {name} is over"));
        Ok((placed, moving.ok_or_else(over)?))
    }

    /// Deletes the next documents of a range, at most `documents_max`; returns their number. `from` is where they begin and
    /// becomes where those after them begin; `None`: at the range's begin, and at its end.
    fn delete_range(
        &self,
        name: &Namespace,
        row: Doc<'_>,
        documents_max: usize,
        from: &mut Option<Vec<u8>>,
    ) -> Result<usize> {
        let (key, low, high) = (key_of(row), bytes_of(row, "low"), bytes_of(row, "high"));
        for _ in 0..CONFLICTS_MAX {
            let open = OpenTransaction::begin(&self.database.store)?;
            let Some(collection) = open.collection_to_write(name)? else { return Ok(0) };
            let begin = from.as_deref().unwrap_or(&low);
            let batch = read_range(&open.view(), &collection, key.as_doc(), begin, &high, documents_max)?;
            let deleted = open.with(|txn| {
                txn.hide();
                batch.documents.iter().try_for_each(|doc| arbor_store::delete(txn, &collection, doc.as_doc()))
            });
            match deleted.and_then(|()| open.commit(Durability::Applied)) {
                Err(error) if arbor_txn::MaybeConflict::is_conflict(&error) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    *from = batch.next;
                    return Ok(batch.documents.len());
                }
            }
        }
        Err(Error::new(Code::WRITE_CONFLICT, "documents of the range are being written"))
    }

    /// Deletes all documents of a range, `documents_max` in a transaction, and calls `pause` after each with the time that it took.
    /// Ends early where `pause` returns false.
    fn delete_all(
        &self,
        name: &Namespace,
        row: Doc<'_>,
        documents_max: usize,
        mut pause: impl FnMut(Duration) -> Result<bool>,
    ) -> Result<bool> {
        // a batch begins where the one before has ended: to find it from the range's begin, all that was deleted would be read again
        let mut from = None;
        loop {
            let (begun, is_first) = (Instant::now(), from.is_none());
            let deleted = self.delete_range(name, row, documents_max, &mut from)?;
            if deleted == 0 && is_first {
                return Ok(true);
            }
            if !pause(begun.elapsed())? {
                return Ok(false);
            }
        }
    }

    /// Deletes the documents of ranges that have left, in small transactions with pauses. To be called about every second.
    pub fn delete_orphans(&self) {
        if self.ownership.is_none() || !self.is_primary() {
            return;
        }
        for row in self.range_rows(None).unwrap_or_default() {
            if is_pending(row.as_doc()) {
                continue;
            }
            if let Err(error) = self.delete_one_range(row.as_doc()) {
                let attributes = DocBuf::new().with("namespace", string(row.as_doc(), "nss"));
                let event = arbor_protocol::log::events::RANGE_NOT_DELETED;
                self.log.warn(event, "range-deleter", attributes.with("error", &error.to_string()));
            }
        }
    }

    fn delete_one_range(&self, row: Doc<'_>) -> Result<()> {
        let name = string(row, "nss");
        // A blocked collection is not known to have lost the range, and one whose row was settled just now is still read under the state of
        // before, as by requests that began under it.
        let id = id_of(row);
        let has_it = |placed: Arc<Placed>| placed.hidden.as_ref().is_some_and(|hidden| hidden.ids.contains(&id));
        let is_hidden = || self.placed(name).is_ok_and(has_it);
        if !is_hidden() || self.has_old_requests(name) {
            return Ok(());
        }
        let namespace = Namespace::parse(name)?;
        let is_complete = self.delete_all(&namespace, row, DELETED_TOGETHER, |took| {
            std::thread::sleep((took * DELETION_PAUSES).max(DELETION_PAUSE_MIN));
            Ok(!self.stopping.load(Ordering::Relaxed) && is_hidden())
        })?;
        if !is_complete {
            return Ok(());
        }
        let _changing = self.change_ownership()?;
        self.database.make_durable(Durability::Journaled, None)?;
        self.delete_row(&DocBuf::new().with("_id", ValueRef::ObjectId(id_of(row))))?;
        let until = self.database.transactions.read()?.position();
        let hidden = self.hidden_ranges(name)?;
        let next = self.placed(name)?.next();
        self.publish(name, next.with_hidden(hidden).with_cleared(ClearedRange::of(row, until)))
    }

    /// Returns a request as it is to run here: documents of ranges that the shard does not own are not there.
    pub(crate) fn only_owned(&self, request: &Incoming<'_>, owned: &DocBuf) -> Option<DocBuf> {
        let command = request.body.first().map_or("", |(name, _)| name);
        let both = |filter: Option<ValueRef<'_>>| match filter {
            Some(ValueRef::Document(filter)) if !filter.is_empty() => {
                let parts: ArrayBuf = [filter, owned.as_doc()].into_iter().collect();
                DocBuf::new().with("$and", &parts)
            }
            _ => owned.clone(),
        };
        let with_filter = |body: Doc<'_>, name: &str| {
            let others: DocBuf = body.iter().filter(|(own, _)| *own != name).collect();
            others.with(name, &both(body.get(name)))
        };
        let body = request.body;
        match command {
            "find" => Some(with_filter(body, "filter")),
            "count" | "distinct" | "findAndModify" | "findandmodify" => Some(with_filter(body, "query")),
            "update" | "delete" => {
                let field = if command == "update" { "updates" } else { "deletes" };
                let mut statements = ArrayBuf::new();
                let of_sequence = request.sequences.iter().filter(|some| some.name == field);
                of_sequence.flat_map(|some| some.iter()).for_each(|one| {
                    statements.push(&with_filter(one, "q"));
                });
                if let Some(ValueRef::Array(all)) = body.get(field) {
                    for one in all.iter() {
                        match one {
                            ValueRef::Document(one) => statements.push(&with_filter(one, "q")),
                            other => statements.push(other),
                        };
                    }
                }
                let others: DocBuf = body.iter().filter(|(own, _)| *own != field).collect();
                Some(others.with(field, &statements))
            }
            "aggregate" => {
                let Some(ValueRef::Array(stages)) = body.get("pipeline") else { return None };
                let pipeline = owned_pipeline(stages.iter().collect(), owned, &both)?;
                let others: DocBuf = body.iter().filter(|(own, _)| *own != "pipeline").collect();
                Some(others.with("pipeline", &pipeline))
            }
            _ => None,
        }
    }
}

fn owned_pipeline(
    stages: Vec<ValueRef<'_>>,
    owned: &DocBuf,
    both: &dyn Fn(Option<ValueRef<'_>>) -> DocBuf,
) -> Option<ArrayBuf> {
    let first = match stages.first() {
        Some(ValueRef::Document(first)) => first.first(),
        _ => None,
    };
    let mut pipeline = ArrayBuf::new();
    let replaced = match first {
        // about the collection, not its documents
        Some(("$collStats" | "$indexStats" | "$planCacheStats" | "$changeStream" | "$listSampledQueries", _)) => {
            return None;
        }
        Some(("$match", filter)) => {
            pipeline.push(&DocBuf::new().with("$match", &both(Some(filter))));
            1
        }
        Some(("$geoNear", ValueRef::Document(spec))) => {
            let others: DocBuf = spec.iter().filter(|(own, _)| *own != "query").collect();
            pipeline.push(&DocBuf::new().with("$geoNear", &others.with("query", &both(spec.get("query")))));
            1
        }
        _ => {
            pipeline.push(&DocBuf::new().with("$match", owned));
            0
        }
    };
    stages.into_iter().skip(replaced).for_each(|stage| {
        pipeline.push(stage);
    });
    Some(pipeline)
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
    let from = match call.optional("from") {
        Some(_) => binary_field(call, "from")?,
        None => moving.low.clone(),
    };
    let Some((collection, view)) = server.database.store.snapshot(&Namespace::parse(name)?)? else { return Ok(()) };
    let batch = read_range(&view, &collection, moving.key.as_doc(), &from, &moving.high, BATCH_DOCUMENTS)?;
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
    // the log shows what is on the disk
    server.database.make_durable(Durability::Journaled, None)?;
    let mut history = server.database.transactions.history(log.from);
    let collection = Namespace::parse(name)?;
    let Some((collection, _)) = server.database.store.snapshot(&collection)? else { return Ok(()) };
    while let Some((_, record)) = history.read()? {
        call.interrupt.check()?;
        for event in events(&record).map_err(arbor_query::feed::damaged)? {
            if event.place.namespace != name {
                continue;
            }
            let key = event.document_key();
            if let Some(id) = key.get("_id") {
                log.documents.insert(collection.id_key(id), key.clone());
            }
            if let Some(statement) = event.statement {
                log.sessions.insert(session::bytes(statement.session));
            }
        }
    }
    log.from = history.position();
    let view = server.database.transactions.read()?;
    let (mut documents, mut deletes, mut sessions) = (ArrayBuf::new(), ArrayBuf::new(), ArrayBuf::new());
    let mut bytes = 0;
    while bytes < BATCH_BYTES
        && let Some((id_key, id)) = log.documents.pop_first()
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

/// `_shardsvrMoveWrite`
pub(crate) fn move_write(call: &mut Call<'_>) -> Result<()> {
    call.only(&["id", "documents", "deletes", "sessions"])?;
    let (name, server, id) = (named(call)?, call.server, id_field(call)?);
    let namespace = Namespace::parse(name)?;
    let list = |field: &str| -> Vec<Doc<'_>> {
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
    };
    let row =
        server.range_rows(Some(name))?.into_iter().find(|row| id_of(row.as_doc()) == id && is_pending(row.as_doc()));
    let over = || Error::new(Code::OPERATION_FAILED, format!("the move of a range of {name} is over"));
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
        for _ in 0..CONFLICTS_MAX {
            let open = OpenTransaction::begin(&self.database.store)?;
            let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("{namespace} does not exist"));
            let collection = open.collection_to_write(namespace)?.ok_or_else(missing)?;
            let existing = |id: ValueRef<'_>| -> Result<Option<DocBuf>> {
                let view = open.view();
                let found = record(&view, &collection, &collection.id_key(id))?;
                Ok(found.map(|doc| Doc::trusted(&doc).to_buf()).filter(|doc| range.contain(doc.as_doc())))
            };
            let mut changes: Vec<(Option<DocBuf>, Option<Doc<'_>>)> = Vec::new();
            for doc in documents {
                if !range.contain(*doc) {
                    return Err(Error::bad_value("a document is not in the range that moves"));
                }
                changes.push((doc.get("_id").map(existing).transpose()?.flatten(), Some(*doc)));
            }
            for key in deletes {
                changes.push((key.get("_id").map(existing).transpose()?.flatten(), None));
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
            match written.and_then(|()| open.commit(Durability::Applied)) {
                Err(error) if arbor_txn::MaybeConflict::is_conflict(&error) => {}
                other => return Ok(other.map(drop)?),
            }
        }
        Err(Error::new(Code::WRITE_CONFLICT, "documents of the range are being written"))
    }
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
