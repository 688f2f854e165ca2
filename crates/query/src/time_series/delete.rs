//! Deleting measurements: their buckets are rewritten without them, and go when none is left.

use std::ops::ControlFlow;

use arbor_bson::{Doc, DocBuf};
use arbor_lang::time_series::{Bucket, Unpack};
use arbor_lang::{Code, Context, Filter};
use arbor_store::{Collection, UpdateKind};
use arbor_txn::Transaction;

use super::TimeSeries;
use crate::plan::Query;
use crate::write::{Answer, Targets, settle, statements};
use crate::{DeleteOutcome, DeleteSpec, DeleteStatement, Error, Executed, Interrupt, Result, Scope};

pub(crate) fn delete(
    scope: &Scope<'_>,
    series: &TimeSeries,
    spec: &DeleteSpec<'_>,
    interrupt: &Interrupt,
) -> Result<DeleteOutcome> {
    let context = scope.context(&series.buckets.namespace, None, spec.let_variables)?;
    let missing = || Error::Store(arbor_store::Error::NamespaceNotFound(spec.namespace.clone()));
    super::refuse_in_transaction(scope, "delete from", &spec.namespace)?;
    let held = scope.store.hold(&series.buckets.namespace).ok_or_else(missing)?;
    let deleter = Deleter { scope, series, buckets: &held, interrupt };
    let done = statements::run_each(&spec.deletes, spec.ordered, interrupt, |index, statement| {
        match scope.executed(index)? {
            Some(executed) => Answer::again(executed),
            None => deleter.run(index, statement, &context),
        }
    });
    let mut outcome = DeleteOutcome::default();
    let errors = settle(done, |index, deleted| {
        outcome.deleted += deleted;
        outcome.each.push((index, deleted));
    });
    scope.make_durable(spec.durability)?;
    Ok(DeleteOutcome { errors, ..outcome })
}

struct Deleter<'d> {
    scope: &'d Scope<'d>,
    series: &'d TimeSeries,
    buckets: &'d Collection,
    interrupt: &'d Interrupt,
}

impl Deleter<'_> {
    fn run(&self, index: usize, statement: &DeleteStatement<'_>, context: &Context) -> Result<u64> {
        if statement.multi {
            self.scope.refuse_retry("limit=0")?;
        }
        if statement.collation.as_ref().is_some_and(|own| !own.is_simple()) {
            let message = "Cannot perform a delete with a collation on a time-series collection";
            return Err(Error::new(Code::INVALID_OPTIONS, message));
        }
        let filter = Query::parse(statement.q, None, context)?.filter;
        let query = self.series.buckets_for(self.scope, &filter)?;
        let targets = Targets::of(self.scope, self.buckets, &query, self.interrupt)?;
        targets.change_all(0, |txn, bucket, deleted| {
            *deleted += self.delete_in(txn, bucket, &filter, statement.multi)?;
            self.scope.record_each(txn, (*deleted > 0).then_some(index).into_iter(), || Executed::Deleted(1))?;
            Ok(if *deleted > 0 && !statement.multi { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    fn delete_in(&self, txn: &mut Transaction, bucket: Doc<'_>, filter: &Filter, multi: bool) -> Result<u64> {
        let options = &self.series.options;
        let mut measurements: Vec<DocBuf> = Vec::new();
        Unpack::of(options).apply(bucket, &mut measurements)?;
        let no_bucket = || Error::internal("a document among the buckets is none");
        let mut kept = Bucket::read(bucket, options).ok_or_else(no_bucket)?.emptied();
        let mut deleted = 0;
        for measurement in &measurements {
            if (multi || deleted == 0) && filter.matches(measurement.as_doc())? {
                deleted += 1;
            } else {
                kept.push(measurement.as_doc(), options);
            }
        }
        match (deleted, kept.count()) {
            (0, _) => {}
            (_, 0) => arbor_store::delete(txn, self.buckets, bucket)?,
            _ => arbor_store::update(txn, self.buckets, bucket, kept.to_doc(options).as_doc(), UpdateKind::Update)?,
        }
        Ok(deleted)
    }
}
