//! The reference implementation reads what Arbor builds, and the reverse; decimals read and print alike.

use crate::values::{document, name, value};
use arbor_bson::{ArrayBuf, Decimal128, Doc, DocBuf, ObjectId, Timestamp, Value, ValueRef, compare_docs};
use bson::{Bson, RawDocumentBuf};
use proptest::prelude::*;

use crate::values;

/// A value of the reference crate as one of ours.
fn from_reference(value: &Bson) -> Value {
    match value {
        Bson::Double(v) => Value::Double(*v),
        Bson::String(v) => Value::String(v.clone()),
        Bson::Document(v) => Value::Document(
            v.iter()
                .map(|(name, v)| (name, from_reference(v)))
                .fold(DocBuf::new(), |doc, (name, v)| doc.with(name, &v)),
        ),
        Bson::Array(v) => Value::Array(v.iter().map(from_reference).fold(ArrayBuf::new(), |mut array, v| {
            array.push(&v);
            array
        })),
        Bson::Binary(v) => Value::Binary { subtype: v.subtype.into(), bytes: v.bytes.clone() },
        Bson::Undefined => Value::Undefined,
        Bson::ObjectId(v) => Value::ObjectId(ObjectId(v.bytes())),
        Bson::Boolean(v) => Value::Bool(*v),
        Bson::DateTime(v) => Value::DateTime(v.timestamp_millis()),
        Bson::Null => Value::Null,
        Bson::RegularExpression(v) => {
            Value::Regex { pattern: v.pattern.as_str().to_owned(), options: v.options.as_str().to_owned() }
        }
        Bson::JavaScriptCode(v) => Value::JavaScript(v.clone()),
        Bson::JavaScriptCodeWithScope(v) => {
            Value::JavaScriptWithScope { code: v.code.clone(), scope: DocBuf::from_trusted(v.scope.to_vec().unwrap()) }
        }
        Bson::Symbol(v) => Value::Symbol(v.clone()),
        Bson::Int32(v) => Value::Int32(*v),
        Bson::Int64(v) => Value::Int64(*v),
        Bson::Timestamp(v) => Value::Timestamp(Timestamp { seconds: v.time, increment: v.increment }),
        Bson::Decimal128(v) => Value::Decimal128(Decimal128(v.bytes())),
        Bson::MinKey => Value::MinKey,
        Bson::MaxKey => Value::MaxKey,
        // the reference has no way to look inside one
        Bson::DbPointer(_) => Value::Null,
    }
}

fn holds_pointer(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::DbPointer { .. } => true,
        ValueRef::Document(doc) => doc.iter().any(|(_, value)| holds_pointer(value)),
        ValueRef::Array(array) => array.iter().any(holds_pointer),
        ValueRef::JavaScriptWithScope { scope, .. } => scope.iter().any(|(_, value)| holds_pointer(value)),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn built_here_and_read_there(elements in proptest::collection::btree_map(name(), value(), 0..4)) {
        let elements: Vec<_> = elements.into_iter().collect();
        let doc = document(&elements);
        let raw = RawDocumentBuf::from_bytes(doc.as_bytes().to_vec()).unwrap();
        for (element, (name, _)) in raw.iter_elements().zip(doc.as_doc().iter()) {
            prop_assert_eq!(element.unwrap().key().as_str(), name);
        }
        if elements.iter().any(|(_, value)| holds_pointer(value.as_ref())) {
            return Ok(());
        }
        for (name, value) in &elements {
            let reference: Bson = raw.get(name.as_str()).unwrap().unwrap().try_into().unwrap();
            let back = from_reference(&reference);
            // repeated names inside nested documents are one to the reference
            if bson::doc! { "v": reference }.to_vec().unwrap() == DocBuf::new().with("v", value).as_bytes() {
                prop_assert!(back.compare(value).is_eq(), "{value:?} {back:?}");
            }
        }
    }

    /// Both accept or refuse foreign bytes that are almost a document (ours may be stricter, never laxer).
    #[test]
    fn damaged_documents(a in value(), at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = DocBuf::new().with("value", &a).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(doc) = Doc::parse(&bytes) {
            prop_assert!(compare_docs(doc, doc).is_eq());
            let raw = RawDocumentBuf::from_bytes(bytes.clone());
            prop_assert!(raw.is_ok_and(|raw| raw.iter_elements().all(|element| element.is_ok())), "{bytes:02x?}");
        }
    }

    #[test]
    fn decimals_print_alike(bits in any::<u128>(), coefficient in 0..=values::COEFFICIENT_MAX, exponent in -6176i32..=6111) {
        for decimal in [
            Decimal128::from_bits(bits),
            Decimal128::from_finite(arbor_bson::Finite { negative: bits & 1 == 1, coefficient, exponent }),
        ] {
            let reference = bson::Decimal128::from_bytes(decimal.0);
            let text = decimal.to_string();
            prop_assert_eq!(&text, &reference.to_string());
            let again: Decimal128 = text.parse().unwrap();
            prop_assert!(again.compare(decimal).is_eq());
            if !decimal.is_nan() && !decimal.is_zero() && !decimal.is_infinite() {
                prop_assert_eq!(again, decimal);
            }
        }
    }

    /// Sums, products and quotients of decimals against exact integers.
    #[test]
    fn decimal_arithmetic(a in -10i64.pow(16)..10i64.pow(16), b in -10i64.pow(16)..10i64.pow(16), scale in 0u32..30) {
        let decimal = |v: i64, scale: u32| format!("{v}E-{scale}").parse::<Decimal128>().unwrap();
        let (x, y) = (decimal(a, scale), decimal(b, scale));
        prop_assert_eq!(x + y, decimal(a + b, scale));
        prop_assert_eq!(x - y, decimal(a - b, scale));
        let product = format!("{}E-{}", i128::from(a) * i128::from(b), 2 * scale).parse::<Decimal128>().unwrap();
        prop_assert!((x * y).compare(product).is_eq());
        if b != 0 {
            prop_assert!((product / y).compare(x).is_eq());
            prop_assert!((x % y).compare(decimal(a % b, scale)).is_eq());
            let quotient = x / y;
            let error = (quotient * y - x).abs();
            prop_assert!(error.compare(x.abs() * "1E-33".parse().unwrap()).is_le());
        }
    }
}
