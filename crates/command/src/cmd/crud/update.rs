//! `update`.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::Stage;
use arbor_protocol::arguments::{Field, present};
use arbor_protocol::metrics::Kind;
use arbor_query::{UpdateSpec, UpdateStatement};

use crate::call::Call;
use crate::cmd::shared::cursor_reply::collation;
use crate::cmd::shared::write_reply::{append_errors, check_count};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    call.server.metrics.count(Kind::Update, spec.updates.len() as u64);
    let outcome = arbor_query::update(&call.scope(), &spec, &call.interrupt)?;
    call.server.metrics.documents.updated.add(outcome.modified);
    call.reply.append("n", (outcome.matched + outcome.upserted.len() as u64) as i32);
    if !outcome.upserted.is_empty() {
        let mut array = ArrayBuf::new();
        for upserted in &outcome.upserted {
            array.push(&DocBuf::new().with("index", upserted.index as i32).with("_id", &upserted.id));
        }
        call.reply.append("upserted", &array);
    }
    call.reply.append("nModified", outcome.modified as i32);
    append_errors(call, outcome.errors)
}

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<UpdateSpec<'c>> {
    let namespace = call.namespace()?;
    let (mut ordered, mut let_variables, mut bypass_validation) = (true, None, false);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "updates" => {}
            "ordered" => ordered = field.bool(value)?,
            "let" => let_variables = Some(field.document(value)?),
            "bypassDocumentValidation" => bypass_validation = field.bool(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let statements = call.documents("updates")?;
    check_count(call, statements.len())?;
    let updates = statements.into_iter().map(statement).collect::<Result<Vec<_>>>()?;
    let durability = call.generic.write_concern.durability();
    Ok(UpdateSpec { namespace, updates, ordered, let_variables, durability, bypass_validation })
}

pub(crate) fn statement(doc: Doc<'_>) -> Result<UpdateStatement<'_>> {
    let (mut q, mut u) = (None, None);
    let mut statement = UpdateStatement::new(Doc::empty(), ValueRef::Null);
    for (name, value) in present(doc) {
        let field = Field::new("update.updates", name);
        match name {
            "q" => q = Some(field.document(value)?),
            "u" => u = Some(modification(value)?),
            "c" => statement.c = Some(field.document(value)?),
            _ => option(&mut statement, field, value)?,
        }
    }
    statement.q = q.ok_or_else(|| Field::new("update.updates", "q").missing())?;
    statement.u = u.ok_or_else(|| Field::new("update.updates", "u").missing())?;
    check_sort(&statement)?;
    Ok(statement)
}

/// A field that the statements of `update` and `bulkWrite` both have.
pub(crate) fn option<'c>(statement: &mut UpdateStatement<'c>, field: Field<'c>, value: ValueRef<'c>) -> Result<()> {
    match field.name {
        "multi" => statement.multi = field.bool(value)?,
        "upsert" => statement.upsert = field.bool(value)?,
        "arrayFilters" => statement.array_filters = field.documents(value)?,
        "hint" => statement.hint = crate::cmd::shared::hint::read(field, value)?,
        "sort" => statement.sort = Some(field.document(value)?),
        "collation" => statement.collation = collation(field, value)?,
        "upsertSupplied" | "sampleId" => {}
        _ => return Err(field.unknown().into()),
    }
    Ok(())
}

/// A sort chooses the one document that is changed.
pub(crate) fn check_sort(statement: &UpdateStatement<'_>) -> Result<()> {
    if statement.multi && statement.sort.is_some() {
        return Err(Error::failed_to_parse("Cannot specify sort with multi=true"));
    }
    Ok(())
}

/// `u`; a pipeline with an unknown stage fails the whole command, as in MongoDB.
pub(crate) fn modification(value: ValueRef<'_>) -> Result<ValueRef<'_>> {
    if let ValueRef::Array(pipeline) = value {
        Stage::check_names(pipeline)?;
    }
    Ok(value)
}
