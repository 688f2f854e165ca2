//! `findAndModify`.

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::update::Updated;
use arbor_lang::{Code, Filter, Input, Metadata};
use arbor_txn::Transaction;

use super::modifier::{Modification, Modifier, update_kind};
use super::target::find_one;
use super::validated::Validated;
use crate::operator::project;
use crate::plan::{Query, ShownAs};
use crate::source::Source;
use crate::{Change, Error, Executed, FindAndModifyOutcome, FindAndModifySpec, Interrupt, Result, Scope};

/// Changes or removes the first document of a query and returns it, before or after.
pub fn find_and_modify(
    scope: &Scope<'_>,
    spec: &FindAndModifySpec<'_>,
    interrupt: &Interrupt,
) -> Result<FindAndModifyOutcome> {
    if matches!(scope.source(&spec.namespace), Source::TimeSeries { .. }) {
        let message = "Cannot perform findAndModify on a time-series collection";
        return Err(Error::new(Code::INVALID_OPTIONS, message));
    }
    let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
    let mut query = Query::parse(spec.query, spec.hint, &context)?;
    query.sort_one_by(spec.query, spec.sort, &context)?;
    query.limit = Some(1);
    // what is shown is not what is changed: the projection waits until the end
    query.show(spec.fields, &context)?;
    let shown = query.projection.take();
    let action = Action::parse(spec, &context)?;
    if let Some(executed) = scope.executed(0)? {
        let outcome = executed.found_and_modified()?;
        scope.make_durable(spec.durability)?;
        return projected(*outcome, shown.as_ref(), &query.filter, None);
    }
    let held = match scope.hold(&spec.namespace)? {
        None if action.may_insert() => Some(scope.hold_or_create(&spec.namespace)?),
        held => held,
    };
    let Some(collection) = held.as_deref() else {
        scope.store.refuse_view(&spec.namespace)?;
        return Ok(FindAndModifyOutcome::default());
    };
    let collection = &Validated::new(scope, collection, spec.bypass_validation)?;
    let modify = |txn: &mut Transaction| -> Result<_> {
        scope.begin_statement(txn, 0)?;
        let found = find_one(scope, &*txn, collection, &query, interrupt)?;
        let metadata = found.as_ref().and_then(|row| row.metadata.clone());
        let effect = action.effect(&query, found.map(|row| row.document))?;
        if !spec.tentative {
            effect.write(txn, collection)?;
        }
        let outcome = Box::new(effect.outcome(action.returns_new()));
        if spec.tentative || !scope.is_retryable() || outcome.n == 0 {
            return Ok((outcome, metadata));
        }
        let executed = [(0, Executed::FoundAndModified(outcome))];
        scope.record(txn, &executed)?;
        let [(_, executed)] = executed;
        Ok((executed.found_and_modified()?, metadata))
    };
    let executed = scope
        .write(modify)
        .and_then(|(outcome, metadata)| projected(*outcome, shown.as_ref(), &query.filter, metadata.as_deref()));
    let outcome = executed.map_err(|error| error.during("Plan executor error during findAndModify"))?;
    scope.make_durable(spec.durability)?;
    Ok(outcome)
}

/// With what is to be shown of the document.
fn projected(
    mut outcome: FindAndModifyOutcome,
    shown: Option<&ShownAs>,
    filter: &Filter,
    metadata: Option<&Metadata>,
) -> Result<FindAndModifyOutcome> {
    if let (Some(shown), Some(document)) = (shown, &outcome.value) {
        let filter = shown.projection.needs_position().then_some(filter);
        outcome.value = Some(project(&shown.projection, filter, Input::new(document.as_doc(), metadata))?);
    }
    Ok(outcome)
}

enum Action {
    Remove,
    Update { modifier: Box<Modifier>, upsert: bool, return_new: bool },
}

impl Action {
    fn parse(spec: &FindAndModifySpec<'_>, context: &arbor_lang::Context) -> Result<Action> {
        match &spec.change {
            Change::Remove => Ok(Action::Remove),
            Change::Update { update, upsert, return_new, array_filters } => {
                let modification = Modification { update: *update, array_filters, constants: None, multi: false };
                let modifier = Box::new(Modifier::parse(&modification, context)?);
                Ok(Action::Update { modifier, upsert: *upsert, return_new: *return_new })
            }
        }
    }

    /// Returns what the action does to a document, or without one.
    fn effect(&self, query: &Query, found: Option<DocBuf>) -> Result<Effect> {
        Ok(match (self, found) {
            (Action::Remove, None) | (Action::Update { upsert: false, .. }, None) => Effect::Nothing,
            (Action::Remove, Some(old)) => Effect::Delete(old),
            (Action::Update { modifier, .. }, Some(old)) => {
                let new = modifier.apply(&query.filter, old.as_doc())?;
                Effect::Update(old, new)
            }
            (Action::Update { modifier, .. }, None) => Effect::Insert(modifier.upserted(&query.filter)?),
        })
    }

    fn returns_new(&self) -> bool {
        matches!(self, Action::Update { return_new: true, .. })
    }

    fn may_insert(&self) -> bool {
        matches!(self, Action::Update { upsert: true, .. })
    }
}

enum Effect {
    Nothing,
    Delete(DocBuf),
    /// The document before, and after if it changes.
    Update(DocBuf, Option<Updated>),
    Insert(DocBuf),
}

impl Effect {
    fn write(&self, txn: &mut Transaction, collection: &Validated<'_>) -> Result<()> {
        match self {
            Effect::Nothing | Effect::Update(_, None) => {}
            Effect::Delete(old) => arbor_store::delete(txn, collection, old.as_doc())?,
            Effect::Update(old, Some(new)) => {
                collection.update(txn, old.as_doc(), new.doc.as_doc(), update_kind(new))?;
            }
            Effect::Insert(document) => collection.insert(txn, document.as_doc())?,
        }
        Ok(())
    }

    fn outcome(self, return_new: bool) -> FindAndModifyOutcome {
        match self {
            Effect::Nothing => FindAndModifyOutcome::default(),
            Effect::Delete(old) => FindAndModifyOutcome { value: Some(old), n: 1, ..FindAndModifyOutcome::default() },
            Effect::Update(old, new) => {
                let value = if return_new { new.map_or(old, |new| new.doc) } else { old };
                FindAndModifyOutcome { value: Some(value), n: 1, updated_existing: true, upserted: None }
            }
            Effect::Insert(document) => {
                let upserted = document.get("_id").map(ValueRef::to_value);
                let value = return_new.then_some(document);
                FindAndModifyOutcome { value, n: 1, updated_existing: false, upserted }
            }
        }
    }
}
