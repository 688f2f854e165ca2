//! `insert`.

use std::ops::Range;

use arbor_bson::Doc;
use arbor_txn::Transaction;

use super::new_document::prepare;
use super::validated::Validated;
use crate::source::Source;
use crate::time_series::{self, TimeSeries};
use crate::{Error, Executed, InsertOutcome, InsertSpec, Interrupt, Result, Scope, WriteError};

/// Adds documents, many in one transaction. A document that cannot be added is an error in the outcome; an ordered
/// insert ends there and keeps what came before.
pub fn insert(scope: &Scope<'_>, spec: &InsertSpec<'_>, interrupt: &Interrupt) -> Result<InsertOutcome> {
    interrupt.check()?;
    if let Source::TimeSeries { buckets, .. } = scope.source(&spec.namespace) {
        return time_series::insert(scope, &TimeSeries::of(buckets)?, spec, interrupt);
    }
    let known = scope.executed_among(spec.documents.len())?;
    if !known.is_empty() && known.len() == spec.documents.len() {
        scope.make_durable(spec.durability)?;
        return Ok(InsertOutcome { inserted: known.len() as u64, errors: Vec::new() });
    }
    let held = scope.hold_or_create(&spec.namespace)?;
    let collection = Validated::new(scope, &held, spec.bypass_validation)?;
    let mut outcome = InsertOutcome::default();
    let mut next = 0;
    while next < spec.documents.len() && (!spec.ordered || outcome.errors.is_empty()) {
        let group = group_from(scope, &spec.documents, next);
        next = group.end;
        let first = group.start;
        let added = interrupt.check().and_then(|()| insert_group(scope, &collection, spec, &known, group));
        match added {
            Ok(added) => {
                outcome.inserted += added.inserted;
                outcome.errors.extend(added.errors);
            }
            // nothing of the group was written
            Err(error) => {
                outcome.errors.push(WriteError { index: first, error });
                break;
            }
        }
    }
    let errors = scope.settled(std::mem::take(&mut outcome.errors))?;
    scope.make_durable(spec.durability)?;
    Ok(InsertOutcome { errors, ..outcome })
}

/// Documents for one transaction.
fn group_from(scope: &Scope<'_>, documents: &[Doc<'_>], start: usize) -> Range<usize> {
    let mut bytes = 0;
    let mut end = start;
    while let Some(doc) = documents.get(end) {
        bytes += doc.as_bytes().len();
        if end > start && (end - start >= scope.settings.write_docs_max || bytes > scope.settings.write_bytes_max) {
            break;
        }
        end += 1;
    }
    start..end
}

fn insert_group(
    scope: &Scope<'_>,
    collection: &Validated<'_>,
    spec: &InsertSpec<'_>,
    known: &[usize],
    group: Range<usize>,
) -> Result<InsertOutcome> {
    let documents = spec.documents.get(group.clone()).unwrap_or_default();
    let insert_all = |txn: &mut Transaction| {
        let mut added = InsertOutcome::default();
        let mut executed = Vec::new();
        for (index, doc) in group.clone().zip(documents) {
            if known.binary_search(&index).is_ok() {
                added.inserted += 1;
                continue;
            }
            scope.begin_statement(txn, index)?;
            // One at a time: documents without an `_id` are copied, and a message may be 48 MB of them.
            match prepare(*doc) {
                Err(error) => added.errors.push(WriteError { index, error: Error::Lang(error) }),
                Ok(doc) => match collection.insert(txn, Doc::trusted(&doc)) {
                    Ok(()) => {
                        added.inserted += 1;
                        executed.extend(scope.is_retryable().then_some(index));
                    }
                    Err(error) if !error.concerns_document() => return Err(error),
                    Err(error) => added.errors.push(WriteError { index, error }),
                },
            }
            if spec.ordered && !added.errors.is_empty() {
                break;
            }
        }
        scope.record_each(txn, executed.into_iter(), || Executed::Inserted)?;
        Ok(added)
    };
    scope.write(insert_all)
}
