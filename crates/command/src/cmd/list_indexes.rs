//! `listIndexes`.

use arbor_lang::Code;

use super::cursor_reply::{answer_documents, cursor_option};
use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let mut batch_size = None;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "cursor" => batch_size = cursor_option(field, value)?,
            "includeBuildUUIDs" | "includeIndexBuildInfo" => drop(field.bool(value)?),
            _ => return Err(field.unknown()),
        }
    }
    if let Some(specs) = super::time_series::index_specs(call, &namespace)? {
        return answer_documents(call, namespace, specs, batch_size);
    }
    call.database().store.refuse_view(&namespace)?;
    let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}"));
    let collection = call.database().store.collection(&namespace).ok_or_else(missing)?;
    answer_documents(call, namespace, collection.index_specs(), batch_size)
}
