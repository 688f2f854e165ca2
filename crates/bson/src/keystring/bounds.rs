//! Bytes that bound ranges of keys.

use super::class;
use crate::canonical;

/// First and last class of a canonical type.
fn classes(canonical_type: u8) -> (u8, u8) {
    let one = |class| (class, class);
    match canonical_type {
        canonical::MIN_KEY => one(class::MIN_KEY),
        canonical::UNDEFINED => one(class::UNDEFINED),
        canonical::NULL => one(class::NULL),
        canonical::NUMBER => (class::NAN, class::INFINITY),
        canonical::STRING => one(class::STRING),
        canonical::DOCUMENT => one(class::DOCUMENT),
        canonical::ARRAY => one(class::ARRAY),
        canonical::BINARY => one(class::BINARY),
        canonical::OBJECT_ID => one(class::OBJECT_ID),
        canonical::BOOL => (class::FALSE, class::TRUE),
        canonical::DATE_TIME => one(class::DATE_TIME),
        canonical::TIMESTAMP => one(class::TIMESTAMP),
        canonical::REGEX => one(class::REGEX),
        canonical::DB_POINTER => one(class::DB_POINTER),
        canonical::JAVASCRIPT => one(class::JAVASCRIPT),
        canonical::JAVASCRIPT_WITH_SCOPE => one(class::JAVASCRIPT_WITH_SCOPE),
        _ => one(class::MAX_KEY),
    }
}

/// Every component of that canonical type sorts at or after this byte, every component that sorts before the type before
/// it. For a descending component "before" is meant bytewise too: this is always the lower end of the range of bytes.
pub fn type_lower_bound(canonical_type: u8, descending: bool) -> u8 {
    let (first, last) = classes(canonical_type);
    if descending { !last } else { first }
}

/// Every component of that canonical type sorts before this byte, and none that sorts after the type.
pub fn type_upper_bound(canonical_type: u8, descending: bool) -> u8 {
    let (first, last) = classes(canonical_type);
    1 + if descending { !first } else { last }
}

/// The smallest bytes above all that begin with `prefix`; none if there are no such (a prefix of FF only).
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut above = prefix.get(..=keep)?.to_vec();
    *above.last_mut()? += 1;
    Some(above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ValueRef, keystring::KeyBuilder};

    #[test]
    fn successors() {
        assert_eq!(successor(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(successor(&[1, 0xFF, 0xFF]), Some(vec![2]));
        assert_eq!(successor(&[0xFF]), None);
        assert_eq!(successor(&[]), None);
    }

    #[test]
    fn type_bounds_hold_their_type_only() {
        let values = [
            ValueRef::MinKey,
            ValueRef::Null,
            ValueRef::Double(f64::NAN),
            ValueRef::Double(f64::INFINITY),
            ValueRef::String(""),
            ValueRef::String("\u{10FFFF}"),
            ValueRef::Bool(false),
            ValueRef::Bool(true),
            ValueRef::DateTime(0),
            ValueRef::MaxKey,
        ];
        for descending in [false, true] {
            for value in values {
                let bytes = KeyBuilder::new().push(value, descending).finish().bytes;
                for other in values {
                    let ty = other.canonical_type();
                    let (lower, upper) = (type_lower_bound(ty, descending), type_upper_bound(ty, descending));
                    let within = bytes >= vec![lower] && bytes < vec![upper];
                    assert_eq!(within, ty == value.canonical_type(), "{value:?} in the type of {other:?}");
                }
                let min = KeyBuilder::new().push_min().finish().bytes;
                let max = KeyBuilder::new().push_max().finish().bytes;
                assert!(min < bytes && bytes < max);
            }
        }
    }
}
