//! The plan cache: `planCacheClear`, what `$planCacheStats` shows, and the list of index filters, of which there are none.

use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_query::ShapeHash;
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::shared::cursor_reply::collation;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let (mut query, mut sort, mut projection, mut own) = (None, None, None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "query" => query = Some(field.document(value)?),
            "sort" => sort = Some(field.document(value)?),
            "projection" => projection = Some(field.document(value)?),
            "collation" => own = collation(field, value)?,
            _ => call.unknown(field)?,
        }
    }
    if query.is_none() && (sort.is_some() || projection.is_some()) {
        return Err(Error::bad_value("sort or projection provided without query"));
    }
    let default = || call.database().store.collection(&namespace).map(|found| found.collation.clone());
    let collation = own.or_else(default).unwrap_or_default();
    let shape = query.map(|query: Doc<'_>| ShapeHash::of_find(query, sort, projection, collation)).transpose()?;
    call.database().plan_cache.clear(&namespace, shape);
    Ok(())
}

pub fn list_filters(call: &mut Call<'_>) -> Result<()> {
    call.namespace()?;
    call.only(&[])?;
    call.reply.append("filters", &ArrayBuf::new());
    Ok(())
}

/// `$planCacheStats`.
pub fn stats(call: &Call<'_>, namespace: &Namespace) -> Vec<DocBuf> {
    let host = format!("{}:{}", arbor_protocol::process::host_name(), call.server.options.port);
    let entries = call.database().plan_cache.stats(namespace);
    entries.into_iter().map(|entry| entry.with("host", &host)).collect()
}
