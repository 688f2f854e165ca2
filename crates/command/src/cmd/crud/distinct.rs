//! `distinct`.

use arbor_bson::{Code, Doc, ValueRef};
use arbor_protocol::cluster_time::timestamp;
use arbor_query::{DistinctSpec, QueryShape};

use crate::call::Call;
use crate::cmd::shared::cursor_reply::collation;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    call.note_shape(|| QueryShape::doc_of_distinct(&spec));
    let settings = call.query_settings(|| QueryShape::of_distinct(&spec))?;
    let scope = call.scope().with_hints(settings.as_ref().map(|settings| &settings.hints));
    let values = arbor_query::distinct(&scope, &spec, &call.interrupt)?;
    call.reply.append("values", &values);
    if let Some((_, time)) = call.view {
        call.reply.append("atClusterTime", timestamp(*time));
    }
    Ok(())
}

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<DistinctSpec<'c>> {
    let (mut key, mut query, mut hint, mut own) = (None, Doc::empty(), None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "key" => key = Some(without_null_byte(field.string(value)?)?),
            "query" if matches!(value, ValueRef::Null) => {}
            "query" => query = field.document(value)?,
            "hint" => hint = crate::cmd::shared::hint::read(field, value)?,
            "collation" => own = collation(field, value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let key = key.ok_or_else(|| call.field("key").missing())?;
    Ok(DistinctSpec { namespace: call.namespace()?, key, query, hint, collation: own })
}

fn without_null_byte(key: &str) -> Result<&str> {
    if key.contains('\0') {
        return Err(Error::new(Code(31032), "The 'key' field of a distinct must not contain a null byte"));
    }
    Ok(key)
}
