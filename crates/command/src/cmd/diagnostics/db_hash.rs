//! `dbHash`: a digest of each collection's documents in `_id` order, all at one snapshot. Two servers whose collections hold
//! the same bytes answer the same digests.

use std::sync::Arc;
use std::time::Instant;

use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_store::{Collection, RecordCursor};
use arbor_txn::View;
use md5::{Digest, Md5};

use crate::call::Call;
use crate::cmd::diagnostics::current_op;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let begun = Instant::now();
    let mut requested: Option<Vec<String>> = None;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "collections" => {
                // COMPAT: what is no array names nothing
                let ValueRef::Array(names) = value else { continue };
                let named = |name| match name {
                    ValueRef::String(name) => Ok(str::to_owned(name)),
                    _ => Err(Error::bad_value("collections entries have to be strings")),
                };
                let names = names.iter().map(named).collect::<Result<Vec<String>>>()?;
                requested = Some(names).filter(|names| !names.is_empty());
            }
            _ => call.unknown(field)?,
        }
    }
    if call.db.is_empty() {
        return Err(Error::new(Code::INVALID_NAMESPACE, "Invalid db name: "));
    }
    let is_requested = |own: &Arc<Collection>| {
        requested.as_ref().is_none_or(|names| names.iter().any(|n| n == own.namespace.collection()))
    };
    let mut listed = call.database().store.list_collections(call.db);
    listed.retain(is_requested);
    let view = call.database().transactions.read()?;
    let (mut hashes, mut uuids, mut capped, mut whole) = (DocBuf::new(), DocBuf::new(), ArrayBuf::new(), Md5::new());
    for collection in &listed {
        let hash = hash_of(call, &view, collection)?;
        let name = collection.namespace.collection();
        whole.update(name);
        whole.update(&hash);
        if collection.capped().is_some() {
            capped.push(name);
        }
        hashes.append(name, &*hash);
        uuids.append(name, ValueRef::Binary { subtype: 4, bytes: collection.uuid.as_bytes() });
    }
    let reply = &mut call.reply;
    reply.append("host", &current_op::host(call.server));
    reply.append("collections", &hashes).append("capped", &capped).append("uuids", &uuids);
    reply.append("md5", &*text_of(whole)).append("timeMillis", begun.elapsed().as_millis() as i64);
    Ok(())
}

fn hash_of(call: &Call<'_>, view: &impl View, collection: &Collection) -> Result<String> {
    let mut hash = Md5::new();
    let mut cursor = RecordCursor::new(view, collection)?;
    let mut positioned = cursor.first()?;
    while positioned {
        call.interrupt.check()?;
        hash.update(cursor.doc().as_bytes());
        positioned = cursor.next()?;
    }
    Ok(text_of(hash))
}

fn text_of(hash: Md5) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
