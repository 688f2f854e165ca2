//! `delete`.

use arbor_bson::Doc;
use arbor_protocol::arguments::{Field, present};
use arbor_protocol::metrics::Kind;
use arbor_query::{DeleteSpec, DeleteStatement};

use crate::call::Call;
use crate::cmd::shared::cursor_reply::collation;
use crate::cmd::shared::write_reply::{append_errors, check_count};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    call.server.metrics.count(Kind::Delete, spec.deletes.len() as u64);
    let outcome = arbor_query::delete(&call.scope(), &spec, &call.interrupt)?;
    call.server.metrics.documents.deleted.add(outcome.deleted);
    call.reply.append("n", outcome.deleted as i32);
    append_errors(call, outcome.errors)
}

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<DeleteSpec<'c>> {
    let namespace = call.namespace()?;
    let (mut ordered, mut let_variables) = (true, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "deletes" => {}
            "ordered" => ordered = field.bool(value)?,
            "let" => let_variables = Some(field.document(value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    let statements = call.documents("deletes")?;
    check_count(call, statements.len())?;
    let deletes = statements.into_iter().map(statement).collect::<Result<Vec<_>>>()?;
    let durability = call.generic.write_concern.durability();
    Ok(DeleteSpec { namespace, deletes, ordered, let_variables, durability })
}

fn statement(doc: Doc<'_>) -> Result<DeleteStatement<'_>> {
    let (mut q, mut limit, mut hint, mut own) = (None, None, None, None);
    for (name, value) in present(doc) {
        let field = Field::new("delete.deletes", name);
        match name {
            "q" => q = Some(field.document(value)?),
            "limit" => limit = Some(field.integer(value)?),
            "hint" => hint = crate::cmd::shared::hint::read(field, value)?,
            "collation" => own = collation(field, value)?,
            "sampleId" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    let q = q.ok_or_else(|| Field::new("delete.deletes", "q").missing())?;
    let multi = match limit.ok_or_else(|| Field::new("delete.deletes", "limit").missing())? {
        0 => true,
        1 => false,
        other => {
            let text = format!("The limit field in delete objects must be 0 or 1. Got {other}");
            return Err(Error::failed_to_parse(text));
        }
    };
    Ok(DeleteStatement { q, multi, hint, collation: own })
}
