//! The values of a shard key that a filter permits, for a router that chooses shards.

use arbor_bson::{Doc, ValueRef};
use arbor_lang::Filter;
use arbor_store::{FieldKind, hash_of};

use crate::plan::{IndexPart, IndexShape, key_spans};

/// Keys from `low` on and below `high`, in the order of KeyStrings. `point`: the whole key is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpan {
    pub low: Vec<u8>,
    pub high: Option<Vec<u8>>,
    pub point: bool,
}

/// More spans than this become one.
const SPANS_MAX: usize = 1000;

/// Returns the spans of keys of all documents that can match. Requires that no document has an array at a field of the key, which
/// shard keys forbid, and that strings of the key are in binary order.
pub fn shard_key_spans(filter: &Filter, key: Doc<'_>) -> Vec<KeySpan> {
    let part = |(path, direction): (&str, ValueRef<'_>)| IndexPart {
        path: path.to_owned(),
        kind: if matches!(direction, ValueRef::String("hashed")) { FieldKind::Hashed } else { FieldKind::Plain },
        descending: false,
        arrays: 0,
    };
    let shape = IndexShape::plain(String::new(), key.iter().map(part).collect());
    let spans = key_spans(&shape, filter, SPANS_MAX);
    spans.into_iter().map(|span| KeySpan { low: span.low, high: span.high, point: span.point }).collect()
}

/// Returns the value that a hashed field of a shard key has.
pub fn shard_key_hash(value: ValueRef<'_>) -> i64 {
    hash_of(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::keystring::KeyBuilder;
    use arbor_lang::Context;
    use arbor_notation::doc;

    fn spans(filter: &str, key: &str) -> Vec<KeySpan> {
        let filter = Filter::parse(doc(filter).as_doc(), &Context::new(0)).unwrap();
        shard_key_spans(&filter, doc(key).as_doc())
    }

    fn key(values: &[ValueRef<'_>]) -> Vec<u8> {
        let mut builder = KeyBuilder::new();
        for value in values {
            builder.push(*value, false);
        }
        builder.bytes().to_vec()
    }

    fn contains(spans: &[KeySpan], key: &[u8]) -> bool {
        let below = |high: &Option<Vec<u8>>| high.as_deref().is_none_or(|high| key < high);
        spans.iter().any(|span| span.low.as_slice() <= key && below(&span.high))
    }

    #[test]
    fn equality_ranges_prefixes_and_lists() {
        let one = spans("{a: 5}", "{a: 1}");
        assert!(one.len() == 1 && one[0].point);
        assert!(contains(&one, &key(&[5.into()])) && !contains(&one, &key(&[6.into()])));
        let range = spans("{a: {$gte: 5, $lt: 9}}", "{a: 1, b: 1}");
        assert!(contains(&range, &key(&[5.into(), 1.into()])) && contains(&range, &key(&[8.into(), "x".into()])));
        assert!(!contains(&range, &key(&[9.into(), 1.into()])) && !range[0].point);
        let prefix = spans("{a: 5}", "{a: 1, b: 1}");
        assert!(contains(&prefix, &key(&[5.into(), ValueRef::MinKey])) && !prefix[0].point);
        let list = spans("{a: {$in: [1, 7]}}", "{a: 1}");
        assert!(contains(&list, &key(&[7.into()])) && !contains(&list, &key(&[5.into()])));
        let all = spans("{b: 1}", "{a: 1}");
        assert!(contains(&all, &key(&[ValueRef::Null])) && contains(&all, &key(&["z".into()])));
        assert!(spans("{a: {$gt: 5, $lt: 2}}", "{a: 1}").is_empty());
    }

    #[test]
    fn hashed_keys_are_known_for_equality_only() {
        let one = spans("{a: 5}", "{a: 'hashed'}");
        let hash = shard_key_hash(ValueRef::Int32(5));
        assert!(one[0].point && contains(&one, &key(&[hash.into()])));
        assert!(contains(&spans("{a: {$gt: 5}}", "{a: 'hashed'}"), &key(&[i64::MIN.into()])));
    }
}
