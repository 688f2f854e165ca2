//! `setIndexCommitQuorum`: how many members have to be ready before the build of an index ends. A member here does not wait for others,
//! so that there is no such build at any time.

use arbor_bson::{Code, ValueRef};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["indexNames", "commitQuorum"])?;
    let namespace = call.namespace()?;
    let names = call.field("indexNames");
    for (at, name) in names.array(call.required("indexNames")?)?.iter().enumerate() {
        if !matches!(name, ValueRef::String(_)) {
            return Err(arbor_protocol::arguments::wrong_type(&format!("{names}.{at}"), name, "string").into());
        }
    }
    match call.required("commitQuorum")? {
        ValueRef::String(_) | ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) => {}
        other => {
            let text = format!(
                "commitQuorum has to be a string or a number, found {}",
                arbor_protocol::arguments::type_name(other.ty())
            );
            return Err(Error::failed_to_parse(text));
        }
    }
    if call.database().store.collection(&namespace).is_none() {
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("collection '{namespace}' does not exist")));
    }
    let text = format!("Cannot find an index build on collection '{namespace}' with the provided index names");
    Err(Error::new(Code::INDEX_NOT_FOUND, text))
}
