//! Updates of a time series change `meta` of whole buckets, and nothing else.
//!
//! COMPAT: as MongoDB: all documents that match, operators only, conditions and changes on the metaField only.

use std::ops::ControlFlow;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::matcher::Node;
use arbor_lang::time_series::Unpack;
use arbor_lang::{Code, Context, Filter};
use arbor_store::Collection;

use super::TimeSeries;
use crate::plan::{Query, conjuncts};
use crate::write::{Modification, Modifier, Targets, settle, statements, update_kind, with_collation};
use crate::{Error, Interrupt, Result, Scope, UpdateDone, UpdateOutcome, UpdateSpec, UpdateStatement};

pub(crate) fn update(
    scope: &Scope<'_>,
    series: &TimeSeries,
    spec: &UpdateSpec<'_>,
    interrupt: &Interrupt,
) -> Result<UpdateOutcome> {
    let context = scope.context(&series.buckets.namespace, None, spec.let_variables)?;
    let missing = || Error::Store(arbor_store::Error::NamespaceNotFound(spec.namespace.clone()));
    super::refuse_in_transaction(scope, "update", &spec.namespace)?;
    let held = scope.store.hold(&series.buckets.namespace).ok_or_else(missing)?;
    let done = statements::run_each(&spec.updates, spec.ordered, interrupt, |_, statement| {
        scope.refuse_retry("multi=true")?;
        let (query, modifier) = parse(scope, series, statement, &context)?;
        run(scope, &held, &query, &modifier, interrupt)
    });
    let mut outcome = UpdateOutcome::default();
    let errors = settle(done, |index, (matched, modified)| {
        outcome.matched += matched;
        outcome.modified += modified;
        outcome.each.push(UpdateDone { index, matched, modified });
    });
    scope.make_durable(spec.durability)?;
    Ok(UpdateOutcome { errors, ..outcome })
}

fn refused<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(Error::new(Code::INVALID_OPTIONS, format!("Cannot perform {what}")))
}

fn parse(
    scope: &Scope<'_>,
    series: &TimeSeries,
    statement: &UpdateStatement<'_>,
    context: &Context,
) -> Result<(Query, Modifier)> {
    let Some(meta_field) = &series.options.meta_field else {
        return refused("an update on a time-series collection that does not have a metaField");
    };
    if !statement.multi {
        return refused("a non-multi update on a time-series collection");
    }
    if statement.upsert {
        return refused("an upsert on a time-series collection");
    }
    let ValueRef::Document(change) = statement.u else {
        return refused("an update on a time-series collection using a pipeline update");
    };
    if !change.first().is_some_and(|(name, _)| name.starts_with('$')) {
        return refused("an update on a time-series collection using a replacement document");
    }
    let context = &with_collation(context, statement.collation.as_ref());
    let unpack = Unpack::of(&series.options);
    let filter = Filter::parse(statement.q, context)?;
    let about_meta: Option<Vec<Node>> = conjuncts(filter.root()).iter().map(|node| unpack.about_meta(node)).collect();
    let Some(nodes) = about_meta else {
        return refused(format!(
            "an update on a time-series collection when querying on a field that is not the metaField '{meta_field}'"
        ));
    };
    let Some(change) = over_buckets(&unpack, change) else {
        return refused(format!(
            "an update on a time-series collection which updates a field that is not the metaField '{meta_field}'"
        ));
    };
    let modification = Modification {
        update: ValueRef::Document(change.as_doc()),
        array_filters: &statement.array_filters,
        constants: statement.c,
        multi: true,
    };
    let modifier = Modifier::parse(&modification, context)?;
    Ok((super::seen(scope, nodes, &filter)?, modifier))
}

/// `{$set: {"m.x": 1}}` as `{$set: {"meta.x": 1}}`. None: something else would be changed.
fn over_buckets(unpack: &Unpack, change: Doc<'_>) -> Option<DocBuf> {
    let mut renamed = DocBuf::new();
    for (operator, fields) in change {
        let ValueRef::Document(fields) = fields else {
            renamed.append(operator, fields);
            continue;
        };
        let mut own = DocBuf::new();
        for (path, value) in fields {
            let path = unpack.meta_path(path)?;
            match (operator, value) {
                ("$rename", ValueRef::String(to)) => own.append(&path, &*unpack.meta_path(to)?),
                _ => own.append(&path, value),
            };
        }
        renamed.append(operator, &own);
    }
    Some(renamed)
}

/// Returns how many measurements are in the buckets that matched, and in those that changed.
fn run(
    scope: &Scope<'_>,
    buckets: &Collection,
    query: &Query,
    modifier: &Modifier,
    interrupt: &Interrupt,
) -> Result<(u64, u64)> {
    Targets::of(scope, buckets, query, interrupt)?.change_all((0, 0), |txn, old, (matched, modified)| {
        let count = measurements(old);
        *matched += count;
        if let Some(new) = modifier.apply(&query.filter, old)? {
            scope.check_shard_key(old, new.doc.as_doc())?;
            arbor_store::update(txn, buckets, old, new.doc.as_doc(), update_kind(&new))?;
            *modified += count;
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn measurements(bucket: Doc<'_>) -> u64 {
    match bucket.get("control") {
        Some(ValueRef::Document(control)) => match control.get("count") {
            Some(ValueRef::Int32(count)) => count.max(0) as u64,
            _ => 0,
        },
        _ => 0,
    }
}
