//! `insert`.

use arbor_protocol::metrics::Kind;
use arbor_query::InsertSpec;

use crate::Result;
use crate::call::Call;
use crate::cmd::shared::write_reply::{append_errors, check_count};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    call.server.metrics.count(Kind::Insert, spec.documents.len() as u64);
    let outcome = arbor_query::insert(&call.scope(), &spec, &call.interrupt)?;
    call.server.metrics.documents.inserted.add(outcome.inserted);
    call.reply.append("n", outcome.inserted as i32);
    append_errors(call, outcome.errors)
}

/// Reads the command; a router checks it so.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<InsertSpec<'c>> {
    let namespace = call.namespace()?;
    let (mut ordered, mut bypass_validation) = (true, false);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "documents" => {}
            "ordered" => ordered = field.strict_bool(value)?,
            "bypassDocumentValidation" => bypass_validation = field.bool(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let documents = call.documents("documents")?;
    check_count(call, documents.len())?;
    let durability = call.generic.write_concern.durability();
    Ok(InsertSpec { namespace, documents, ordered, durability, bypass_validation })
}
