//! `dataSize`: bytes and number of a collection's documents, from the counters.

use std::time::Instant;

use arbor_store::Namespace;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    let begun = Instant::now();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "estimate" => drop(field.bool(value)?),
            "keyPattern" | "min" | "max" | "maxSize" | "maxObjects" => {
                return Err(Error::not_supported("dataSize over a range"));
            }
            _ => call.unknown(field)?,
        }
    }
    let namespace = Namespace::parse(call.field("dataSize").string(call.target())?)?;
    call.database().store.refuse_view(&namespace)?;
    let (mut bytes, mut documents) = (0, 0);
    if let Some(collection) = call.database().store.collection(&namespace) {
        let view = call.database().transactions.read()?;
        bytes = arbor_store::data_size(&view, &collection)?;
        documents = arbor_store::count(&view, &collection)?;
    }
    call.reply.append("estimate", false).append("size", bytes as i64).append("numObjects", documents as i64);
    call.reply.append("millis", begun.elapsed().as_millis() as i64);
    Ok(())
}
