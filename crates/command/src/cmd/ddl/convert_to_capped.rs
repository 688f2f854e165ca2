//! `convertToCapped`.

use arbor_bson::Code;

use crate::call::Call;
use crate::cmd::shared::capped;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["size"])?;
    let namespace = call.namespace()?;
    let size = call.required("size")?;
    let size = capped::size(call.field("size"), size)?;
    let store = &call.database().store;
    if store.collection(&namespace).is_none() {
        store.refuse_view(&namespace)?;
        let text = format!("source collection {namespace} does not exist");
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, text));
    }
    Ok(store.convert_to_capped(&namespace, size)?)
}
