//! Ranges of a shard key as a predicate: what a shard adds to the filters of routers, so that they do not see documents of ranges
//! that it does not own, and a router to a statement of which it repeats a part. No user writes it.

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::{Error, Result, hash_of};

/// Name of the predicate. Its value is `{key, ranges: [low, high, ...]}`, with KeyStrings as the bounds.
pub(super) const OUTSIDE: &str = "$_arborOutside";

/// Documents whose shard key is in none of the ranges.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    key: DocBuf,
    /// In the order of the key, and apart from each other.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KeyRanges {
    /// The ranges may overlap.
    pub fn new(key: DocBuf, mut ranges: Vec<(Vec<u8>, Vec<u8>)>) -> KeyRanges {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let joins = next.0 <= before.1;
            if joins && next.1 > before.1 {
                before.1 = std::mem::take(&mut next.1);
            }
            joins
        });
        KeyRanges { key, ranges }
    }

    pub(super) fn parse(value: ValueRef<'_>) -> Result<KeyRanges> {
        let wrong = || Error::bad_value(format!("{OUTSIDE} needs a key and ranges"));
        let ValueRef::Document(spec) = value else { return Err(wrong()) };
        let (Some(ValueRef::Document(key)), Some(ValueRef::Array(bounds))) = (spec.get("key"), spec.get("ranges"))
        else {
            return Err(wrong());
        };
        let mut bounds = bounds.iter().map(|bound| match bound {
            ValueRef::Binary { bytes, .. } => Ok(bytes.to_vec()),
            _ => Err(wrong()),
        });
        let mut ranges = Vec::new();
        while let Some(low) = bounds.next() {
            ranges.push((low?, bounds.next().ok_or_else(wrong)??));
        }
        Ok(KeyRanges::new(key.to_buf(), ranges))
    }

    /// Returns true if a document is in one of the ranges.
    pub fn contain(&self, doc: Doc<'_>) -> bool {
        self.range_with(&shard_key_of(self.key.as_doc(), doc)).is_some()
    }

    fn range_with(&self, key: &[u8]) -> Option<&(Vec<u8>, Vec<u8>)> {
        let before = self.ranges.partition_point(|(low, _)| low.as_slice() <= key).checked_sub(1)?;
        self.ranges.get(before).filter(|(_, high)| key < high.as_slice())
    }

    /// Returns true if all of a range is in the ranges.
    pub fn cover(&self, low: &[u8], high: &[u8]) -> bool {
        self.range_with(low).is_some_and(|(_, end)| high <= end.as_slice())
    }

    /// Returns the filter of the documents outside.
    pub fn outside(&self) -> DocBuf {
        let mut bounds = arbor_bson::ArrayBuf::new();
        for bytes in self.ranges.iter().flat_map(|(low, high)| [low, high]) {
            bounds.push(ValueRef::Binary { subtype: 0, bytes });
        }
        DocBuf::new().with(OUTSIDE, &DocBuf::new().with("key", &self.key).with("ranges", &bounds))
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Returns the shard key of a document as a KeyString. A missing field, or one behind an array, which only direct clients can
/// write, is null.
pub fn shard_key_of(key: Doc<'_>, doc: Doc<'_>) -> Vec<u8> {
    let mut builder = KeyBuilder::new();
    for (path, direction) in key {
        let value = at_path(doc, path).unwrap_or(ValueRef::Null);
        match direction {
            ValueRef::String("hashed") => builder.push(ValueRef::Int64(hash_of(value)), false),
            _ => builder.push(value, false),
        };
    }
    builder.bytes().to_vec()
}

/// Returns the values of a document's shard key, as bounds of chunks have them.
pub fn shard_key_values(key: Doc<'_>, doc: Doc<'_>) -> DocBuf {
    let value = |(path, direction)| {
        let value = at_path(doc, path).unwrap_or(ValueRef::Null);
        match direction {
            ValueRef::String("hashed") => (path, ValueRef::Int64(hash_of(value))),
            _ => (path, value),
        }
    };
    key.iter().map(value).collect()
}

fn at_path<'d>(doc: Doc<'d>, path: &str) -> Option<ValueRef<'d>> {
    match path.split_once('.') {
        None => doc.get(path).filter(|value| !matches!(value, ValueRef::Array(_))),
        Some((head, rest)) => match doc.get(head)? {
            ValueRef::Document(inner) => at_path(inner, rest),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use arbor_notation::doc;

    use super::*;
    use crate::{Context, Filter};

    #[test]
    fn documents_of_the_ranges_do_not_match() {
        let bound = |value: i32| {
            let mut builder = KeyBuilder::new();
            builder.push(ValueRef::Int32(value), false);
            builder.bytes().to_vec()
        };
        let key = doc("{'a.b': 1}");
        let ranges = KeyRanges::new(key, vec![(bound(0), bound(10)), (bound(20), bound(30))]);
        let filter = Filter::parse(ranges.outside().as_doc(), &Context::new(0)).unwrap();
        for (text, seen) in [
            ("{a: {b: -1}}", true),
            ("{a: {b: 0}}", false),
            ("{a: {b: 9.5}}", false),
            ("{a: {b: 10}}", true),
            ("{a: {b: Long(20)}}", false),
            ("{a: {b: 'x'}}", true),
            ("{}", true),
        ] {
            assert_eq!(filter.matches(doc(text).as_doc()).unwrap(), seen, "{text}");
            assert_eq!(ranges.contain(doc(text).as_doc()), !seen, "{text}");
        }
        assert!(Filter::parse(doc("{$_arborOutside: {key: {a: 1}, ranges: [1]}}").as_doc(), &Context::new(0)).is_err());
    }

    #[test]
    fn ranges_are_joined() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let ranges = [("m", "p"), ("a", "c"), ("c", "e"), ("n", "o"), ("p", "q"), ("x", "y")];
        let ranges = ranges.iter().map(|(low, high)| (bytes(low), bytes(high))).collect();
        let ranges = KeyRanges::new(doc("{a: 1}"), ranges);
        assert_eq!(ranges.ranges, [("a", "e"), ("m", "q"), ("x", "y")].map(|(low, high)| (bytes(low), bytes(high))));
        for (low, high, expected) in
            [("a", "e", true), ("b", "d", true), ("d", "f", false), ("e", "f", false), ("A", "b", false)]
        {
            assert_eq!(ranges.cover(low.as_bytes(), high.as_bytes()), expected, "{low} {high}");
        }
    }

    #[test]
    fn hashed_fields_are_compared_by_their_hashes() {
        let hash = hash_of(ValueRef::Int32(5));
        let bound = |hash: i64| {
            let mut builder = KeyBuilder::new();
            builder.push(ValueRef::Int64(hash), false);
            builder.bytes().to_vec()
        };
        let ranges = KeyRanges::new(doc("{a: 'hashed'}"), vec![(bound(hash), bound(hash + 1))]);
        assert!(ranges.contain(doc("{a: 5}").as_doc()) && !ranges.contain(doc("{a: 6}").as_doc()));
    }
}
