//! Deleting measurements: their buckets are written anew without them, and go when none is left.

use arbor_bson::{Doc, DocBuf};
use arbor_lang::time_series::{Bucket, Unpack};
use arbor_lang::{Code, Context, Filter};
use arbor_store::{Collection, ToldAs};
use arbor_txn::{Durability, Transaction};

use super::TimeSeries;
use crate::plan::Query;
use crate::write::{Targets, is_full};
use crate::{Database, DeleteOutcome, DeleteSpec, DeleteStatement, Error, Interrupt, Result, WriteError};

pub fn delete(
    database: &Database,
    series: &TimeSeries,
    spec: &DeleteSpec<'_>,
    interrupt: &Interrupt,
) -> Result<DeleteOutcome> {
    let context = database.context(&spec.namespace, None, spec.let_variables)?;
    let missing = || Error::Store(arbor_store::Error::NamespaceNotFound(spec.namespace.clone()));
    let held = database.store.hold(&series.buckets.namespace).ok_or_else(missing)?;
    let deleter = Deleter { database, series, buckets: &held, interrupt };
    let mut outcome = DeleteOutcome::default();
    for (index, statement) in spec.deletes.iter().enumerate() {
        match deleter.run(statement, &context) {
            Ok(deleted) => {
                outcome.deleted += deleted;
                outcome.each.push((index, deleted));
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

struct Deleter<'d> {
    database: &'d Database,
    series: &'d TimeSeries,
    buckets: &'d Collection,
    interrupt: &'d Interrupt,
}

impl Deleter<'_> {
    fn run(&self, statement: &DeleteStatement<'_>, context: &Context) -> Result<u64> {
        if statement.collation.as_ref().is_some_and(|own| !own.is_simple()) {
            let message = "Cannot perform a delete with a collation on a time-series collection";
            return Err(Error::new(Code::INVALID_OPTIONS, message));
        }
        let filter = Query::parse(statement.q, None, context)?.filter;
        let query = self.series.buckets_for(&filter);
        let mut targets = Targets::of(self.database, self.buckets, &query, self.interrupt)?;
        let mut deleted = 0;
        loop {
            let rows = targets.next_group()?;
            if rows.is_empty() {
                return Ok(deleted);
            }
            let mut rest = rows.as_slice();
            while !rest.is_empty() {
                let delete_in_rows = |txn: &mut Transaction| -> Result<(u64, usize)> {
                    let (mut count, mut looked_at) = (0, 0);
                    for row in rest {
                        if is_full(txn) || (count > 0 && !statement.multi) {
                            break;
                        }
                        looked_at += 1;
                        if let Some(bucket) = targets.current(txn, row)? {
                            count += self.delete_in(txn, bucket.as_doc(), &filter, statement.multi)?;
                        }
                    }
                    Ok((count, looked_at))
                };
                let (count, looked_at) = self.database.transactions.retry(Durability::Applied, delete_in_rows)?.0;
                deleted += count;
                if deleted > 0 && !statement.multi {
                    return Ok(deleted);
                }
                rest = &rest[looked_at..];
            }
        }
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
            _ => arbor_store::update(txn, self.buckets, bucket, kept.to_doc(options).as_doc(), ToldAs::Update)?,
        }
        Ok(deleted)
    }
}
