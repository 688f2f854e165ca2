//! Sort patterns and sort keys.

use std::cmp::Ordering;

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{Array, Doc, DocBuf, ValueRef};

use crate::document::with_value;
use crate::path::{Component, Leaf};
use crate::{Collation, Context, Error, Input, MetaKind, Path, Result, field_path, number, stop, text};

/// MongoDB's limit on the fields of a pattern.
const PARTS_MAX: usize = 32;

/// `{ a: 1, "b.c": -1 }`. Empty sorts nothing.
#[derive(Clone, Debug, Default)]
pub struct SortPattern {
    parts: Vec<SortPart>,
    collation: Collation,
    /// Two paths begin alike, so they may lead through the same array.
    may_share_array: bool,
}

/// One field of a sort pattern.
#[derive(Clone, Debug)]
pub struct SortPart {
    pub path: Path,
    pub descending: bool,
    /// `{ $meta: .. }`: it is not the path's value that is sorted by.
    pub meta: Option<MetaKind>,
}

impl SortPattern {
    pub fn parse(pattern: Doc, context: &Context) -> Result<SortPattern> {
        let mut parts: Vec<SortPart> = Vec::new();
        for (name, value) in pattern {
            let meta = parse_meta(name, value)?;
            let descending = match meta {
                Some(kind) => kind != MetaKind::GeoNearDistance,
                None => parse_direction(name, value)?,
            };
            let path = field_path::parse(name)?;
            if parts.iter().any(|part| part.path == path) {
                let message = format!("$sort key must not contain duplicate keys (duplicate: '{name}')");
                return Err(Error::location(7472500, message));
            }
            parts.push(SortPart { path, descending, meta });
            if parts.len() > PARTS_MAX {
                return Err(Error::location(13103, "too many compound keys"));
            }
        }
        Ok(SortPattern::of_parts(parts, &context.collation))
    }

    pub fn of_parts(parts: Vec<SortPart>, collation: &Collation) -> SortPattern {
        let alike = |(at, part): (usize, &SortPart)| {
            let shares = |earlier: &SortPart| earlier.meta.is_none() && earlier.path.head() == part.path.head();
            part.meta.is_none() && parts.iter().take(at).any(shares)
        };
        let may_share_array = parts.iter().enumerate().any(alike);
        SortPattern { parts, collation: collation.clone(), may_share_array }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// Returns the collation of its strings.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Bytes whose order is the order of the documents. An array sorts by its smallest element ascending and by its
    /// largest descending, a missing field as null. Errors: the statement ends.
    pub fn key<'d>(&self, input: impl Into<Input<'d>>) -> Result<Vec<u8>> {
        let input = input.into();
        let settled = self.settle(input.doc);
        if self.may_share_array {
            // the array may not have been read to its end
            stop::ended()?;
        }
        let doc = settled.as_ref().map_or(input.doc, DocBuf::as_doc);
        let mut key = KeyBuilder::new();
        for part in &self.parts {
            match part.meta {
                None => self.collation.push_key(&mut key, part.value(doc, &self.collation), part.descending),
                Some(MetaKind::RandVal) => drop(key.push(ValueRef::Double(rand::random()), part.descending)),
                Some(kind) => drop(key.push(input.meta(kind).unwrap_or(ValueRef::Null), part.descending)),
            }
        }
        Ok(key.finish().bytes)
    }

    /// Returns true if it sorts by metadata of this kind.
    pub fn reads(&self, kind: MetaKind) -> bool {
        self.parts.iter().any(|part| part.meta == Some(kind))
    }

    /// The order of two documents by this pattern, without building keys and without metadata.
    pub fn compare(&self, a: Doc, b: Doc) -> Ordering {
        let (settled_a, settled_b) = (self.settle(a), self.settle(b));
        let (a, b) = (settled_a.as_ref().map_or(a, DocBuf::as_doc), settled_b.as_ref().map_or(b, DocBuf::as_doc));
        let orders = self.parts.iter().filter(|part| part.meta.is_none()).map(|part| {
            let order = self.collation.compare(part.value(a, &self.collation), part.value(b, &self.collation));
            if part.descending { order.reverse() } else { order }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// If several paths lead through one array, the compared values come from one element: returns the document
    /// with that element in the place of the array, for the element that sorts first. `None`: no such array.
    fn settle(&self, doc: Doc) -> Option<DocBuf> {
        if !self.may_share_array {
            return None;
        }
        let (prefix, array) = self.shared_array(doc)?;
        let mut best: Option<DocBuf> = None;
        // an array inside the array is not entered: it has no fields
        let elements = array.iter().map(|element| (!matches!(element, ValueRef::Array(_))).then_some(element));
        for element in elements.chain(array.is_empty().then_some(None)) {
            if stop::tick().is_err() {
                break;
            }
            let candidate = with_value(doc, prefix, element);
            if best.as_ref().is_none_or(|best| self.compare(candidate.as_doc(), best.as_doc()).is_lt()) {
                best = Some(self.settle(candidate.as_doc()).unwrap_or(candidate));
            }
        }
        best
    }

    /// The first array that two paths lead through, and the path to it.
    fn shared_array<'d>(&self, doc: Doc<'d>) -> Option<(&[Component], Array<'d>)> {
        let mut seen: Vec<&[Component]> = Vec::new();
        for part in self.parts.iter().filter(|part| part.meta.is_none()) {
            let Some((prefix, array)) = first_array(doc, part.path.components()) else { continue };
            if seen.contains(&prefix) {
                return Some((prefix, array));
            }
            seen.push(prefix);
        }
        None
    }
}

/// The first array on a path and the part of the path that leads to it.
fn first_array<'p, 'd>(doc: Doc<'d>, path: &'p [Component]) -> Option<(&'p [Component], Array<'d>)> {
    let mut doc = doc;
    for (at, component) in path.iter().enumerate() {
        match doc.get(&component.name)? {
            ValueRef::Document(inner) => doc = inner,
            ValueRef::Array(array) => return Some((path.get(..=at)?, array)),
            _ => return None,
        }
    }
    None
}

impl SortPart {
    /// Sorts by the values at a path.
    pub fn of_path(path: Path, descending: bool) -> SortPart {
        SortPart { path, descending, meta: None }
    }

    /// Appends it to a pattern as `explain` shows it.
    pub fn show(&self, pattern: &mut DocBuf) {
        match self.meta {
            Some(kind) => pattern.append(self.path.as_str(), &DocBuf::new().with("$meta", kind.name())),
            None => pattern.append(self.path.as_str(), if self.descending { -1i32 } else { 1 }),
        };
    }

    /// The value a document sorts by.
    pub fn value<'a>(&self, doc: Doc<'a>, collation: &Collation) -> ValueRef<'a> {
        let mut best: Option<ValueRef<'a>> = None;
        let mut consider = |value: ValueRef<'a>| {
            let better = best.is_none_or(|best| collation.compare(value, best).is_lt() != self.descending);
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

/// `{ $meta: "textScore" }`: the best score first, the smallest distance first.
fn parse_meta(name: &str, value: ValueRef) -> Result<Option<MetaKind>> {
    let ValueRef::Document(spec) = value else { return Ok(None) };
    let mut fields = spec.iter();
    match (fields.next(), fields.next()) {
        (Some(("$meta", ValueRef::String(what))), None) => match MetaKind::of_name(what) {
            Some(kind @ (MetaKind::TextScore | MetaKind::RandVal | MetaKind::GeoNearDistance)) => Ok(Some(kind)),
            _ => Err(Error::location(31138, format!("Illegal $meta sort: {}", text::field(name, value)))),
        },
        (Some(("$meta", _)), Some(_)) => {
            Err(Error::failed_to_parse("Cannot have additional keys in a $meta sort specification"))
        }
        (Some(("$meta", _)), None) => {
            Err(Error::location(31138, format!("Illegal $meta sort: {}", text::field(name, value))))
        }
        _ => Err(Error::location(17312, "$meta is the only expression supported by $sort right now")),
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
        let pattern = SortPattern::parse(doc(pattern).as_doc(), &Context::new(0)).unwrap();
        let (a, b) = (doc(a), doc(b));
        let order = pattern.compare(a.as_doc(), b.as_doc());
        assert_eq!(pattern.key(a.as_doc()).unwrap().cmp(&pattern.key(b.as_doc()).unwrap()), order, "{a:?} {b:?}");
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
            ("{'a.x': 1, 'a.y': 1}", "{a: [{x: 1, y: 5}, {x: 2, y: 0}]}", "{a: {x: 1, y: 4}}", Ordering::Greater),
            ("{'a.x': 1, 'a.y': -1}", "{a: [{x: 1, y: 5}, {x: 1, y: 9}]}", "{a: {x: 1, y: 8}}", Ordering::Less),
            ("{'a.x': 1, 'a.y': 1}", "{a: []}", "{a: {x: null}}", Ordering::Equal),
            ("{'a.x': 1, 'a.y': 1}", "{a: [[{x: 1}]]}", "{a: {}}", Ordering::Equal),
            ("{'a.0': 1}", "{a: [3, 9]}", "{a: [4, 0]}", Ordering::Less),
        ] {
            assert_eq!(order(pattern, a, b), expect, "{pattern} {a} {b}");
            assert_eq!(order(pattern, b, a), expect.reverse(), "{pattern} {b} {a}");
        }
    }

    #[test]
    fn errors() {
        for (pattern, code) in [
            ("{a: 'x'}", 15974),
            ("{a: 2}", 15975),
            ("{a: true}", 15974),
            ("{a: {b: 1}}", 17312),
            ("{a: {$meta: 'x'}}", 31138),
            ("{'a.': 1}", 40353),
            ("{'$a': 1}", 16410),
        ] {
            assert_eq!(
                SortPattern::parse(doc(pattern).as_doc(), &Context::new(0)).unwrap_err().code.0,
                code,
                "{pattern}"
            );
        }
    }
}
