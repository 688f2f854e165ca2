//! Updates of a time series change `meta` of whole buckets, and nothing else.
//!
//! COMPAT: as MongoDB: all documents that match, operators only, conditions and changes on the metaField only.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::matcher::Node;
use arbor_lang::time_series::Unpack;
use arbor_lang::{Code, Context, Filter};
use arbor_store::Collection;
use arbor_txn::{Durability, Transaction};

use super::TimeSeries;
use crate::plan::{Query, conjuncts};
use crate::write::{Modification, Modifier, Targets, is_full, with_collation};
use crate::{Database, Error, Interrupt, Result, UpdateDone, UpdateOutcome, UpdateSpec, UpdateStatement, WriteError};

pub fn update(
    database: &Database,
    series: &TimeSeries,
    spec: &UpdateSpec<'_>,
    interrupt: &Interrupt,
) -> Result<UpdateOutcome> {
    let context = database.context(&spec.namespace, None, spec.let_variables)?;
    let missing = || Error::Store(arbor_store::Error::NamespaceNotFound(spec.namespace.clone()));
    let held = database.store.hold(&series.buckets.namespace).ok_or_else(missing)?;
    let mut outcome = UpdateOutcome::default();
    for (index, statement) in spec.updates.iter().enumerate() {
        let done = parse(series, statement, &context)
            .and_then(|(query, modifier)| run(database, &held, &query, &modifier, interrupt));
        match done {
            Ok((matched, modified)) => {
                outcome.matched += matched;
                outcome.modified += modified;
                outcome.each.push(UpdateDone { index, matched, modified });
            }
            Err(error) => {
                let stop = spec.ordered || !error.concerns_document();
                outcome.errors.push(WriteError { index, error });
                if stop {
                    break;
                }
            }
        }
    }
    database.make_durable(spec.durability)?;
    Ok(outcome)
}

fn refused<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(Error::new(Code::INVALID_OPTIONS, format!("Cannot perform {what}")))
}

fn parse(series: &TimeSeries, statement: &UpdateStatement<'_>, context: &Context) -> Result<(Query, Modifier)> {
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
    Ok((Query::new(Filter::from_root(Node::And(nodes), filter.collation())), modifier))
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

/// Answers how many measurements are in the buckets that matched, and in those that changed.
fn run(
    database: &Database,
    buckets: &Collection,
    query: &Query,
    modifier: &Modifier,
    interrupt: &Interrupt,
) -> Result<(u64, u64)> {
    let mut targets = Targets::of(database, buckets, query, interrupt)?;
    let (mut matched, mut modified) = (0, 0);
    loop {
        let rows = targets.next_group()?;
        if rows.is_empty() {
            return Ok((matched, modified));
        }
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let update_rows = |txn: &mut Transaction| -> Result<(u64, u64, usize)> {
                let (mut matched, mut modified, mut looked_at) = (0, 0, 0);
                for row in rest {
                    if is_full(txn) {
                        break;
                    }
                    looked_at += 1;
                    let Some(old) = targets.current(txn, row)? else { continue };
                    let count = measurements(old.as_doc());
                    matched += count;
                    if let Some(new) = modifier.apply(&query.filter, old.as_doc())? {
                        arbor_store::update(txn, buckets, old.as_doc(), new.as_doc(), modifier.told_as())?;
                        modified += count;
                    }
                }
                Ok((matched, modified, looked_at))
            };
            let (some, changed, looked_at) = database.transactions.retry(Durability::Applied, update_rows)?.0;
            matched += some;
            modified += changed;
            rest = &rest[looked_at..];
        }
    }
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
