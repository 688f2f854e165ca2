//! The form of a shard key.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::Field;

use crate::{Error, Result};

const KEY_FIELDS_MAX: usize = 32;

/// Returns true for the direction of a hashed field.
pub fn is_hashed(direction: ValueRef<'_>) -> bool {
    matches!(direction, ValueRef::String("hashed"))
}

pub fn checked_key(command: &'static str, body: Doc<'_>) -> Result<DocBuf> {
    let key = match body.get("key") {
        Some(ValueRef::Document(key)) => key,
        Some(other) => {
            return Err(Field::new(command, "key").wrong_type(other, "object").into());
        }
        None => return Err(Field::new(command, "key").missing().into()),
    };
    let refused = |text: String| Err(Error::bad_value(text));
    let (mut count, mut hashed) = (0, 0);
    for (path, direction) in key {
        count += 1;
        match direction {
            direction if is_hashed(direction) => hashed += 1,
            direction if arbor_lang::number::exact_i64(direction) == Some(1) => {}
            _ => {
                return refused(format!("Shard key {key} can contain either up to one 'hashed' field or a value of 1"));
            }
        }
        if path.is_empty() || path.starts_with('$') || path.split('.').any(str::is_empty) {
            return refused(format!("'{path}' is not a valid field of a shard key"));
        }
    }
    if count == 0 || count > KEY_FIELDS_MAX || hashed > 1 {
        return refused(format!(
            "Shard key {key} is not valid: it needs 1 to {KEY_FIELDS_MAX} fields, one of them hashed at most"
        ));
    }
    // 1.0 and Long(1) are the same direction
    let value = |direction| if is_hashed(direction) { direction } else { ValueRef::Int32(1) };
    Ok(key.iter().map(|(path, direction)| (path, value(direction))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn keys_are_checked() {
        let code = |key: &str| {
            checked_key("shardCollection", doc(&format!("{{shardCollection: 'd.c', key: {key}}}")).as_doc())
                .map_err(|e| e.code.0)
                .err()
        };
        for key in ["{a: 1}", "{a: 1.0, 'b.c': Long(1)}", "{a: 'hashed'}", "{a: 1, b: 'hashed'}"] {
            assert_eq!(code(key), None, "{key}");
        }
        for key in ["{}", "{a: -1}", "{a: 'text'}", "{a: 'hashed', b: 'hashed'}", "{'': 1}", "{'a..b': 1}", "{$a: 1}"] {
            assert_eq!(code(key), Some(2), "{key}");
        }
        assert_eq!(code("5"), Some(14));
    }
}
