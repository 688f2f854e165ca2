//! Sort patterns and sort keys.

use std::cmp::Ordering;

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{Doc, ValueRef, compare};

use crate::path::Leaf;
use crate::{Error, Path, Result, field_path, number, text};

/// MongoDB's limit on the fields of a pattern.
const PARTS_MAX: usize = 32;

/// `{ a: 1, "b.c": -1 }`. Empty sorts nothing.
#[derive(Clone, Debug, Default)]
pub struct SortPattern {
    parts: Vec<SortPart>,
}

/// One field of a sort pattern.
#[derive(Clone, Debug)]
pub struct SortPart {
    pub path: Path,
    pub descending: bool,
}

impl SortPattern {
    pub fn parse(pattern: Doc) -> Result<SortPattern> {
        let mut parts: Vec<SortPart> = Vec::new();
        for (name, value) in pattern {
            let descending = parse_direction(name, value)?;
            let path = field_path::parse(name)?;
            if parts.iter().any(|part| part.path == path) {
                let message = format!("$sort key must not contain duplicate keys (duplicate: '{name}')");
                return Err(Error::location(7472500, message));
            }
            parts.push(SortPart { path, descending });
        }
        if parts.len() > PARTS_MAX {
            return Err(Error::location(13103, "too many compound keys"));
        }
        Ok(SortPattern { parts })
    }

    pub fn of_parts(parts: Vec<SortPart>) -> SortPattern {
        SortPattern { parts }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// Bytes whose order is the order of the documents. An array sorts by its smallest element ascending and by its
    /// largest descending, a missing field as null.
    pub fn key(&self, doc: Doc) -> Vec<u8> {
        let mut key = KeyBuilder::new();
        for part in &self.parts {
            key.push(part.value(doc), part.descending);
        }
        key.finish().bytes
    }

    /// The order of two documents by this pattern, without building keys.
    pub fn compare(&self, a: Doc, b: Doc) -> Ordering {
        let orders = self.parts.iter().map(|part| {
            let order = compare(part.value(a), part.value(b));
            if part.descending { order.reverse() } else { order }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// The order of two plain values (arrays as wholes), for sorting arrays of scalars.
    pub fn compare_values(a: ValueRef, b: ValueRef, descending: bool) -> Ordering {
        let order = compare(a, b);
        if descending { order.reverse() } else { order }
    }
}

impl SortPart {
    /// The value a document sorts by.
    pub fn value<'a>(&self, doc: Doc<'a>) -> ValueRef<'a> {
        let mut best: Option<ValueRef<'a>> = None;
        let mut consider = |value: ValueRef<'a>| {
            let better = best.is_none_or(|best| compare(value, best).is_lt() != self.descending);
            if better {
                best = Some(value);
            }
        };
        self.path.visit(doc, Leaf::Whole, &mut |visit| {
            match visit.value {
                Some(ValueRef::Array(array)) if array.is_empty() => consider(ValueRef::Undefined),
                Some(ValueRef::Array(array)) => array.iter().for_each(&mut consider),
                other => consider(other.unwrap_or(ValueRef::Null)),
            }
            false
        });
        best.unwrap_or(ValueRef::Null)
    }
}

/// 1 or -1; whether it is descending.
fn parse_direction(name: &str, value: ValueRef) -> Result<bool> {
    if let ValueRef::Document(meta) = value {
        return Err(match meta.first() {
            Some(("$meta", _)) => Error::not_implemented("sorting by $meta"),
            _ => illegal(name, value),
        });
    }
    if !number::is_number(value) {
        return Err(illegal(name, value));
    }
    match number::to_f64(value) {
        Some(1.0) => Ok(false),
        Some(-1.0) => Ok(true),
        _ => {
            let message = "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
            Err(Error::location(15975, message))
        }
    }
}

fn illegal(name: &str, value: ValueRef) -> Error {
    Error::location(15974, format!("Illegal key in $sort specification: {}", text::field(name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::doc;

    fn order(pattern: &str, a: &str, b: &str) -> Ordering {
        let pattern = SortPattern::parse(doc(pattern).as_doc()).unwrap();
        let (a, b) = (doc(a), doc(b));
        let order = pattern.compare(a.as_doc(), b.as_doc());
        assert_eq!(pattern.key(a.as_doc()).cmp(&pattern.key(b.as_doc())), order, "{a:?} {b:?}");
        order
    }

    #[test]
    fn orders() {
        for (pattern, a, b, expect) in [
            ("{a: 1}", "{a: 1}", "{a: 2.5}", Ordering::Less),
            ("{a: -1}", "{a: 1}", "{a: 2}", Ordering::Greater),
            ("{a: 1, b: -1}", "{a: 1, b: 1}", "{a: 1, b: 2}", Ordering::Greater),
            ("{a: 1}", "{}", "{a: null}", Ordering::Equal),
            ("{a: 1}", "{}", "{a: 0}", Ordering::Less),
            ("{a: 1}", "{a: 9}", "{a: 'x'}", Ordering::Less),
            ("{a: 1}", "{a: [5, 1]}", "{a: 2}", Ordering::Less),
            ("{a: -1}", "{a: [5, 1]}", "{a: 2}", Ordering::Less),
            ("{a: 1}", "{a: []}", "{a: null}", Ordering::Less),
            ("{'a.b': 1}", "{a: [{b: 3}, {b: 1}]}", "{a: {b: 2}}", Ordering::Less),
            ("{'a.b': 1}", "{a: [{c: 3}]}", "{a: {b: null}}", Ordering::Equal),
            ("{'a.b': 1}", "{a: 7}", "{}", Ordering::Equal),
            ("{'a.0': 1}", "{a: [3, 9]}", "{a: [4, 0]}", Ordering::Less),
        ] {
            assert_eq!(order(pattern, a, b), expect, "{pattern} {a} {b}");
            assert_eq!(order(pattern, b, a), expect.reverse(), "{pattern} {b} {a}");
        }
    }

    #[test]
    fn errors() {
        for (pattern, code) in
            [("{a: 'x'}", 15974), ("{a: 2}", 15975), ("{a: true}", 15974), ("{'a.': 1}", 40353), ("{'$a': 1}", 16410)]
        {
            assert_eq!(SortPattern::parse(doc(pattern).as_doc()).unwrap_err().code.0, code, "{pattern}");
        }
    }
}
