//! `delete`.

use std::ops::ControlFlow;

use arbor_lang::Context;
use arbor_store::Collection;
use arbor_txn::Transaction;

use super::statements::{self, Answer, settle, with_collation};
use super::target::{Targets, find_one};
use crate::plan::Query;
use crate::source::Source;
use crate::time_series::{self, TimeSeries};
use crate::{DeleteOutcome, DeleteSpec, DeleteStatement, Executed, Interrupt, Result, Scope};

pub fn delete(scope: &Scope<'_>, spec: &DeleteSpec<'_>, interrupt: &Interrupt) -> Result<DeleteOutcome> {
    if let Source::TimeSeries { buckets, .. } = scope.source(&spec.namespace) {
        return time_series::delete(scope, &TimeSeries::of(buckets)?, spec, interrupt);
    }
    let context = scope.context(&spec.namespace, None, spec.let_variables)?;
    let held = scope.hold(&spec.namespace)?;
    if held.is_none() {
        scope.store.refuse_view(&spec.namespace)?;
    }
    let collection = held.as_deref();
    let done = statements::run(
        scope,
        &spec.deletes,
        spec.ordered,
        interrupt,
        |statement| statement.multi,
        |statement| {
            scope.refuse_retry("limit=0")?;
            delete_all(scope, collection, &query_of(statement, &context)?, interrupt)
        },
        |txn, statement| delete_one(scope, txn, collection, &query_of(statement, &context)?, interrupt),
    );
    let (mut deleted, mut each) = (0, Vec::with_capacity(spec.deletes.len()));
    let errors = settle(done, |index, count| {
        deleted += count;
        each.push((index, count));
    });
    let errors = scope.settled(errors)?;
    scope.make_durable(spec.durability)?;
    Ok(DeleteOutcome { deleted, each, errors })
}

impl Answer for u64 {
    fn executed(&self) -> Option<Executed> {
        (*self > 0).then_some(Executed::Deleted(*self))
    }

    fn again(executed: Executed) -> Result<u64> {
        match executed {
            Executed::Deleted(deleted) => Ok(deleted),
            other => Err(other.is_no("delete")),
        }
    }
}

pub(super) fn query_of(statement: &DeleteStatement<'_>, context: &Context) -> Result<Query> {
    let context = with_collation(context, statement.collation.as_ref());
    Ok(Query::parse(statement.q, statement.hint, &context)?)
}

fn delete_one(
    scope: &Scope<'_>,
    txn: &mut Transaction,
    collection: Option<&Collection>,
    query: &Query,
    interrupt: &Interrupt,
) -> Result<u64> {
    let Some(collection) = collection else { return Ok(0) };
    let Some(row) = find_one(scope, &*txn, collection, query, interrupt)? else { return Ok(0) };
    arbor_store::delete(txn, collection, row.document.as_doc())?;
    Ok(1)
}

pub(super) fn delete_all(
    scope: &Scope<'_>,
    collection: Option<&Collection>,
    query: &Query,
    interrupt: &Interrupt,
) -> Result<u64> {
    let Some(collection) = collection else { return Ok(0) };
    Targets::of(scope, collection, query, interrupt)?.change_all(0, |txn, document, deleted| {
        arbor_store::delete(txn, collection, document)?;
        *deleted += 1;
        Ok(ControlFlow::Continue(()))
    })
}
