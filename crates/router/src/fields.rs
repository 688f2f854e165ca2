//! Reading and rebuilding documents.

use arbor_bson::{Array, Doc, DocBuf, ObjectId, Timestamp, ValueRef};

pub(crate) fn text(value: ValueRef<'_>) -> Option<&str> {
    match value {
        ValueRef::String(text) => Some(text),
        _ => None,
    }
}

pub(crate) fn string<'d>(doc: Doc<'d>, name: &str) -> Option<&'d str> {
    doc.get(name).and_then(text)
}

pub(crate) fn document<'d>(doc: Doc<'d>, name: &str) -> Option<Doc<'d>> {
    match doc.get(name) {
        Some(ValueRef::Document(value)) => Some(value),
        _ => None,
    }
}

pub(crate) fn array<'d>(doc: Doc<'d>, name: &str) -> Option<Array<'d>> {
    match doc.get(name) {
        Some(ValueRef::Array(value)) => Some(value),
        _ => None,
    }
}

pub(crate) fn binary<'d>(doc: Doc<'d>, name: &str) -> Option<&'d [u8]> {
    match doc.get(name) {
        Some(ValueRef::Binary { bytes, .. }) => Some(bytes),
        _ => None,
    }
}

pub(crate) fn number_of(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Int32(value) => Some(value.into()),
        ValueRef::Int64(value) => Some(value as f64),
        ValueRef::Double(value) => Some(value),
        ValueRef::Decimal128(value) => Some(value.to_f64()),
        _ => None,
    }
}

pub(crate) fn number(doc: Doc<'_>, name: &str) -> Option<f64> {
    doc.get(name).and_then(number_of)
}

pub(crate) fn int(doc: Doc<'_>, name: &str) -> i64 {
    match doc.get(name) {
        Some(ValueRef::Int64(value)) => value,
        Some(value) => number_of(value).map_or(0, |value| value as i64),
        None => 0,
    }
}

pub(crate) fn is_true(doc: Doc<'_>, name: &str) -> bool {
    match doc.get(name) {
        Some(ValueRef::Bool(value)) => value,
        Some(value) => number_of(value).is_some_and(|value| value != 0.0),
        None => false,
    }
}

pub(crate) fn is_ok(reply: Doc<'_>) -> bool {
    is_true(reply, "ok")
}

pub(crate) fn timestamp(seconds: u32, increment: u32) -> ValueRef<'static> {
    ValueRef::Timestamp(Timestamp { seconds, increment })
}

pub(crate) fn object_id(doc: Doc<'_>, name: &str) -> Option<ObjectId> {
    match doc.get(name) {
        Some(ValueRef::ObjectId(id)) => Some(id),
        _ => None,
    }
}

/// Appends the fields of these names, as far as they are there.
pub(crate) fn copy(doc: Doc<'_>, names: &[&str], into: &mut DocBuf) {
    doc.iter().filter(|(name, _)| names.contains(name)).for_each(|(name, value)| {
        into.append(name, value);
    });
}

/// Returns the document without some fields.
pub(crate) fn without(doc: Doc<'_>, names: &[&str]) -> DocBuf {
    doc.iter().filter(|(name, _)| !names.contains(name)).collect()
}

/// Returns the value at a dotted path through documents; `Err`: there is an array on the way, or at its end.
pub(crate) fn at_path<'d>(doc: Doc<'d>, path: &str) -> Result<Option<ValueRef<'d>>, ()> {
    let mut doc = doc;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        match (doc.get(name), names.peek()) {
            (Some(ValueRef::Array(_)), _) => return Err(()),
            (value, None) => return Ok(value),
            (Some(ValueRef::Document(inner)), Some(_)) => doc = inner,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Returns a time of the cluster.
pub(crate) fn time(doc: Doc<'_>, name: &str) -> Option<u64> {
    match doc.get(name) {
        Some(ValueRef::Timestamp(time)) => Some(u64::from(time.seconds) << 32 | u64::from(time.increment)),
        _ => None,
    }
}

/// A reply of a server as this one passes it on: without what is appended again.
pub(crate) fn passed(reply: &DocBuf) -> DocBuf {
    without(reply.as_doc(), &["ok", "topologyVersion"])
}

/// Returns a reply of a shard as a part of the router's.
pub(crate) fn part(reply: &DocBuf) -> DocBuf {
    without(reply.as_doc(), &["topologyVersion", "$clusterTime", "operationTime", "$configTime", "$topologyTime"])
}
