//! `count`.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::{Context, Filter};
use arbor_query::CountSpec;

use crate::Result;
use crate::call::Call;
use crate::cmd::shared::cursor_reply::collation;
use crate::session::collections;

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    let found = match collections::documents(call.server, &spec.namespace)? {
        Some(documents) => count_of(&spec, documents)?,
        None => arbor_query::count(&call.scope(), &spec, &call.interrupt)?,
    };
    match i32::try_from(found) {
        Ok(found) => call.reply.append("n", found),
        Err(_) => call.reply.append("n", found as i64),
    };
    Ok(())
}

/// Counts documents that are not those of a collection.
fn count_of(spec: &CountSpec<'_>, documents: Vec<DocBuf>) -> Result<u64> {
    let filter = Filter::parse(spec.query, &Context::new(arbor_protocol::log::now_ms()))?;
    let mut found = 0u64;
    for document in documents {
        found += u64::from(filter.matches(document.as_doc())?);
    }
    let found = found.saturating_sub(spec.skip);
    Ok(spec.limit.map_or(found, |limit| found.min(limit)))
}

/// Reads the command; `explain` uses it as well.
pub fn parse<'c>(call: &Call<'c>) -> Result<CountSpec<'c>> {
    let (namespace, query) = (call.namespace()?, Doc::empty());
    let mut spec = CountSpec { namespace, query, skip: 0, limit: None, hint: None, collation: None };
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "query" if matches!(value, ValueRef::Null) => {}
            "query" => spec.query = field.document(value)?,
            "skip" => spec.skip = field.unsigned(value)?,
            // A negative limit means the same as a positive one here.
            "limit" => spec.limit = Some(field.integer(value)?.unsigned_abs()).filter(|limit| *limit > 0),
            "hint" => spec.hint = crate::cmd::shared::hint::read(field, value)?,
            "collation" => spec.collation = collation(field, value)?,
            "fields" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(spec)
}
