//! `update`.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::Stage;
use arbor_query::{UpdateSpec, UpdateStatement};

use super::cursor_reply::collation;
use super::write_reply::{append_errors, check_count};
use crate::Result;
use crate::arguments::Field;
use crate::call::Call;
use crate::metrics::Kind;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    call.server.metrics.count(Kind::Update, spec.updates.len() as u64);
    let outcome = arbor_query::update(call.database(), &spec, &call.interrupt)?;
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
pub fn parse<'c>(call: &Call<'c>) -> Result<UpdateSpec<'c>> {
    let namespace = call.namespace()?;
    let (mut ordered, mut let_variables, mut bypass_validation) = (true, None, false);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "updates" => {}
            "ordered" => ordered = field.bool(value)?,
            "let" => let_variables = Some(field.document(value)?),
            "bypassDocumentValidation" => bypass_validation = field.bool(value)?,
            "stmtIds" => drop(field.array(value)?),
            _ => return Err(field.unknown()),
        }
    }
    let statements = call.documents("updates")?;
    check_count(call, statements.len())?;
    let updates = statements.into_iter().map(statement).collect::<Result<Vec<_>>>()?;
    let durability = call.generic.write_concern.durability();
    Ok(UpdateSpec { namespace, updates, ordered, let_variables, durability, bypass_validation })
}

fn statement(doc: Doc<'_>) -> Result<UpdateStatement<'_>> {
    let (mut q, mut u) = (None, None);
    let (mut c, mut multi, mut upsert, mut array_filters, mut hint) = (None, false, false, Vec::new(), None);
    for (name, value) in doc {
        let field = Field::new("update.updates", name);
        match name {
            "q" => q = Some(field.document(value)?),
            "u" => u = Some(modification(value)?),
            "c" => c = Some(field.document(value)?),
            "multi" => multi = field.bool(value)?,
            "upsert" => upsert = field.bool(value)?,
            "arrayFilters" => array_filters = field.documents(value)?,
            "hint" => hint = super::hint::read(field, value)?,
            "collation" => collation(field, value)?,
            "upsertSupplied" | "sampleId" => {}
            _ => return Err(field.unknown()),
        }
    }
    let q = q.ok_or_else(|| Field::new("update.updates", "q").missing())?;
    let u = u.ok_or_else(|| Field::new("update.updates", "u").missing())?;
    Ok(UpdateStatement { q, u, c, multi, upsert, array_filters, hint })
}

/// `u`; a pipeline with an unknown stage fails the whole command, as in MongoDB.
fn modification(value: ValueRef<'_>) -> Result<ValueRef<'_>> {
    if let ValueRef::Array(pipeline) = value {
        Stage::check_names(pipeline)?;
    }
    Ok(value)
}
