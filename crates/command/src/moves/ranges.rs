//! The ranges whose documents a shard has and does not own: how requests are kept from seeing them, and their deletion.
//!
//! Their rows are in `config.rangeDeletions` (V2 of the module above).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_bson::{ArrayBuf, Doc, DocBuf, ObjectId, ValueRef};
use arbor_lang::KeyRanges;
use arbor_query::{DeleteSpec, DeleteStatement, FindSpec, Interrupt, Scope, Sharded};
use arbor_store::{Namespace, OpenTransaction};
use arbor_txn::{Durability, View as _};

use super::{OLD_READS_MAX, bytes_of, id_of, is_hidden, is_pending, key_of, read_range, repeated, string};
use crate::incoming::Incoming;
use crate::ownership::Placed;
use crate::{Commands, Result};

/// Documents that one transaction of the range deletion removes, and the pause after it, in multiples of the time that it took: the deletion
/// uses a fifth of a processor at most.
const DELETED_TOGETHER: usize = 128;
const DELETION_PAUSES: u32 = 4;
const DELETION_PAUSE_MIN: Duration = Duration::from_millis(2);

/// Ranges whose documents a shard has and does not own.
#[derive(Clone)]
pub(crate) struct HiddenRanges {
    /// Their rows.
    ids: Vec<ObjectId>,
    key: DocBuf,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// The filter of the other documents.
    pub owned: DocBuf,
    /// Those that only wait for their deletion: they do not move any more.
    left: Option<KeyRanges>,
}

/// A sharded collection for one request.
pub(crate) struct Part<'s> {
    server: &'s Commands,
    db: &'s str,
    collection: &'s str,
    placed: &'s Arc<Placed>,
    /// The buckets that a statement on a time series sees. None: all that there are.
    buckets: Option<DocBuf>,
}

impl Part<'_> {
    pub(crate) fn of_buckets(self, buckets: Option<DocBuf>) -> Self {
        Part { buckets, ..self }
    }
}

impl Sharded for Part<'_> {
    fn buckets(&self) -> Option<Doc<'_>> {
        self.buckets.as_ref().map(DocBuf::as_doc)
    }

    fn key(&self) -> Option<Doc<'_>> {
        self.placed.key.as_ref().map(DocBuf::as_doc)
    }

    fn is_left(&self, doc: Doc<'_>) -> bool {
        let left = self.placed.hidden.as_ref().and_then(|hidden| hidden.left.as_ref());
        if !left.is_some_and(|left| left.contain(doc)) {
            return false;
        }
        // requests of before the end of the move may not have their view yet
        let (name, until) = (format!("{}.{}", self.db, self.collection), Instant::now() + OLD_READS_MAX);
        while self.server.has_requests_before(&name, self.placed) {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
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
        let left: Vec<_> = hidden.iter().filter(|row| !is_pending(row.as_doc())).map(bounds).collect();
        let left = if left.is_empty() { None } else { Some(KeyRanges::new(key.clone(), left)) };
        let ids = hidden.iter().map(|row| id_of(row.as_doc())).collect();
        Ok(Some(HiddenRanges { ids, key, ranges, owned, left }))
    }

    pub(crate) fn sharded<'s>(&'s self, request: &Incoming<'s>, placed: &'s Arc<Placed>) -> Option<Part<'s>> {
        match request.body.first() {
            Some((_, ValueRef::String(collection))) => {
                Some(Part { server: self, db: request.db, collection, placed, buckets: None })
            }
            _ => None,
        }
    }

    pub(super) fn part<'s>(&'s self, name: &'s Namespace, placed: &'s Arc<Placed>) -> Part<'s> {
        Part { server: self, db: name.db(), collection: name.collection(), placed, buckets: None }
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
        // the deletion of another range may change its row
        repeated(|| {
            let open = OpenTransaction::begin_unclaimed(&self.database.store)?;
            let scope = Scope::of_server(&self.database).in_transaction(&open);
            let has_arrived = self.settle_in(&scope, name, kept, dropped)?;
            self.persist_in(&scope, namespace, document)?;
            open.commit(Durability::Journaled)?;
            Ok(has_arrived)
        })
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
    pub(super) fn republish(&self, name: &str) -> Result<()> {
        let placed = self.placed(name)?;
        let hidden = self.hidden_ranges(name)?;
        self.publish(name, placed.next().with_hidden(hidden))
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
        repeated(|| {
            let open = OpenTransaction::begin_unclaimed(&self.database.store)?;
            let Some(collection) = open.collection_that_moves(name)? else { return Ok(0) };
            let begin = from.as_deref().unwrap_or(&low);
            let batch = read_range(&open.view(), &collection, key.as_doc(), begin, &high, documents_max)?;
            let deleted = open.with(|txn| {
                txn.hide();
                batch.documents.iter().try_for_each(|doc| arbor_store::delete(txn, &collection, doc.as_doc()))
            });
            deleted.and_then(|()| open.commit(Durability::Applied))?;
            *from = batch.next;
            Ok(batch.documents.len())
        })
    }

    /// Deletes all documents of a range, `documents_max` in a transaction, and calls `pause` after each with the time that it took.
    /// Ends early where `pause` returns false.
    pub(super) fn delete_all(
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
        if self.ownership.is_none() || !self.is_primary() || self.fail_points.suspends_range_deletion() {
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

/// Field of a request on buckets: it is one on their time series, which a router has sent by the version of the buckets.
const OF_TIME_SERIES: &str = "isTimeseriesNamespace";
/// Field of such a request: the buckets that it may change.
const BUCKETS: &str = "_buckets";

pub(crate) fn is_of_time_series(request: &Incoming<'_>) -> bool {
    request.body.get(OF_TIME_SERIES).is_some()
}

/// Returns a request on the buckets of a time series as the one on the time series that it is, and the filter of the buckets that it may
/// change. None: it is no such request.
pub(crate) fn of_time_series(request: &Incoming<'_>) -> Option<(DocBuf, Option<DocBuf>)> {
    let Some(ValueRef::Bool(true)) = request.body.get(OF_TIME_SERIES) else { return None };
    let Some((command, ValueRef::String(name))) = request.body.first() else { return None };
    let begin = DocBuf::new().with(command, name.strip_prefix("system.buckets.")?);
    let others = request.body.iter().skip(1).filter(|(name, _)| !matches!(*name, OF_TIME_SERIES | BUCKETS));
    let asked = match request.body.get(BUCKETS) {
        Some(ValueRef::Document(filter)) => Some(filter.to_buf()),
        _ => None,
    };
    Some((others.fold(begin, |body, (name, value)| body.with(name, value)), asked))
}

pub(crate) fn both(one: Option<&DocBuf>, other: Option<&DocBuf>) -> Option<DocBuf> {
    match (one, other) {
        (Some(one), Some(other)) => Some(DocBuf::new().with("$and", &[one, other].into_iter().collect::<ArrayBuf>())),
        (one, other) => one.or(other).cloned(),
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

fn range_rows_in(scope: &Scope<'_>, name: Option<&str>) -> Result<Vec<DocBuf>> {
    let filter = name.map_or_else(DocBuf::new, |name| DocBuf::new().with("nss", name));
    let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(deletions()?) };
    let found = arbor_query::find(scope, &spec, &Interrupt::never())?;
    Ok(found.all(&Interrupt::never())?)
}

fn delete_row_in(scope: &Scope<'_>, filter: &DocBuf) -> Result<()> {
    delete_rows(scope, deletions()?, filter)
}

/// Deletes documents of this server's own, as a statement of a scope.
pub(crate) fn delete_rows(scope: &Scope<'_>, namespace: Namespace, filter: &DocBuf) -> Result<()> {
    let statement = DeleteStatement { q: filter.as_doc(), multi: true, hint: None, collation: None };
    let spec = DeleteSpec {
        namespace,
        deletes: vec![statement],
        ordered: true,
        let_variables: None,
        durability: Durability::Journaled,
    };
    let outcome = arbor_query::delete(scope, &spec, &Interrupt::never())?;
    outcome.errors.into_iter().next().map_or(Ok(()), |failed| Err(failed.error.into()))
}

pub(super) fn deletions() -> Result<Namespace> {
    Ok(Namespace::new("config", "rangeDeletions")?)
}
