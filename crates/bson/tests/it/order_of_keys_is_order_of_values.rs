//! compare is a total order; keys sort as their values do, in both directions and compound; decoding restores the values.

use std::cmp::Ordering;

use crate::values::{edge_numbers, nest, value};
use arbor_bson::{
    Doc, DocBuf, Value, compare, identical,
    keystring::{Decoder, KeyBuilder, component_len, decode, key_of, type_lower_bound, type_upper_bound},
};
use proptest::prelude::*;

use crate::values;

fn key(value: &Value, descending: bool) -> Vec<u8> {
    KeyBuilder::new().push(value.as_ref(), descending).finish().bytes
}

fn check_pair(a: &Value, b: &Value) {
    let order = a.compare(b);
    assert_eq!(b.compare(a), order.reverse(), "{a:?} {b:?}");
    assert_eq!(
        key(a, false).cmp(&key(b, false)),
        order,
        "ascending\n{a:?} {:02x?}\n{b:?} {:02x?}",
        key(a, false),
        key(b, false)
    );
    assert_eq!(key(a, true).cmp(&key(b, true)), order.reverse(), "descending\n{a:?}\n{b:?}");
}

fn check_decode(value: &Value) {
    for descending in [false, true] {
        let key = KeyBuilder::new().push(value.as_ref(), descending).finish();
        let back = decode(&key.bytes, &key.type_bits, &[descending]).unwrap();
        assert!(identical(back[0].as_ref(), value.as_ref()), "{value:?} came back as {:?}", back[0]);
        assert_eq!(component_len(&key.bytes, descending), Ok(key.bytes.len()), "{value:?}");
        let ty = value.as_ref().canonical_type();
        let bounds = type_lower_bound(ty, descending)..type_upper_bound(ty, descending);
        assert!(bounds.contains(&key.bytes[0]), "{value:?}");
    }
}

/// Every edge number against every other, and all of them sorted: neighbours in order means transitive.
#[test]
fn edge_numbers_against_each_other() {
    let mut numbers = edge_numbers();
    numbers.iter().for_each(check_decode);
    let keys: Vec<_> = numbers.iter().map(|v| key(v, false)).collect();
    for (a, key_a) in numbers.iter().zip(&keys) {
        for (b, key_b) in numbers.iter().zip(&keys) {
            assert_eq!(a.compare(b), key_a.cmp(key_b), "{a:?} {b:?}");
        }
    }
    numbers.sort_by(|a, b| a.compare(b));
    assert!(numbers.is_sorted_by(|a, b| a.compare(b).is_le()));
}

#[test]
fn deep_values() {
    for levels in [1, 50, 199] {
        let (low, high) = (nest(Value::Int32(1), levels), nest(Value::Double(1.5), levels));
        check_pair(&low, &high);
        check_pair(&low, &nest(Value::Int64(1), levels));
        check_decode(&low);
        check_decode(&high);
    }
}

#[test]
fn the_common_types_need_no_type_bits() {
    for value in [Value::Int32(-5), Value::Int64(1 << 40), Value::Double(0.25), Value::from("x"), Value::Double(1e30)] {
        assert_eq!(key_of(value.as_ref()).type_bits, [], "{value:?}");
    }
    assert_eq!(key_of(Value::Int32(5).as_ref()).bytes.len(), 2);
    assert_eq!(key_of(Value::from("abc").as_ref()).bytes.len(), 5);
}

#[test]
fn bytes_that_are_no_key() {
    for bytes in [
        &[][..],
        &[0x02],
        &[0xFF],
        &[0x30, b'a'],
        &[0x25, 1],
        &[0x30, 0xFF, 0],
        &[0x34, 10],
        &[0x34, 10, 1, 1, 0, 0x1C, 0],
    ] {
        assert!(decode(bytes, &[], &[false]).is_err(), "{bytes:02x?}");
    }
    let key = key_of(Value::Int32(1).as_ref()).bytes;
    assert!(decode(&key, &[], &[]).is_err());
    assert!(decode(&[0x38; 300], &[], &[false]).is_err());
    assert!(component_len(&[0x38; 300], false).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pairs(a in value(), b in value()) {
        check_pair(&a, &b);
        check_pair(&a, &a);
        check_decode(&a);
    }

    #[test]
    fn numbers(a in values::number(), b in values::number()) {
        check_pair(&a, &b);
        check_decode(&a);
    }

    #[test]
    fn total_order(a in value(), b in value(), c in value()) {
        let mut all = [a, b, c];
        all.sort_by(|a, b| a.compare(b));
        let [a, b, c] = &all;
        prop_assert!(a.compare(b).is_le() && b.compare(c).is_le() && a.compare(c).is_le());
    }

    #[test]
    fn compound(a in proptest::collection::vec(value(), 3), b in proptest::collection::vec(value(), 3),
        flags in proptest::collection::vec(any::<bool>(), 3), shared in 0usize..3) {
        let b: Vec<Value> = a[..shared].iter().chain(&b[shared..]).cloned().collect();
        let build = |values: &[Value]| {
            let mut builder = KeyBuilder::new();
            values.iter().zip(&flags).for_each(|(value, flag)| _ = builder.push(value.as_ref(), *flag));
            builder.finish()
        };
        let (key_a, key_b) = (build(&a), build(&b));
        let order = a.iter().zip(&b).zip(&flags).fold(Ordering::Equal, |order, ((a, b), descending)| {
            let own = if *descending { b.compare(a) } else { a.compare(b) };
            order.then(own)
        });
        prop_assert_eq!(key_a.bytes.cmp(&key_b.bytes), order);
        let back = decode(&key_a.bytes, &key_a.type_bits, &flags).unwrap();
        for (value, back) in a.iter().zip(&back) {
            prop_assert!(identical(value.as_ref(), back.as_ref()), "{value:?} {back:?}");
        }
        let first = component_len(&key_a.bytes, flags[0]).unwrap();
        prop_assert_eq!(first, key(&a[0], flags[0]).len());
        let mut decoder = Decoder::new(&key_a.bytes, &key_a.type_bits);
        decoder.next(flags[0]).unwrap();
        prop_assert_eq!(decoder.rest(), &key_a.bytes[first..]);
    }

    #[test]
    fn open_ends_of_compound_bounds(prefix in value(), value in value(), flags in any::<(bool, bool)>()) {
        let mut builder = KeyBuilder::new();
        let full = builder.push(prefix.as_ref(), flags.0).push(value.as_ref(), flags.1).finish().bytes;
        let low = builder.push(prefix.as_ref(), flags.0).push_min().finish().bytes;
        let high = builder.push(prefix.as_ref(), flags.0).push_max().finish().bytes;
        prop_assert!(low < full && full < high);
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x10u8..0x60], 0..40),
        types in proptest::collection::vec(0u8..8, 0..8), descending in any::<bool>()) {
        let skipped = component_len(&bytes, descending);
        if let Ok(value) = Decoder::new(&bytes, &types).next(descending) {
            prop_assert!(skipped.is_ok());
            let wrapped = DocBuf::new().with("v", &value);
            let limits = arbor_bson::Limits { depth_max: 300, size_max: 1 << 20 };
            let valid = arbor_bson::validate(wrapped.as_bytes(), limits);
            prop_assert!(valid.is_ok(), "{valid:?}");
        }
    }

    #[test]
    fn documents_built_are_valid_and_equal_bytes_compare_equal(a in value()) {
        let doc = DocBuf::new().with("v", &a);
        let parsed = Doc::parse(doc.as_bytes()).unwrap();
        prop_assert!(compare(parsed.get("v").unwrap(), a.as_ref()).is_eq());
    }
}
