//! A document before it is stored for the first time.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::{Doc, DocBuf, STORED_DEPTH_MAX, Timestamp, USER_SIZE_MAX, ValueRef};
use arbor_lang::{Code, Error, Result, stop};

use super::object_id::new_object_id;

/// The document as it is stored: `_id` first, made up if it is missing; a top-level `Timestamp(0, 0)` is now.
pub(crate) fn prepare(doc: Doc<'_>) -> Result<Cow<'_, [u8]>> {
    check_size(doc.as_bytes().len())?;
    check_depth(doc)?;
    let id = doc.get("_id");
    if let Some(id) = id {
        check_id(id)?;
    }
    let id_is_first = doc.first().is_some_and(|(name, _)| name == "_id");
    if id_is_first && !doc.iter().any(|(_, value)| stop::tick().is_err() || is_empty_timestamp(value)) {
        return Ok(Cow::Borrowed(doc.as_bytes()));
    }
    let mut stored = DocBuf::new();
    match id {
        Some(id) => stored.append("_id", id),
        None => stored.append("_id", new_object_id()),
    };
    for (name, value) in doc.iter().filter(|(name, _)| *name != "_id") {
        stop::tick()?;
        let value = if is_empty_timestamp(value) { ValueRef::Timestamp(now()) } else { value };
        stored.append(name, value);
    }
    check_size(stored.as_bytes().len())?;
    Ok(Cow::Owned(stored.into_bytes()))
}

/// Checks that a value may be an `_id`.
pub(super) fn check_id(id: ValueRef<'_>) -> Result<()> {
    let refused = match id {
        ValueRef::Array(_) => "array",
        ValueRef::Regex { .. } => "regex",
        ValueRef::Undefined => "undefined",
        ValueRef::Document(doc) => return check_id_fields(doc),
        _ => return Ok(()),
    };
    let message = format!("The '_id' value cannot be of type {refused}");
    Err(Error::new(Code::INVALID_ID_FIELD, message))
}

fn check_id_fields(id: Doc<'_>) -> Result<()> {
    match id.iter().find(|(name, _)| name.starts_with('$') && !matches!(*name, "$ref" | "$id" | "$db")) {
        Some((name, _)) => {
            let message = format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.");
            Err(Error::new(Code::DOLLAR_PREFIXED_FIELD_NAME, message))
        }
        None => Ok(()),
    }
}

fn check_size(bytes: usize) -> Result<()> {
    if bytes > USER_SIZE_MAX {
        let message = format!("object to insert too large. size in bytes: {bytes}, max size: {USER_SIZE_MAX}");
        return Err(Error::bad_value(message));
    }
    Ok(())
}

fn check_depth(doc: Doc<'_>) -> Result<()> {
    if doc.is_deeper_than(STORED_DEPTH_MAX) {
        let message = format!("cannot insert document because it exceeds {STORED_DEPTH_MAX} levels of nesting");
        return Err(Error::new(Code::OVERFLOW, message));
    }
    Ok(())
}

fn is_empty_timestamp(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Timestamp(Timestamp { seconds: 0, increment: 0 }))
}

fn now() -> Timestamp {
    static INCREMENT: AtomicU32 = AtomicU32::new(0);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
    Timestamp { seconds, increment: INCREMENT.fetch_add(1, Ordering::Relaxed).wrapping_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, Value};

    fn names(bytes: &[u8]) -> Vec<&str> {
        Doc::trusted(bytes).iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn no_deeper_than_can_be_written_back() {
        let deep = |levels: usize| (1..levels).fold(DocBuf::new(), |inner, _| DocBuf::new().with("a", &inner));
        assert!(prepare(deep(STORED_DEPTH_MAX).as_doc()).is_ok());
        assert_eq!(prepare(deep(STORED_DEPTH_MAX + 1).as_doc()).unwrap_err().code, Code::OVERFLOW);
    }

    #[test]
    fn the_id_comes_first() {
        let doc = DocBuf::new().with("a", 1i32).with("_id", 7i32).with("b", 2i32);
        let stored = prepare(doc.as_doc()).unwrap();
        assert_eq!(names(&stored), ["_id", "a", "b"]);
        let doc = DocBuf::new().with("a", 1i32);
        let stored = prepare(doc.as_doc()).unwrap();
        assert!(matches!(Doc::trusted(&stored).get("_id"), Some(ValueRef::ObjectId(_))));
        let doc = DocBuf::new().with("_id", 1i32).with("a", 1i32);
        assert!(matches!(prepare(doc.as_doc()), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn an_empty_timestamp_is_now_at_the_top_only() {
        let zero = Timestamp { seconds: 0, increment: 0 };
        let inner = DocBuf::new().with("t", zero);
        let doc = DocBuf::new().with("_id", 1i32).with("t", zero).with("in", &inner);
        let stored = prepare(doc.as_doc()).unwrap();
        assert!(!is_empty_timestamp(Doc::trusted(&stored).get("t").unwrap()));
        assert!(
            matches!(Doc::trusted(&stored).get("in"), Some(ValueRef::Document(doc)) if is_empty_timestamp(doc.get("t").unwrap()))
        );
    }

    #[test]
    fn some_types_are_no_ids() {
        let regex = Value::Regex { pattern: "a".into(), options: String::new() };
        let dollar = Value::Document(DocBuf::new().with("$x", 1i32));
        for (id, code) in [(Value::Array(ArrayBuf::new()), 53), (regex, 53), (Value::Undefined, 53), (dollar, 52)] {
            let doc = DocBuf::new().with("_id", &id);
            match prepare(doc.as_doc()) {
                Err(error) => assert_eq!(error.code.0, code),
                Ok(_) => panic!("{id:?} was accepted"),
            }
        }
    }
}
