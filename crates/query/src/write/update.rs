//! `update`.

use std::ops::ControlFlow;

use arbor_bson::{Doc, Value, ValueRef};
use arbor_lang::Context;
use arbor_txn::Transaction;

use super::modifier::{Modification, Modifier, update_kind};
use super::statements::{self, Answer, settle, with_collation};
use super::target::{Targets, find_one};
use super::unread;
use super::validated::Validated;
use crate::database::now_ms;
use crate::plan::Query;
use crate::source::Source;
use crate::time_series::{self, TimeSeries};
use crate::{
    Error, Executed, Interrupt, Result, Scope, UpdateDone, UpdateOutcome, UpdateSpec, UpdateStatement, Upserted,
};

pub fn update(scope: &Scope<'_>, spec: &UpdateSpec<'_>, interrupt: &Interrupt) -> Result<UpdateOutcome> {
    if let Source::TimeSeries { buckets, .. } = scope.source(&spec.namespace) {
        return time_series::update(scope, &TimeSeries::of(buckets)?, spec, interrupt);
    }
    let context = scope.context(&spec.namespace, None, spec.let_variables)?;
    let may_insert = spec.updates.iter().any(|statement| statement.upsert);
    let held = match scope.hold(&spec.namespace)? {
        None if may_insert => Some(scope.hold_or_create(&spec.namespace)?),
        None => {
            scope.store.refuse_view(&spec.namespace)?;
            None
        }
        held => held,
    };
    let collection = match held.as_deref() {
        Some(collection) => Some(Validated::new(scope, collection, spec.bypass_validation)?),
        None => None,
    };
    let updater = Updater { scope, collection: collection.as_ref(), interrupt };
    let done = statements::run(
        scope,
        &spec.updates,
        spec.ordered,
        interrupt,
        |statement| statement.multi,
        |statement| {
            scope.refuse_retry("multi=true")?;
            updater.update_all(&Parsed::of(statement, &context)?)
        },
        |txn, statement| updater.update_one(txn, statement, &Parsed::of(statement, &context)?),
    );
    let mut outcome = UpdateOutcome::default();
    let errors = settle(done, |index, updated| {
        outcome.matched += updated.matched;
        outcome.modified += updated.modified;
        outcome.each.push(UpdateDone { index, matched: updated.matched, modified: updated.modified });
        outcome.upserted.extend(updated.upserted.map(|id| Upserted { index, id }));
    });
    let errors = scope.settled(errors)?;
    scope.make_durable(spec.durability)?;
    Ok(UpdateOutcome { errors, ..outcome })
}

/// Refuses a statement that is wrong whatever documents there are.
pub fn check_update(statement: &UpdateStatement<'_>, let_variables: Option<Doc<'_>>) -> Result<()> {
    let context = Context::new(now_ms());
    let context = match let_variables {
        Some(variables) => context.with_let(variables)?,
        None => context,
    };
    Parsed::of(statement, &context).map(drop)
}

struct Parsed {
    query: Query,
    modifier: Modifier,
    upsert: bool,
}

impl Parsed {
    fn of(statement: &UpdateStatement<'_>, context: &Context) -> Result<Parsed> {
        let context = &with_collation(context, statement.collation.as_ref());
        if statement.c.is_some() && !matches!(statement.u, ValueRef::Array(_)) {
            let text = "Constant values may only be specified for pipeline updates";
            return Err(arbor_lang::Error::location(51198, text).into());
        }
        let modification = Modification {
            update: statement.u,
            array_filters: &statement.array_filters,
            constants: statement.c,
            multi: statement.multi,
        };
        let mut query = Query::parse(statement.q, statement.hint, context)?;
        query.sort_one_by(statement.q, statement.sort, context)?;
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

impl Answer for Updated {
    fn executed(&self) -> Option<Executed> {
        let Updated { matched, modified, upserted } = self;
        let (matched, modified, upserted) = (*matched, *modified, upserted.clone());
        (modified > 0 || upserted.is_some()).then_some(Executed::Updated { matched, modified, upserted })
    }

    fn again(executed: Executed) -> Result<Updated> {
        match executed {
            Executed::Updated { matched, modified, upserted } => Ok(Updated { matched, modified, upserted }),
            other => Err(other.is_no("update")),
        }
    }
}

struct Updater<'u> {
    scope: &'u Scope<'u>,
    collection: Option<&'u Validated<'u>>,
    interrupt: &'u Interrupt,
}

impl Updater<'_> {
    fn update_one(&self, txn: &mut Transaction, statement: &UpdateStatement<'_>, parsed: &Parsed) -> Result<Updated> {
        let Some(collection) = self.collection else { return Ok(Updated::default()) };
        if unread::update(self.scope, txn, collection, statement, parsed.modifier.update())? {
            return Ok(Updated { matched: 1, modified: 1, upserted: None });
        }
        let found = find_one(self.scope, &*txn, collection, &parsed.query, self.interrupt)?;
        match found {
            Some(row) => {
                let changed = parsed.modifier.apply(&parsed.query.filter, row.document.as_doc())?;
                if let Some(new) = &changed {
                    collection.update(txn, row.document.as_doc(), new.doc.as_doc(), update_kind(new))?;
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
        let targets = Targets::of(self.scope, collection, &parsed.query, self.interrupt)?;
        let (matched, modified) = targets.change_all((0, 0), |txn, old, (matched, modified)| {
            *matched += 1;
            if let Some(new) = parsed.modifier.apply(&parsed.query.filter, old)? {
                self.scope.check_shard_key(old, new.doc.as_doc())?;
                collection.update(txn, old, new.doc.as_doc(), update_kind(&new))?;
                *modified += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Updated { matched, modified, upserted: None })
    }

    /// None: another client inserted a document that matches.
    fn upsert_unless_found(&self, collection: &Validated<'_>, parsed: &Parsed) -> Result<Option<Value>> {
        let insert = |txn: &mut Transaction| -> Result<Option<Value>> {
            match find_one(self.scope, &*txn, collection, &parsed.query, self.interrupt)? {
                Some(_) => Ok(None),
                None => Ok(Some(upsert(txn, collection, parsed)?)),
            }
        };
        self.scope.write(insert)
    }
}

/// Returns the `_id`.
fn upsert(txn: &mut Transaction, collection: &Validated<'_>, parsed: &Parsed) -> Result<Value> {
    let document = parsed.modifier.upserted(&parsed.query.filter)?;
    collection.insert(txn, document.as_doc())?;
    let id = document.get("_id").map(ValueRef::to_value);
    id.ok_or_else(|| Error::internal("an upserted document has no _id"))
}
