//! `count`.

use arbor_bson::{Doc, ValueRef};
use arbor_protocol::arguments::is_present;
use arbor_query::CountSpec;

use crate::call::Call;
use crate::cmd::shared::cursor_reply::collation;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    let found = arbor_query::count(&call.scope(), &spec, &call.interrupt)?;
    match i32::try_from(found) {
        Ok(found) => call.reply.append("n", found),
        Err(_) => call.reply.append("n", found as i64),
    };
    Ok(())
}

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<CountSpec<'c>> {
    let (namespace, query) = (call.namespace()?, Doc::empty());
    let mut spec = CountSpec { namespace, query, skip: 0, limit: None, hint: None, collation: None };
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "query" if matches!(value, ValueRef::Null) => {}
            "query" => spec.query = field.document(value)?,
            "skip" => spec.skip = field.unsigned(value)?,
            // A negative limit means the same as a positive one here.
            "limit" if !is_present(value) => return Err(Error::bad_value(format!("Field '{field}' must not be null"))),
            "limit" => spec.limit = Some(field.integer(value)?.unsigned_abs()).filter(|limit| *limit > 0),
            "hint" => spec.hint = crate::cmd::shared::hint::read(field, value)?,
            "collation" => spec.collation = collation(field, value)?,
            "fields" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(spec)
}
