//! `dropIndexes`: by name, by names, by key pattern, or all but `_id_`.

use arbor_bson::{Code, Type, ValueRef};
use arbor_protocol::arguments::type_name;
use arbor_store::IndexSelection;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["index"])?;
    let namespace = call.namespace()?;
    let value = call.body.get("index").ok_or_else(|| call.field("index").missing())?;
    let which = match value {
        ValueRef::String("*") => IndexSelection::All,
        ValueRef::String(name) => IndexSelection::Names(vec![name.to_owned()]),
        ValueRef::Document(key) => IndexSelection::Key(key.to_buf()),
        ValueRef::Array(names) => {
            let names = names.iter().map(|name| Ok(call.field("index").string(name)?.to_owned()));
            match names.collect::<Result<Vec<_>>>()? {
                names if names == ["*"] => IndexSelection::All,
                names => IndexSelection::Names(names),
            }
        }
        other => return Err(wrong_type(other.ty())),
    };
    let (namespace, which) = crate::cmd::shared::time_series::dropped(call, namespace, which)?;
    call.database().store.refuse_view(&namespace)?;
    match call.database().store.drop_indexes(&namespace, &which) {
        Err(arbor_store::Error::NamespaceNotFound(_)) => {
            Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("ns not found {namespace}")))
        }
        before => {
            call.reply.append("nIndexesWas", before? as i32);
            if matches!(value, ValueRef::String("*")) {
                call.reply.append("msg", "non-_id indexes dropped for collection");
            }
            Ok(())
        }
    }
}

fn wrong_type(found: Type) -> Error {
    Error::type_mismatch(format!(
        "BSON field 'dropIndexes.index' is the wrong type '{}', expected types '[string, object]'",
        type_name(found)
    ))
}
