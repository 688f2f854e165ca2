//! Values of every type for property tests: anything, mixed with the edge values where mistakes live.

use arbor_bson::{ArrayBuf, Decimal128, DocBuf, Finite, ObjectId, Timestamp, Value};
use proptest::prelude::*;

pub(crate) const COEFFICIENT_MAX: u128 = 10u128.pow(34) - 1;

pub(crate) fn decimal(negative: bool, coefficient: u128, exponent: i32) -> Value {
    Value::Decimal128(Decimal128::from_finite(Finite { negative, coefficient, exponent }))
}

pub(crate) fn edge_numbers() -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for v in [0, 1, 2, 63, 64, 127, 128, 255, 256, 32767, 32768, 65536, i32::MAX] {
        values.extend([Value::Int32(v), Value::Int32(-v), Value::Int32(v.wrapping_neg().wrapping_sub(1))]);
    }
    for bits in [0u32, 1, 6, 7, 8, 15, 23, 31, 32, 39, 47, 52, 53, 54, 55, 62] {
        let v = 1i64 << bits;
        for v in [v - 1, v, v + 1] {
            values.extend([Value::Int64(v), Value::Int64(-v), Value::Double(v as f64), Value::Double(-(v as f64))]);
            values.extend([decimal(false, v as u128, 0), decimal(true, v as u128 * 10, -1)]);
            values.push(Value::Double((v as f64).next_up()));
            values.push(Value::Double((v as f64).next_down()));
        }
    }
    values.extend([i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1].map(Value::Int64));
    let doubles =
        [0.0, 0.1, 0.3, 0.5, 1.5, 1e-5, 1e300, 1.25e-310, 5e-324, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
    values.extend(doubles.iter().flat_map(|v| [Value::Double(*v), Value::Double(-v)]));
    values.extend([(1u64 << 63) as f64, 1.8446744073709552e19, 9.223372036854775e18].map(Value::Double));
    for coefficient in [0, 1, 5, 10, 1 << 53, (1 << 53) + 1, 1 << 63, (1 << 63) + 1, 10u128.pow(33), COEFFICIENT_MAX] {
        for exponent in [
            -6176, -6143, -400, -326, -324, -323, -310, -40, -34, -33, -20, -2, -1, 0, 1, 2, 18, 19, 20, 275, 308, 309,
            6111,
        ] {
            values.extend([decimal(false, coefficient, exponent), decimal(true, coefficient, exponent)]);
        }
    }
    for bits in [0x7C00u128, 0xFC00, 0x7E00, 0x7800, 0xF800, 0x6C10, 0xEC10, 0x7801] {
        values.push(Value::Decimal128(Decimal128::from_bits(bits << 112)));
    }
    values.push(Value::Decimal128(Decimal128::from_bits(0x3040 << 112 | (COEFFICIENT_MAX + 1))));
    values.push(Value::Double(f64::from_bits(0x7FF0_0000_0000_0001)));
    values
}

pub(crate) fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        4 => proptest::sample::select(edge_numbers()),
        2 => (-20i32..20).prop_map(Value::Int32),
        1 => any::<i32>().prop_map(Value::Int32),
        1 => any::<i64>().prop_map(Value::Int64),
        2 => any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        2 => (-2000i32..2000).prop_map(|v| Value::Double(f64::from(v) / 64.0)),
        2 => (any::<bool>(), 0..=COEFFICIENT_MAX, -6176i32..=6111).prop_map(|(n, c, e)| decimal(n, c, e)),
        2 => (any::<bool>(), 0u128..2000, -4i32..4).prop_map(|(n, c, e)| decimal(n, c, e)),
        2 => (any::<bool>(), 0..=COEFFICIENT_MAX, -40i32..4).prop_map(|(n, c, e)| decimal(n, c, e)),
        1 => any::<u128>().prop_map(|bits| Value::Decimal128(Decimal128::from_bits(bits))),
    ]
    .boxed()
}

pub(crate) fn text() -> BoxedStrategy<String> {
    let parts = ["", "a", "b", "\0", "\u{1}", "\u{2}", "é", "\u{7f}", "\u{10FFFF}", "ab"];
    proptest::collection::vec(proptest::sample::select(parts.to_vec()), 0..5).prop_map(|parts| parts.concat()).boxed()
}

/// Text that is allowed in a name.
pub(crate) fn name() -> BoxedStrategy<String> {
    text().prop_map(|text| text.replace('\0', "z")).boxed()
}

fn object_id() -> BoxedStrategy<ObjectId> {
    prop_oneof![any::<[u8; 12]>().prop_map(ObjectId), (0u8..3).prop_map(|b| ObjectId([b; 12]))].boxed()
}

pub(crate) fn scalar() -> BoxedStrategy<Value> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..6);
    prop_oneof![
        8 => number(),
        3 => text().prop_map(Value::String),
        1 => text().prop_map(Value::Symbol),
        1 => (prop_oneof![Just(0u8), Just(1), Just(5), any::<u8>().prop_map(|s| if s == 2 { 3 } else { s })], bytes)
            .prop_map(|(subtype, bytes)| Value::Binary { subtype, bytes }),
        1 => (254usize..257).prop_map(|len| Value::Binary { subtype: 0, bytes: vec![7; len] }),
        1 => object_id().prop_map(Value::ObjectId),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => prop_oneof![any::<i64>(), -2i64..2, Just(i64::MIN), Just(i64::MAX)].prop_map(Value::DateTime),
        1 => (any::<u32>(), 0u32..3).prop_map(|(seconds, increment)| Value::Timestamp(Timestamp { seconds, increment })),
        1 => (name(), name()).prop_map(|(pattern, options)| Value::Regex { pattern, options }),
        1 => (text(), object_id()).prop_map(|(namespace, id)| Value::DbPointer { namespace, id }),
        1 => text().prop_map(Value::JavaScript),
        1 => proptest::sample::select(vec![Value::MinKey, Value::MaxKey, Value::Null, Value::Undefined]),
    ]
    .boxed()
}

pub(crate) fn value() -> BoxedStrategy<Value> {
    scalar()
        .prop_recursive(4, 12, 3, |inner| {
            let elements = proptest::collection::vec((name(), inner.clone()), 0..3);
            prop_oneof![
                elements.clone().prop_map(|elements| Value::Document(document(&elements))),
                proptest::collection::vec(inner, 0..3)
                    .prop_map(|values| Value::Array(values.iter().collect::<ArrayBuf>())),
                (text(), elements)
                    .prop_map(|(code, scope)| Value::JavaScriptWithScope { code, scope: document(&scope) }),
            ]
        })
        .boxed()
}

pub(crate) fn document(elements: &[(String, Value)]) -> DocBuf {
    elements.iter().map(|(name, value)| (name, value)).collect()
}

/// `value` inside as many arrays and documents.
pub(crate) fn nest(value: Value, levels: usize) -> Value {
    (0..levels).fold(value, |inner, level| match level % 2 {
        0 => Value::Document(DocBuf::new().with("n", &inner)),
        _ => Value::Array([&inner].into_iter().collect()),
    })
}
