//! Two documents: the order of their keys is the order of their values, ascending and descending. The same bytes taken
//! as a key: refused, or decoded to something whose own key is decoded to the same.
#![no_main]

use arbor_bson::{Doc, ValueRef, compare, identical, keystring};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (Some(&split), descending) = (bytes.first(), bytes.len() % 2 == 1) else { return };
    let (left, right) = bytes[1..].split_at((split as usize).min(bytes.len() - 1));
    as_values(left, right);
    as_key(left, right, descending);
});

fn as_values(left: &[u8], right: &[u8]) {
    let (Ok(left), Ok(right)) = (Doc::parse(left), Doc::parse(right)) else { return };
    for (_, a) in left.iter() {
        for (_, b) in right.iter() {
            let order = compare(a, b);
            assert_eq!(compare(b, a), order.reverse());
            assert_eq!(key(a, false).cmp(&key(b, false)), order);
            assert_eq!(key(a, true).cmp(&key(b, true)), order.reverse());
        }
    }
}

fn key(value: ValueRef<'_>, descending: bool) -> Vec<u8> {
    keystring::KeyBuilder::new().push(value, descending).finish().bytes
}

fn as_key(bytes: &[u8], type_bits: &[u8], descending: bool) {
    let Ok(values) = keystring::decode(bytes, type_bits, &[descending]) else { return };
    for value in values {
        let key = keystring::KeyBuilder::new().push(value.as_ref(), descending).finish();
        let again = keystring::decode(&key.bytes, &key.type_bits, &[descending]).expect("a key is decoded");
        assert!(again.iter().all(|again| identical(again.as_ref(), value.as_ref())));
    }
}
