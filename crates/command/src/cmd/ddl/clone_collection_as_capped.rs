//! `cloneCollectionAsCapped`: the last documents of a collection in a new capped one.

use arbor_bson::{Code, ValueRef};
use arbor_store::Namespace;

use crate::call::Call;
use crate::cmd::shared::capped;
use crate::error_map::invalid_namespace;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let source = named(call, "cloneCollectionAsCapped", call.target())?;
    let target = named(call, "toCollection", call.body.get("toCollection").unwrap_or(ValueRef::Null))?;
    let size = capped::size(call.field("size"), call.required("size")?)?;
    target.check_creatable()?;
    let store = &call.database().store;
    if store.collection(&source).is_none() {
        store.refuse_view(&source)?;
        let text = format!("source collection {source} does not exist");
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, text));
    }
    if store.collection(&target).is_some() || store.view(&target).is_some() {
        let text = format!("cloneCollectionAsCapped failed - destination collection {target} already exists.");
        return Err(Error::new(Code::NAMESPACE_EXISTS, text));
    }
    Ok(arbor_query::clone_as_capped(&call.scope(), &source, &target, size, &call.interrupt)?)
}

/// COMPAT: a name of the wrong type, or none, is a TypeMismatch here.
fn named(call: &Call<'_>, field: &str, value: ValueRef<'_>) -> Result<Namespace> {
    let name = call.field(field).string(value)?;
    if name.contains('$') {
        return Err(invalid_namespace(&format!("{}.{name}", call.db)));
    }
    Ok(Namespace::new(call.db, name)?)
}
