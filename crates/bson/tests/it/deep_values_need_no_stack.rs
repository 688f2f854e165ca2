//! Values that nest deeper than any limit: versions before the limits stored them, so nothing that reads bytes may rely on
//! the depth of a thread's stack.

use arbor_bson::keystring::{decode, key_of};
use arbor_bson::{ArrayBuf, Doc, ValueRef, compare, display, extjson};

const LEVELS: usize = 20_000;

/// `{a: {a: ... {}}}` in bytes that are written from the outside, as wrapping would copy them once for each level.
fn deep(ty: u8, name: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for level in (0..LEVELS).rev() {
        bytes.extend_from_slice(&((5 + 8 * level) as u32).to_le_bytes());
        if level > 0 {
            bytes.extend_from_slice(&[ty, name, 0]);
        }
    }
    bytes.resize(bytes.len() + LEVELS, 0);
    bytes
}

#[test]
fn everything_that_reads_bytes_ends() {
    let (documents, arrays) = (deep(0x03, b'a'), deep(0x04, b'0'));
    for bytes in [&documents, &arrays] {
        let value = ValueRef::Document(Doc::trusted(bytes));
        assert!(value.is_deeper_than(1000));
        let same: ArrayBuf = [value].into_iter().collect();
        assert!(compare(value, value).is_eq() && compare(value, (&same).into()).is_lt());
        let key = key_of(value);
        assert!(decode(&key.bytes, &key.type_bits, &[false]).is_err());
        assert!(display::shell(value).to_string().len() > LEVELS);
        assert!(extjson::value(value, extjson::Form::Relaxed).to_string().len() > LEVELS);
        drop(value.to_value());
    }
}
