//! The hash of a value in a hashed index: the first 8 bytes, little-endian, of MD5 over the value's canonical form.
//!
//! | value | what is hashed, after the seed 0 (4 bytes) |
//! |---|---|
//! | any | the canonical type (i32); below the top, the field's name with its NUL |
//! | numbers | cut to a whole one, as i64: 2.3, 2 and NumberDecimal("2.9") hash alike, NaN as 0 |
//! | documents, arrays | their fields, each in this form, then the end: type 0 and an empty name |
//! | others | their bytes in BSON |
//!
//! All integers are little-endian. The hash is that of MongoDB's `convertShardKeyToHashed` and `$toHashedIndexKey`, so
//! that shard keys agree.

use arbor_bson::{DocBuf, Elements, Type, ValueRef};
use md5::{Digest, Md5};

use crate::stop;

/// The hash of a value; a missing one hashes as null. Of a part of it when the statement is to stop ([`stop::ended`]).
pub fn hash_of(value: ValueRef<'_>) -> i64 {
    let mut hasher = Md5::new();
    hasher.update(0i32.to_le_bytes());
    feed(&mut hasher, value);
    let digest = hasher.finalize();
    let (head, _) = digest.as_slice().split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    i64::from_le_bytes(*head)
}

/// Walks with a stack on the heap: an index build may read documents of versions that did not limit their depth.
fn feed(hasher: &mut Md5, value: ValueRef<'_>) {
    let mut open: Vec<Elements<'_>> = feed_head(hasher, None, value).into_iter().collect();
    while let Some(innermost) = open.last_mut() {
        if stop::tick().is_err() {
            return;
        }
        match innermost.next() {
            Some((name, value)) => open.extend(feed_head(hasher, Some(name), value)),
            None => {
                hasher.update(0i32.to_le_bytes());
                hasher.update([0]);
                open.pop();
            }
        }
    }
}

/// Feeds type, name and scalar value; returns the fields of a document or an array, which come next.
fn feed_head<'a>(hasher: &mut Md5, name: Option<&str>, value: ValueRef<'a>) -> Option<Elements<'a>> {
    hasher.update(canonical_type(value.ty()).to_le_bytes());
    if let Some(name) = name {
        hasher.update(name.as_bytes());
        hasher.update([0]);
    }
    match value {
        ValueRef::Document(doc) => return Some(doc.iter()),
        ValueRef::Array(array) => return Some(array.as_doc().iter()),
        value => match whole_number(value) {
            Some(number) => hasher.update(number.to_le_bytes()),
            None => hasher.update(bytes_of(value)),
        },
    }
    None
}

/// Returns the bytes of the value in a document: after the document's length, the type and an empty name, before its end.
fn bytes_of(value: ValueRef<'_>) -> Vec<u8> {
    let doc = DocBuf::new().with("", value);
    let bytes = doc.as_bytes();
    bytes.get(6..bytes.len() - 1).unwrap_or_default().to_vec()
}

/// Cut towards zero, and to the nearest `i64`.
fn whole_number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int32(n) => Some(n.into()),
        ValueRef::Int64(n) => Some(n),
        ValueRef::Double(n) => Some(n as i64),
        ValueRef::Decimal128(n) => Some(whole_decimal(n)),
        _ => None,
    }
}

fn whole_decimal(n: arbor_bson::Decimal128) -> i64 {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let against = |whole: i64| ValueRef::Decimal128(n).compare(ValueRef::Int64(whole));
    if n.is_nan() {
        return 0;
    }
    if against(i64::MAX) != Less {
        return i64::MAX;
    }
    if against(i64::MIN) != Greater {
        return i64::MIN;
    }
    // low <= n < high
    let (mut low, mut high) = (i128::from(i64::MIN), i128::from(i64::MAX));
    while high - low > 1 {
        let middle = (low + high) / 2;
        if against(middle as i64) == Less { high = middle } else { low = middle }
    }
    if low < 0 && against(low as i64) != Equal { high as i64 } else { low as i64 }
}

/// The number that types which compare with each other share.
fn canonical_type(ty: Type) -> i32 {
    match ty {
        Type::MinKey => -1,
        Type::MaxKey => 127,
        Type::Undefined => 0,
        Type::Null => 5,
        Type::Int32 | Type::Int64 | Type::Double | Type::Decimal128 => 10,
        Type::String | Type::Symbol => 15,
        Type::Document => 20,
        Type::Array => 25,
        Type::Binary => 30,
        Type::ObjectId => 35,
        Type::Bool => 40,
        Type::DateTime => 45,
        Type::Timestamp => 47,
        Type::Regex => 50,
        Type::DbPointer => 55,
        Type::JavaScript => 60,
        Type::JavaScriptWithScope => 65,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_example_of_to_hashed_index_key() {
        assert_eq!(hash_of(ValueRef::String("string to hash")), 763_543_691_661_428_748);
    }

    #[test]
    fn numbers_hash_by_their_whole_part() {
        let decimal = |text: &str| ValueRef::Decimal128(text.parse().unwrap());
        for (a, b) in [
            (ValueRef::Int32(2), ValueRef::Double(2.9)),
            (ValueRef::Int32(-2), ValueRef::Double(-2.9)),
            (ValueRef::Int64(2), decimal("2.3")),
            (ValueRef::Int64(-2), decimal("-2.3")),
            (ValueRef::Int32(0), ValueRef::Double(f64::NAN)),
            (ValueRef::Int64(i64::MAX), ValueRef::Double(1e300)),
        ] {
            assert_eq!(hash_of(a), hash_of(b), "{a} {b}");
        }
        assert_ne!(hash_of(ValueRef::Int32(2)), hash_of(ValueRef::Int32(3)));
        assert_ne!(hash_of(ValueRef::Int32(1)), hash_of(ValueRef::Bool(true)));
    }

    #[test]
    fn documents_hash_by_names_and_values() {
        let with = |name: &str, value: i32| DocBuf::new().with(name, value);
        let hash = |doc: &DocBuf| hash_of(ValueRef::Document(doc.as_doc()));
        assert_eq!(hash(&with("a", 1)), hash(&DocBuf::new().with("a", 1.5)));
        assert_ne!(hash(&with("a", 1)), hash(&with("b", 1)));
        assert_ne!(hash(&with("a", 1)), hash(&with("a", 2)));
    }
}
