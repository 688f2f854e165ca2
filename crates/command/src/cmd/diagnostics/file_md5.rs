//! `filemd5`: the MD5 of a GridFS file, for drivers of its time, which check with it what they have written.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_lang::number::exact_i64;
use arbor_query::{BatchLimit, FindSpec};
use arbor_store::Namespace;
use md5::{Digest, Md5};

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    // what a client could do with the state of a digest is nothing
    call.only(&["root", "partialOk", "md5state"])?;
    let root = match call.optional("root") {
        Some(value) => call.field("root").string(value)?,
        None => "fs",
    };
    let chunks = Namespace::new(call.db, &format!("{root}.chunks"))?;
    let filter = DocBuf::new().with("files_id", call.target());
    let order = DocBuf::new().with("n", 1i32);
    let spec = FindSpec { filter: filter.as_doc(), sort: Some(order.as_doc()), ..FindSpec::new(chunks) };
    let mut cursor = arbor_query::find(&call.scope(), &spec, &call.interrupt)?;
    let (mut count, mut hash) = (0, Md5::new());
    loop {
        let batch = cursor.next_batch(BatchLimit::more(), &call.interrupt)?;
        for chunk in batch.docs.as_array().iter() {
            let ValueRef::Document(chunk) = chunk else { continue };
            add(&mut hash, chunk, count)?;
            count += 1;
        }
        if batch.exhausted {
            break;
        }
    }
    let text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    call.reply.append("numChunks", count as i32).append("md5", &*text);
    Ok(())
}

/// Adds the data of a chunk, which has to be the one of that number.
fn add(hash: &mut Md5, chunk: arbor_bson::Doc<'_>, expected: i64) -> Result<()> {
    let number = chunk.get("n").and_then(exact_i64);
    if number != Some(expected) {
        let text = format!("chunks out of order: expected {expected}, found {:?}", number);
        return Err(Error::new(Code(10_040), text));
    }
    match chunk.get("data") {
        Some(ValueRef::Binary { bytes, .. }) => {
            hash.update(bytes);
            Ok(())
        }
        _ => Err(Error::new(Code(50_847), format!("the data of chunk {expected} is not binary"))),
    }
}
