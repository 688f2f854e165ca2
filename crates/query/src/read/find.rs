//! `find`.

use std::borrow::Cow;

use arbor_base::{Prefetch, work};
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::metadata::mentions;
use arbor_lang::projection::ProjectionKind;
use arbor_lang::{Context, Filter, MetaKind, Projection};
use arbor_store::Namespace;

use crate::plan::summary;
use crate::plan::{self, Decider, Query, Slots};
use crate::running_plan::RunningPlan;
use crate::source::Source;
use crate::tail::tail;
use crate::view::ResolvedView;
use crate::{AggregateSpec, Cursor, Database, Error, FindSpec, Interrupt, Result, Scope, aggregate, oplog};

/// The documents that a query finds. The plan is made at once; rows are read batch by batch.
pub fn find(scope: &Scope<'_>, spec: &FindSpec<'_>, interrupt: &Interrupt) -> Result<Cursor> {
    interrupt.check()?;
    if let Some(id) = id_of_point_query(spec)
        && let Some(cursor) = find_by_id(scope, spec, id)?
    {
        return Ok(cursor);
    }
    let source = scope.source(&spec.namespace);
    if matches!(source, Source::Oplog) {
        return oplog::find(scope, spec, query_of(scope, spec)?, interrupt);
    }
    if let Some(view) = source.as_view(&scope.store, &spec.namespace)? {
        return find_in_view(scope, spec, &view, interrupt);
    }
    let query = query_of(scope, spec)?;
    if spec.tailable && query.filter.text().is_some() {
        return Err(Error::bad_value("text and tailable cursor not allowed in same query"));
    }
    if spec.tailable {
        scope.refuse_in_transaction(|| {
            "Tailable cursors are not supported in a multi-document transaction".to_owned()
        })?;
        return tail(scope, spec, query);
    }
    let Some((collection, view)) = scope.snapshot(&spec.namespace)? else {
        query.needs_no_index(&spec.namespace)?;
        return Ok(Cursor::over_documents(spec.namespace.clone(), []));
    };
    let settings = scope.settings.with_disk_use(spec.allow_disk_use);
    let query = scope.constrained(&collection, &query);
    let mut slots = Slots::default();
    let mut decision = Decider::new(scope, &view, &collection, interrupt).decide(&query, &mut slots)?;
    let winner = &decision.winner;
    plan::note_use(&collection, winner);
    let root = plan::decided(&mut decision, &query, &settings, &mut slots);
    let plan = RunningPlan::new(view, Some(collection), root, slots.count()).releasable(scope);
    Ok(Cursor::over_rows(spec.namespace.clone(), plan))
}

pub(crate) fn query_of(scope: &Scope<'_>, spec: &FindSpec<'_>) -> Result<Query> {
    let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
    let mut query = Query::parse(spec.filter, spec.hint, &context)?;
    query.sort_by(spec.sort, &context)?;
    // COMPAT: a projection together with returnKey is parsed and has no effect
    query.show(spec.projection, &context)?;
    query.projection = query.projection.filter(|_| !spec.return_key);
    query.return_key = spec.return_key;
    query.skip = spec.skip;
    query.limit = spec.limit;
    query.min = spec.min.map(Doc::to_buf);
    query.max = spec.max.map(Doc::to_buf);
    query.show_record_id = spec.show_record_id;
    Ok(query)
}

/// `{ _id: value }` and nothing that changes which document that is: the filter need not even be parsed.
fn id_of_point_query<'s>(spec: &FindSpec<'s>) -> Option<ValueRef<'s>> {
    let id = id_equality(spec.filter)?;
    let asks = |shown: Doc<'_>| mentions(ValueRef::Document(shown), MetaKind::TextScore);
    let plain = spec.skip == 0
        && !spec.projection.is_some_and(asks)
        && spec.hint.is_none()
        && spec.min.is_none()
        && spec.max.is_none()
        && spec.sort.is_none_or(|sort| sort.is_empty())
        && spec.let_variables.is_none()
        && spec.collation.is_none()
        && !spec.show_record_id
        && !spec.tailable
        && !spec.return_key;
    plain.then_some(id)
}

/// Returns true for a query that is answered by a lookup of one `_id`.
pub fn is_point_query(spec: &FindSpec<'_>) -> bool {
    id_of_point_query(spec).is_some()
}

/// The value in `{ _id: value }`.
pub(super) fn id_equality(filter: Doc<'_>) -> Option<ValueRef<'_>> {
    let mut fields = filter.iter();
    match (fields.next(), fields.next()) {
        (Some(("_id", value)), None) if is_value(value) => Some(value),
        _ => None,
    }
}

/// Not an operator: it is compared as it is.
fn is_value(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Regex { .. } | ValueRef::Array(_) | ValueRef::Undefined => false,
        ValueRef::Document(doc) => doc.first().is_none_or(|(name, _)| !name.starts_with('$')),
        _ => true,
    }
}

fn find_in_view(scope: &Scope<'_>, spec: &FindSpec<'_>, view: &ResolvedView, interrupt: &Interrupt) -> Result<Cursor> {
    let stages = view.find_stages(spec)?;
    let behind = AggregateSpec {
        collation: Some(view.collation_for(&spec.namespace, spec.collation.as_ref())?),
        hint: spec.hint,
        let_variables: spec.let_variables,
        allow_disk_use: spec.allow_disk_use,
        ..view.spec(&stages)
    };
    Ok(aggregate(scope, &behind, interrupt)?.named(spec.namespace.clone()))
}

/// None: there is no such collection.
fn find_by_id(scope: &Scope<'_>, spec: &FindSpec<'_>, id: ValueRef<'_>) -> Result<Option<Cursor>> {
    let Some(record) = record_by_id(scope, &spec.namespace, id)? else { return Ok(None) };
    let projection = match spec.projection.filter(|projection| !projection.is_empty()) {
        Some(projection) => Some(parse_projection(scope, spec, projection)?),
        None => None,
    };
    summary::note_stage("IDHACK");
    work::note(|work| {
        work.keys_examined += 1;
        work.documents_examined += u64::from(record.is_some());
    });
    let document = match (record, projection) {
        (Some(record), Some(projection)) => Some(projection.apply(record.as_doc(), None)?),
        (record, _) => record,
    };
    Ok(Some(Cursor::over_document(spec.namespace.clone(), document)))
}

/// None: there is no such collection; Some(None): it has no such document.
fn record_by_id(scope: &Scope<'_>, namespace: &Namespace, id: ValueRef<'_>) -> Result<Option<Option<DocBuf>>> {
    let own = |record: Option<Cow<'_, [u8]>>| record.map(|record| DocBuf::from_trusted(record.into_owned()));
    if !scope.is_now() {
        let Some((collection, view)) = scope.snapshot(namespace)? else { return Ok(None) };
        collection.usage.id_index.note();
        return Ok(Some(own(arbor_store::record(&view, &collection, &collection.id_key(id))?)));
    }
    let Some(collection) = scope.store.collection(namespace) else { return Ok(None) };
    collection.usage.id_index.note();
    match arbor_store::record(&scope.transactions.read()?, &collection, &collection.id_key(id)) {
        // dropped or replaced a moment ago
        Err(arbor_store::Error::Txn(arbor_txn::Error::UnknownTree(_))) => {}
        record => return Ok(Some(own(record?))),
    }
    match scope.snapshot(namespace)? {
        Some((collection, view)) => Ok(Some(own(arbor_store::record(&view, &collection, &collection.id_key(id))?))),
        None => Ok(None),
    }
}

/// Starts to read what a find of the document with this `_id` would wait for first. A hint.
pub fn prefetch_by_id(database: &Database, namespace: &Namespace, id: ValueRef<'_>) -> Prefetch {
    let Some(collection) = database.store.collection(namespace) else { return Prefetch::Unknown };
    let key = collection.id_key(id);
    database.transactions.engine().prefetch(collection.tree_of(&key), &key)
}

fn parse_projection(scope: &Scope<'_>, spec: &FindSpec<'_>, projection: Doc<'_>) -> Result<Projection> {
    let context: Context = scope.context(&spec.namespace, None, None)?;
    let filter = Filter::parse(spec.filter, &context)?;
    Ok(Projection::parse(projection, ProjectionKind::Find, Some(&filter), &context)?)
}
