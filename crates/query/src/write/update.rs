//! `update`.

use arbor_bson::{Value, ValueRef};
use arbor_lang::Context;
use arbor_txn::{Durability, Transaction};

use super::modifier::{Modification, Modifier};
use super::statements::{self, is_full, settle, with_collation};
use super::target::{Targets, find_one};
use super::validated::Validated;
use crate::plan::Query;
use crate::time_series::{self, TimeSeries};
use crate::{Database, Error, Interrupt, Result, UpdateDone, UpdateOutcome, UpdateSpec, UpdateStatement, Upserted};

pub fn update(database: &Database, spec: &UpdateSpec<'_>, interrupt: &Interrupt) -> Result<UpdateOutcome> {
    if let Some(series) = TimeSeries::of(&database.store, &spec.namespace)? {
        return time_series::update(database, &series, spec, interrupt);
    }
    let context = database.context(&spec.namespace, None, spec.let_variables)?;
    let may_insert = spec.updates.iter().any(|statement| statement.upsert);
    let held = match database.store.hold(&spec.namespace) {
        None if may_insert => Some(database.store.hold_or_create(&spec.namespace)?),
        None => {
            database.store.refuse_view(&spec.namespace)?;
            None
        }
        held => held,
    };
    let collection = match held.as_deref() {
        Some(collection) => Some(Validated::new(database, collection, spec.bypass_validation)?),
        None => None,
    };
    let updater = Updater { database, collection: collection.as_ref(), interrupt };
    let done = statements::run(
        database,
        &spec.updates,
        spec.ordered,
        interrupt,
        |statement| statement.multi,
        |statement| updater.update_all(&Parsed::of(statement, &context)?),
        |txn, statement| updater.update_one(txn, &Parsed::of(statement, &context)?),
    );
    let mut outcome = UpdateOutcome::default();
    let errors = settle(done, |index, updated| {
        outcome.matched += updated.matched;
        outcome.modified += updated.modified;
        outcome.each.push(UpdateDone { index, matched: updated.matched, modified: updated.modified });
        outcome.upserted.extend(updated.upserted.map(|id| Upserted { index, id }));
    });
    database.make_durable(spec.durability)?;
    Ok(UpdateOutcome { errors, ..outcome })
}

struct Parsed {
    query: Query,
    modifier: Modifier,
    upsert: bool,
}

impl Parsed {
    fn of(statement: &UpdateStatement<'_>, context: &Context) -> Result<Parsed> {
        let context = &with_collation(context, statement.collation.as_ref());
        let modification = Modification {
            update: statement.u,
            array_filters: &statement.array_filters,
            constants: statement.c,
            multi: statement.multi,
        };
        let mut query = Query::parse(statement.q, statement.hint, context)?;
        query.sort_by(statement.sort, context)?;
        query.limit = statement.sort.map(|_| 1);
        Ok(Parsed { query, modifier: Modifier::parse(&modification, context)?, upsert: statement.upsert })
    }
}

#[derive(Default)]
struct Updated {
    matched: u64,
    modified: u64,
    upserted: Option<Value>,
}

struct Updater<'u> {
    database: &'u Database,
    collection: Option<&'u Validated<'u>>,
    interrupt: &'u Interrupt,
}

impl Updater<'_> {
    fn update_one(&self, txn: &mut Transaction, parsed: &Parsed) -> Result<Updated> {
        let Some(collection) = self.collection else { return Ok(Updated::default()) };
        let found = find_one(self.database, &*txn, collection, &parsed.query, self.interrupt)?;
        match found {
            Some(row) => {
                let changed = parsed.modifier.apply(&parsed.query.filter, row.document.as_doc())?;
                if let Some(new) = &changed {
                    collection.update(txn, row.document.as_doc(), new.as_doc(), parsed.modifier.told_as())?;
                }
                Ok(Updated { matched: 1, modified: u64::from(changed.is_some()), upserted: None })
            }
            None if parsed.upsert => {
                let id = upsert(txn, collection, parsed)?;
                Ok(Updated { upserted: Some(id), ..Updated::default() })
            }
            None => Ok(Updated::default()),
        }
    }

    fn update_all(&self, parsed: &Parsed) -> Result<Updated> {
        let Some(collection) = self.collection else { return Ok(Updated::default()) };
        loop {
            let updated = self.update_matches(collection, parsed)?;
            if updated.matched > 0 || !parsed.upsert {
                return Ok(updated);
            }
            if let Some(id) = self.upsert_unless_found(collection, parsed)? {
                return Ok(Updated { upserted: Some(id), ..Updated::default() });
            }
        }
    }

    fn update_matches(&self, collection: &Validated<'_>, parsed: &Parsed) -> Result<Updated> {
        let mut targets = Targets::of(self.database, collection, &parsed.query, self.interrupt)?;
        let mut all = Updated::default();
        loop {
            let rows = targets.next_group()?;
            if rows.is_empty() {
                return Ok(all);
            }
            let mut rest = rows.as_slice();
            while !rest.is_empty() {
                let update_rows = |txn: &mut Transaction| -> Result<(Updated, usize)> {
                    let (mut some, mut looked_at) = (Updated::default(), 0);
                    for row in rest {
                        if is_full(txn) {
                            break;
                        }
                        looked_at += 1;
                        let Some(old) = targets.current(txn, row)? else { continue };
                        some.matched += 1;
                        if let Some(new) = parsed.modifier.apply(&parsed.query.filter, old.as_doc())? {
                            collection.update(txn, old.as_doc(), new.as_doc(), parsed.modifier.told_as())?;
                            some.modified += 1;
                        }
                    }
                    Ok((some, looked_at))
                };
                let (some, looked_at) = self.database.transactions.retry(Durability::Applied, update_rows)?.0;
                all.matched += some.matched;
                all.modified += some.modified;
                rest = &rest[looked_at..];
            }
        }
    }

    /// None: another client inserted a document that matches.
    fn upsert_unless_found(&self, collection: &Validated<'_>, parsed: &Parsed) -> Result<Option<Value>> {
        let insert = |txn: &mut Transaction| -> Result<Option<Value>> {
            match find_one(self.database, &*txn, collection, &parsed.query, self.interrupt)? {
                Some(_) => Ok(None),
                None => Ok(Some(upsert(txn, collection, parsed)?)),
            }
        };
        Ok(self.database.transactions.retry(Durability::Applied, insert)?.0)
    }
}

/// Answers the `_id`.
fn upsert(txn: &mut Transaction, collection: &Validated<'_>, parsed: &Parsed) -> Result<Value> {
    let document = parsed.modifier.upserted(&parsed.query.filter)?;
    collection.insert(txn, document.as_doc())?;
    let id = document.get("_id").map(ValueRef::to_value);
    id.ok_or_else(|| Error::internal("an upserted document has no _id"))
}
