//! `delete`.

use std::ops::ControlFlow;

use arbor_lang::Context;
use arbor_store::Collection;
use arbor_txn::Transaction;

use super::statements::{self, settle, with_collation};
use super::target::{Targets, find_one};
use crate::plan::Query;
use crate::time_series::{self, TimeSeries};
use crate::{Database, DeleteOutcome, DeleteSpec, DeleteStatement, Interrupt, Result};

pub fn delete(database: &Database, spec: &DeleteSpec<'_>, interrupt: &Interrupt) -> Result<DeleteOutcome> {
    if let Some(series) = TimeSeries::of(&database.store, &spec.namespace)? {
        return time_series::delete(database, &series, spec, interrupt);
    }
    let context = database.context(&spec.namespace, None, spec.let_variables)?;
    let held = database.store.hold(&spec.namespace);
    if held.is_none() {
        database.store.refuse_view(&spec.namespace)?;
    }
    let collection = held.as_deref();
    let done = statements::run(
        database,
        &spec.deletes,
        spec.ordered,
        interrupt,
        |statement| statement.multi,
        |statement| delete_all(database, collection, &query_of(statement, &context)?, interrupt),
        |txn, statement| delete_one(database, txn, collection, &query_of(statement, &context)?, interrupt),
    );
    let (mut deleted, mut each) = (0, Vec::with_capacity(spec.deletes.len()));
    let errors = settle(done, |index, count| {
        deleted += count;
        each.push((index, count));
    });
    database.make_durable(spec.durability)?;
    Ok(DeleteOutcome { deleted, each, errors })
}

pub fn query_of(statement: &DeleteStatement<'_>, context: &Context) -> Result<Query> {
    let context = with_collation(context, statement.collation.as_ref());
    Ok(Query::parse(statement.q, statement.hint, &context)?)
}

fn delete_one(
    database: &Database,
    txn: &mut Transaction,
    collection: Option<&Collection>,
    query: &Query,
    interrupt: &Interrupt,
) -> Result<u64> {
    let Some(collection) = collection else { return Ok(0) };
    let Some(row) = find_one(database, &*txn, collection, query, interrupt)? else { return Ok(0) };
    arbor_store::delete(txn, collection, row.document.as_doc())?;
    Ok(1)
}

pub fn delete_all(
    database: &Database,
    collection: Option<&Collection>,
    query: &Query,
    interrupt: &Interrupt,
) -> Result<u64> {
    let Some(collection) = collection else { return Ok(0) };
    Targets::of(database, collection, query, interrupt)?.change_all(0, |txn, document, deleted| {
        arbor_store::delete(txn, collection, document)?;
        *deleted += 1;
        Ok(ControlFlow::Continue(()))
    })
}
