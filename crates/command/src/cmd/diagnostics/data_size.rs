//! `dataSize`: bytes and number of a collection's documents, from the counters; of a range of an index by reading it.

use std::time::Instant;

use arbor_bson::{Doc, DocBuf};
use arbor_protocol::arguments::is_present;
use arbor_query::{BatchLimit, FindSpec, Hint};
use arbor_store::Namespace;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let begun = Instant::now();
    let (mut min, mut max, mut pattern) = (None, None, None);
    let (mut bytes_max, mut documents_max) = (u64::MAX, u64::MAX);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "estimate" => drop(field.bool(value)?),
            "keyPattern" => pattern = Some(field.document(value)?),
            "min" => min = Some(field.document(value)?),
            "max" => max = Some(field.document(value)?),
            "maxSize" => bytes_max = limit(field.integer(value)?),
            "maxObjects" => documents_max = limit(field.integer(value)?),
            _ => call.unknown(field)?,
        }
    }
    if !is_present(call.target()) {
        return Err(call.field("dataSize").missing().into());
    }
    let namespace = Namespace::parse(call.field("dataSize").string(call.target())?)?;
    call.database().store.refuse_view(&namespace)?;
    let range = match (min.filter(|min| !min.is_empty()), max.filter(|max| !max.is_empty())) {
        (Some(min), Some(max)) => Some((min, max)),
        (None, None) => None,
        _ => return Err(Error::bad_value("only one of min or max specified")),
    };
    let (mut bytes, mut documents) = (0, 0);
    if let Some(collection) = call.database().store.collection(&namespace) {
        let view = call.database().transactions.read()?;
        bytes = arbor_store::data_size(&view, &collection)?;
        documents = arbor_store::count(&view, &collection)?;
        if range.is_some() || bytes > bytes_max || documents > documents_max {
            (bytes, documents) = counted(call, namespace, pattern, range, (bytes_max, documents_max))?;
        }
    }
    call.reply.append("estimate", false).append("size", bytes as i64).append("numObjects", documents as i64);
    call.reply.append("millis", begun.elapsed().as_millis() as i64);
    Ok(())
}

/// 0 and less: no limit.
fn limit(number: i64) -> u64 {
    u64::try_from(number).ok().filter(|number| *number > 0).unwrap_or(u64::MAX)
}

/// Reads the documents of a range until a limit is passed.
fn counted(
    call: &Call<'_>,
    namespace: Namespace,
    pattern: Option<Doc<'_>>,
    range: Option<(Doc<'_>, Doc<'_>)>,
    (bytes_max, documents_max): (u64, u64),
) -> Result<(u64, u64)> {
    let own: DocBuf = match (pattern, range) {
        (Some(pattern), _) => pattern.to_buf(),
        (None, Some((min, _))) => min.iter().map(|(name, _)| (name, 1i32)).collect(),
        (None, None) => DocBuf::new(),
    };
    let spec = FindSpec {
        hint: range.map(|_| Hint::Pattern(own.as_doc())),
        min: range.map(|(min, _)| min),
        max: range.map(|(_, max)| max),
        ..FindSpec::new(namespace)
    };
    let mut cursor = arbor_query::find(&call.scope(), &spec, &call.interrupt)?;
    let (mut bytes, mut documents) = (0, 0);
    loop {
        let batch = cursor.next_batch(BatchLimit::more(), &call.interrupt)?;
        for document in batch.docs.as_array().iter() {
            let arbor_bson::ValueRef::Document(document) = document else { continue };
            bytes += document.as_bytes().len() as u64;
            documents += 1;
            if bytes > bytes_max || documents > documents_max {
                return Ok((bytes, documents));
            }
        }
        if batch.exhausted {
            return Ok((bytes, documents));
        }
    }
}
