//! MongoDB's order of values across all types.
//!
//! Values are ordered by their canonical type first, then by value:
//!
//! | canonical | types | within |
//! |---|---|---|
//! | 1 | MinKey | equal |
//! | 3 | Undefined (and a missing value) | equal |
//! | 5 | Null | equal |
//! | 10 | Double, Int32, Int64, Decimal128 | by exact numeric value; NaN first and equal to itself; -0 = 0 |
//! | 15 | String, Symbol | bytes, or by another [`TextOrder`] |
//! | 20 | Document | field by field: canonical type, name, value; shorter first |
//! | 25 | Array | element by element; shorter first |
//! | 30 | Binary | length, subtype, bytes |
//! | 35, 40, 45, 47 | ObjectId, Bool, DateTime, Timestamp | bytes, false first, number, number |
//! | 50 | Regex | pattern, options |
//! | 55 | DbPointer | length of the namespace, namespace, id |
//! | 60, 65 | JavaScript, JavaScriptWithScope | code, scope |
//! | 127 | MaxKey | equal |
//!
//! C1: `compare` is a total order, and `keystring` encodes the same order (tests/order.rs checks both).
//! C2: nesting is walked with a stack on the heap, so that deep documents cannot exhaust the thread's stack.

use std::cmp::Ordering;

use crate::{
    Array, Decimal128, Doc, Elements, Value, ValueRef,
    decimal::{Finite, Parts},
    text_order::{ByBytes, TextOrder},
};

/// Canonical types as [`canonical_type`] gives them.
pub mod canonical {
    pub const MIN_KEY: u8 = 1;
    pub const UNDEFINED: u8 = 3;
    pub const NULL: u8 = 5;
    pub const NUMBER: u8 = 10;
    pub const STRING: u8 = 15;
    pub const DOCUMENT: u8 = 20;
    pub const ARRAY: u8 = 25;
    pub const BINARY: u8 = 30;
    pub const OBJECT_ID: u8 = 35;
    pub const BOOL: u8 = 40;
    pub const DATE_TIME: u8 = 45;
    pub const TIMESTAMP: u8 = 47;
    pub const REGEX: u8 = 50;
    pub const DB_POINTER: u8 = 55;
    pub const JAVASCRIPT: u8 = 60;
    pub const JAVASCRIPT_WITH_SCOPE: u8 = 65;
    pub const MAX_KEY: u8 = 127;
}

/// Returns the rank of a value's type among the types; types that compare with each other share a rank.
pub fn canonical_type(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::MinKey => canonical::MIN_KEY,
        ValueRef::Undefined => canonical::UNDEFINED,
        ValueRef::Null => canonical::NULL,
        ValueRef::Double(_) | ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Decimal128(_) => canonical::NUMBER,
        ValueRef::String(_) | ValueRef::Symbol(_) => canonical::STRING,
        ValueRef::Document(_) => canonical::DOCUMENT,
        ValueRef::Array(_) => canonical::ARRAY,
        ValueRef::Binary { .. } => canonical::BINARY,
        ValueRef::ObjectId(_) => canonical::OBJECT_ID,
        ValueRef::Bool(_) => canonical::BOOL,
        ValueRef::DateTime(_) => canonical::DATE_TIME,
        ValueRef::Timestamp(_) => canonical::TIMESTAMP,
        ValueRef::Regex { .. } => canonical::REGEX,
        ValueRef::DbPointer { .. } => canonical::DB_POINTER,
        ValueRef::JavaScript(_) => canonical::JAVASCRIPT,
        ValueRef::JavaScriptWithScope { .. } => canonical::JAVASCRIPT_WITH_SCOPE,
        ValueRef::MaxKey => canonical::MAX_KEY,
    }
}

/// The order of two values of any type. Symbol equals String, numbers of different types may be equal; see [`identical`].
pub fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    compare_by(&ByBytes, a, b)
}

/// [`compare`] with another order of strings, at any depth. Names of fields always compare by their bytes.
pub fn compare_by<O: TextOrder>(order: &O, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    canonical_type(a).cmp(&canonical_type(b)).then_with(|| compare_same_canonical(order, a, b))
}

pub fn compare_docs(a: Doc<'_>, b: Doc<'_>) -> Ordering {
    docs(&ByBytes, a, b)
}

fn docs<O: TextOrder>(order: &O, a: Doc<'_>, b: Doc<'_>) -> Ordering {
    // equal bytes are equal values of every type; NaN equals itself here
    if a.as_bytes() == b.as_bytes() {
        return Ordering::Equal;
    }
    walk(order, Frame { a: a.iter(), b: b.iter(), named: true })
}

pub fn compare_arrays(a: Array<'_>, b: Array<'_>) -> Ordering {
    arrays(&ByBytes, a, b)
}

fn arrays<O: TextOrder>(order: &O, a: Array<'_>, b: Array<'_>) -> Ordering {
    walk(order, Frame { a: a.as_doc().iter(), b: b.as_doc().iter(), named: false })
}

/// Same type and same bytes: an `Int32` 1 is not a `Double` 1, -0 is not 0.
pub fn identical(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    use ValueRef::*;
    match (a, b) {
        (Double(a), Double(b)) => a.to_bits() == b.to_bits(),
        (Decimal128(a), Decimal128(b)) => a == b,
        (Document(a), Document(b)) => a.as_bytes() == b.as_bytes(),
        (Array(a), Array(b)) => a.as_bytes() == b.as_bytes(),
        (JavaScriptWithScope { code: a, scope: x }, JavaScriptWithScope { code: b, scope: y }) => {
            a == b && x.as_bytes() == y.as_bytes()
        }
        (a, b) => a.ty() == b.ty() && compare_same_canonical(&ByBytes, a, b).is_eq(),
    }
}

impl ValueRef<'_> {
    pub fn compare(self, other: ValueRef<'_>) -> Ordering {
        compare(self, other)
    }

    pub fn canonical_type(self) -> u8 {
        canonical_type(self)
    }
}

impl Value {
    pub fn compare(&self, other: &Value) -> Ordering {
        compare(self.as_ref(), other.as_ref())
    }
}

fn compare_same_canonical<O: TextOrder>(order: &O, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match (a, b) {
        (ValueRef::Document(a), ValueRef::Document(b)) => docs(order, a, b),
        (ValueRef::Array(a), ValueRef::Array(b)) => arrays(order, a, b),
        (ValueRef::JavaScriptWithScope { code: a, scope: x }, ValueRef::JavaScriptWithScope { code: b, scope: y }) => {
            a.cmp(b).then_with(|| docs(order, x, y))
        }
        (a, b) => compare_scalars(order, a, b),
    }
}

struct Frame<'a, 'b> {
    a: Elements<'a>,
    b: Elements<'b>,
    named: bool,
}

fn walk<O: TextOrder>(texts: &O, mut frame: Frame<'_, '_>) -> Ordering {
    let mut outer = Vec::new();
    loop {
        let (name_a, a, name_b, b) = match (frame.a.next(), frame.b.next()) {
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((name_a, a)), Some((name_b, b))) => (name_a, a, name_b, b),
            (None, None) => match outer.pop() {
                Some(parent) => {
                    frame = parent;
                    continue;
                }
                None => return Ordering::Equal,
            },
        };
        let mut order = canonical_type(a).cmp(&canonical_type(b));
        if frame.named {
            order = order.then_with(|| name_a.cmp(name_b));
        }
        let inner = match (a, b) {
            _ if order.is_ne() => return order,
            (ValueRef::Document(a), ValueRef::Document(b)) => Frame { a: a.iter(), b: b.iter(), named: true },
            (ValueRef::Array(a), ValueRef::Array(b)) => {
                Frame { a: a.as_doc().iter(), b: b.as_doc().iter(), named: false }
            }
            (
                ValueRef::JavaScriptWithScope { code: a, scope: x },
                ValueRef::JavaScriptWithScope { code: b, scope: y },
            ) if a == b => Frame { a: x.iter(), b: y.iter(), named: true },
            (a, b) => match compare_scalars(texts, a, b) {
                Ordering::Equal => continue,
                order => return order,
            },
        };
        outer.push(std::mem::replace(&mut frame, inner));
    }
}

/// Requires values of one canonical type that hold no documents.
fn compare_scalars<O: TextOrder>(order: &O, a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    use ValueRef::*;
    match (a, b) {
        (Int32(a), Int32(b)) => a.cmp(&b),
        (Int64(a), Int64(b)) | (DateTime(a), DateTime(b)) => a.cmp(&b),
        (String(a) | Symbol(a), String(b) | Symbol(b)) => order.compare_text(a, b),
        (JavaScript(a), JavaScript(b)) => a.cmp(b),
        (ObjectId(a), ObjectId(b)) => a.cmp(&b),
        (Bool(a), Bool(b)) => a.cmp(&b),
        (Timestamp(a), Timestamp(b)) => a.cmp(&b),
        (Binary { subtype: s, bytes: a }, Binary { subtype: t, bytes: b }) => {
            a.len().cmp(&b.len()).then(s.cmp(&t)).then_with(|| a.cmp(b))
        }
        (Regex { pattern: a, options: x }, Regex { pattern: b, options: y }) => a.cmp(b).then_with(|| x.cmp(y)),
        (DbPointer { namespace: a, id: x }, DbPointer { namespace: b, id: y }) => {
            a.len().cmp(&b.len()).then_with(|| a.cmp(b)).then(x.cmp(&y))
        }
        (JavaScriptWithScope { code: a, .. }, JavaScriptWithScope { code: b, .. }) => a.cmp(b),
        (a, b) => compare_numbers(a, b),
    }
}

fn compare_numbers(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    use ValueRef::*;
    match (a, b) {
        (Int32(a), Int64(b)) => i64::from(a).cmp(&b),
        (Int64(a), Int32(b)) => a.cmp(&i64::from(b)),
        (Double(a), Double(b)) => compare_doubles(a, b),
        (Int32(a), Double(b)) => compare_doubles(f64::from(a), b),
        (Double(a), Int32(b)) => compare_doubles(a, f64::from(b)),
        (Int64(a), Double(b)) => compare_i64_f64(a, b),
        (Double(a), Int64(b)) => compare_i64_f64(b, a).reverse(),
        (Decimal128(a), Decimal128(b)) => a.compare(b),
        (Decimal128(a), Double(b)) => compare_decimal_f64(a, b),
        (Double(a), Decimal128(b)) => compare_decimal_f64(b, a).reverse(),
        (Decimal128(a), Int32(b)) => compare_decimal_i64(a, i64::from(b)),
        (Decimal128(a), Int64(b)) => compare_decimal_i64(a, b),
        (Int32(a), Decimal128(b)) => compare_decimal_i64(b, i64::from(a)).reverse(),
        (Int64(a), Decimal128(b)) => compare_decimal_i64(b, a).reverse(),
        _ => Ordering::Equal,
    }
}

fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// 2^63, the first double beyond every int64.
const INT64_END: f64 = 9_223_372_036_854_775_808.0;

fn compare_i64_f64(a: i64, b: f64) -> Ordering {
    if b.is_nan() || b < -INT64_END {
        return Ordering::Greater;
    }
    if b >= INT64_END {
        return Ordering::Less;
    }
    let whole = b.trunc();
    a.cmp(&(whole as i64)).then_with(|| compare_doubles(whole, b))
}

fn compare_decimal_i64(a: Decimal128, b: i64) -> Ordering {
    match a.parts() {
        Parts::Finite(a) => a.compare(Finite::from_i64(b)),
        other => other.rank().cmp(&2),
    }
}

fn compare_decimal_f64(a: Decimal128, b: f64) -> Ordering {
    match a.parts() {
        Parts::Finite(a) if b.is_finite() => a.compare_f64(b),
        parts => parts.rank().cmp(&rank_of_double(b)),
    }
}

fn rank_of_double(v: f64) -> u8 {
    match v {
        _ if v.is_nan() => 0,
        f64::NEG_INFINITY => 1,
        f64::INFINITY => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayBuf, DocBuf, ObjectId, Timestamp};

    /// Each row is one value (of equal ones) and the rows are in order.
    fn check_rows(rows: &[Vec<Value>]) {
        for (i, row) in rows.iter().enumerate() {
            for (j, other) in rows.iter().enumerate() {
                for a in row {
                    for b in other {
                        assert_eq!(a.compare(b), i.cmp(&j), "{a:?} against {b:?}");
                    }
                }
            }
        }
    }

    fn decimal(negative: bool, coefficient: u128, exponent: i32) -> Value {
        Value::Decimal128(Decimal128::from_finite(Finite { negative, coefficient, exponent }))
    }

    #[test]
    fn types_in_order() {
        let doc = DocBuf::new().with("a", 1i32);
        check_rows(&[
            vec![Value::MinKey],
            vec![Value::Undefined],
            vec![Value::Null],
            vec![Value::Double(f64::NAN), Value::Decimal128(Decimal128::NAN), Value::Double(-f64::NAN)],
            vec![1i32.into()],
            vec!["".into(), Value::Symbol("".into())],
            vec!["a".into(), Value::Symbol("a".into())],
            vec![DocBuf::new().into()],
            vec![doc.clone().into()],
            vec![ArrayBuf::new().into()],
            vec![Value::Binary { subtype: 0, bytes: vec![] }],
            vec![Value::Binary { subtype: 0, bytes: vec![9] }],
            vec![Value::Binary { subtype: 5, bytes: vec![1] }],
            vec![Value::Binary { subtype: 0, bytes: vec![0, 0] }],
            vec![ObjectId([0; 12]).into()],
            vec![ObjectId([1; 12]).into()],
            vec![false.into()],
            vec![true.into()],
            vec![Value::DateTime(-1)],
            vec![Value::DateTime(1)],
            vec![Timestamp { seconds: 0, increment: u32::MAX }.into()],
            vec![Timestamp { seconds: 1, increment: 0 }.into()],
            vec![Value::Regex { pattern: "a".into(), options: "".into() }],
            vec![Value::Regex { pattern: "a".into(), options: "i".into() }],
            vec![Value::DbPointer { namespace: "z".into(), id: ObjectId([9; 12]) }],
            vec![Value::DbPointer { namespace: "aa".into(), id: ObjectId([0; 12]) }],
            vec![Value::JavaScript("f".into())],
            vec![Value::JavaScriptWithScope { code: "f".into(), scope: DocBuf::new() }],
            vec![Value::JavaScriptWithScope { code: "f".into(), scope: doc }],
            vec![Value::MaxKey],
        ]);
    }

    #[test]
    fn numbers_in_order() {
        check_rows(&[
            vec![f64::NAN.into(), Value::Decimal128(Decimal128::NAN)],
            vec![f64::NEG_INFINITY.into(), Value::Decimal128(Decimal128::NEG_INFINITY)],
            vec![decimal(true, 1, 400)],
            vec![f64::MIN.into()],
            vec![i64::MIN.into(), (-INT64_END).into(), decimal(true, 1 << 63, 0)],
            vec![(i64::MIN + 1).into()],
            vec![(-1i32).into(), (-1.0).into(), decimal(true, 10, -1)],
            vec![(-f64::from_bits(1)).into()],
            vec![decimal(true, 1, -6176)],
            vec![0i32.into(), 0i64.into(), 0.0.into(), (-0.0).into(), decimal(true, 0, 7), decimal(false, 0, -7)],
            vec![decimal(false, 1, -6176)],
            vec![f64::from_bits(1).into()],
            vec![decimal(false, 1, -1)],
            vec![0.1.into()],
            vec![(1i64 << 53).into(), ((1i64 << 53) as f64).into()],
            vec![((1i64 << 53) + 1).into(), decimal(false, (1 << 53) + 1, 0)],
            vec![((1i64 << 53) as f64 + 2.0).into()],
            vec![i64::MAX.into(), decimal(false, i64::MAX as u128, 0)],
            vec![INT64_END.into(), decimal(false, 1 << 63, 0)],
            vec![f64::MAX.into()],
            vec![decimal(false, 1, 400)],
            vec![decimal(false, crate::decimal::COEFFICIENT_MAX, 6111)],
            vec![f64::INFINITY.into(), Value::Decimal128(Decimal128::INFINITY)],
        ]);
    }

    #[test]
    fn documents_by_type_then_name_then_value() {
        let doc = |name: &str, value: &Value| Value::from(DocBuf::new().with(name, value));
        let array = |values: &[i32]| Value::from(values.iter().copied().collect::<ArrayBuf>());
        check_rows(&[
            vec![DocBuf::new().into()],
            vec![doc("z", &1i32.into()), doc("z", &1.0.into())],
            vec![DocBuf::new().with("z", 1i32).with("a", 1i32).into()],
            vec![doc("a", &"x".into())],
            vec![doc("b", &"a".into())],
            vec![doc("b", &doc("c", &1i32.into()))],
            vec![doc("b", &doc("c", &2i32.into()))],
            vec![array(&[])],
            vec![array(&[1])],
            vec![array(&[1, 2])],
            vec![array(&[2])],
        ]);
    }

    #[test]
    fn array_names_do_not_count() {
        let odd = Array::trusted(&[11, 0, 0, 0, 10, b'x', 0, 10, b'x', 0, 0]);
        let even: ArrayBuf = [ValueRef::Null, ValueRef::Null].into_iter().collect();
        assert!(compare_arrays(odd, even.as_array()).is_eq());
    }

    #[test]
    fn identical_is_stricter() {
        assert!(identical(1i32.into(), 1i32.into()));
        assert!(!identical(1i32.into(), 1i64.into()));
        assert!(!identical(0.0.into(), (-0.0).into()));
        assert!(identical(f64::NAN.into(), f64::NAN.into()));
        assert!(!identical("a".into(), ValueRef::Symbol("a")));
    }

    #[test]
    fn deep_nesting_needs_no_thread_stack() {
        let nested =
            |inner: i32| (0..5000).fold(DocBuf::new().with("a", inner), |doc, _| DocBuf::new().with("a", &doc));
        assert!(compare_docs(nested(1).as_doc(), nested(2).as_doc()).is_lt());
    }
}
