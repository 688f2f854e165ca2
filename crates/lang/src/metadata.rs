//! Metadata of a document, which is not in its fields: the score of a text search, a distance. `$meta` reads it.
//!
//! Most documents have none, and pay nothing for it: what evaluates takes an [`Input`], which a plain document becomes.

use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::stop;

/// The kinds of metadata, under the names that `$meta` calls them by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaKind {
    TextScore,
    GeoNearDistance,
    GeoNearPoint,
    SortKey,
    RecordId,
    IndexKey,
    RandVal,
    SearchScore,
    SearchHighlights,
    SearchScoreDetails,
    VectorSearchScore,
}

const NAMES: &[(&str, MetaKind)] = &[
    ("textScore", MetaKind::TextScore),
    ("geoNearDistance", MetaKind::GeoNearDistance),
    ("geoNearPoint", MetaKind::GeoNearPoint),
    ("sortKey", MetaKind::SortKey),
    ("recordId", MetaKind::RecordId),
    ("indexKey", MetaKind::IndexKey),
    ("randVal", MetaKind::RandVal),
    ("searchScore", MetaKind::SearchScore),
    ("searchHighlights", MetaKind::SearchHighlights),
    ("searchScoreDetails", MetaKind::SearchScoreDetails),
    ("vectorSearchScore", MetaKind::VectorSearchScore),
];

impl MetaKind {
    pub fn of_name(name: &str) -> Option<MetaKind> {
        NAMES.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// The metadata of one document: its values by the names of their kinds, so that it can go to disk as it is.
#[derive(Clone, Debug, Default)]
pub struct Metadata(DocBuf);

impl Metadata {
    pub fn new() -> Metadata {
        Metadata::default()
    }

    /// With one more value, of a kind that it has not yet.
    pub fn with<'v>(mut self, kind: MetaKind, value: impl Into<ValueRef<'v>>) -> Metadata {
        self.0.append(kind.name(), value);
        self
    }

    pub fn get(&self, kind: MetaKind) -> Option<ValueRef<'_>> {
        self.0.get(kind.name())
    }

    /// The form in which it goes to disk.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Requires what `as_bytes` gave.
    pub fn from_bytes(bytes: Vec<u8>) -> Metadata {
        Metadata(DocBuf::from_trusted(bytes))
    }
}

/// Input of an expression: a document, and its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub doc: Doc<'a>,
    pub metadata: Option<&'a Metadata>,
}

impl<'a> Input<'a> {
    pub fn new(doc: Doc<'a>, metadata: Option<&'a Metadata>) -> Input<'a> {
        Input { doc, metadata }
    }

    pub fn meta(&self, kind: MetaKind) -> Option<ValueRef<'a>> {
        self.metadata?.get(kind)
    }
}

impl<'a> From<Doc<'a>> for Input<'a> {
    fn from(doc: Doc<'a>) -> Input<'a> {
        Input { doc, metadata: None }
    }
}

/// Returns true if `{ $meta: <name> }` is anywhere in a specification; not in `$literal`. No longer true when the statement is to stop,
/// which its parsing finds out ([`stop::ended`]).
pub fn mentions(spec: ValueRef<'_>, kind: MetaKind) -> bool {
    match spec {
        _ if stop::tick().is_err() => false,
        ValueRef::Document(doc) => doc.iter().any(|(name, value)| match (name, value) {
            ("$meta", ValueRef::String(named)) => named == kind.name(),
            ("$literal", _) => false,
            (_, value) => mentions(value, kind),
        }),
        ValueRef::Array(array) => array.iter().any(|value| mentions(value, kind)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;
    use crate::notation::{doc, value};

    #[test]
    fn expressions_read_it() {
        let known = Metadata::new().with(MetaKind::TextScore, 1.5).with(MetaKind::GeoNearDistance, 7.0);
        let known = Metadata::from_bytes(known.as_bytes().to_vec());
        let own = doc("{a: 2}");
        let eval = |text: &str, metadata| {
            let expression = Expression::parse(value(text).as_ref(), &crate::Context::default()).unwrap();
            let value = expression.eval(Input::new(own.as_doc(), metadata)).unwrap();
            value.map(|value| crate::notation::show(value.as_ref()))
        };
        assert_eq!(eval("{$multiply: ['$a', {$meta: 'geoNearDistance'}]}", Some(&known)), Some("14.0".to_owned()));
        assert_eq!(eval("{$meta: 'geoNearDistance'}", Some(&known)), Some("7.0".to_owned()));
        assert_eq!(eval("{$meta: 'sortKey'}", Some(&known)), None);
        assert_eq!(eval("{$meta: 'geoNearDistance'}", None), None);
    }

    #[test]
    fn mentions_are_found_at_any_depth() {
        for (text, expect) in [
            ("{a: {$meta: 'textScore'}}", true),
            ("[{a: [1, {$add: [1, {$meta: 'textScore'}]}]}]", true),
            ("{a: {$meta: 'sortKey'}}", false),
            ("{a: {$literal: {$meta: 'textScore'}}}", false),
            ("'textScore'", false),
        ] {
            assert_eq!(mentions(value(text).as_ref(), MetaKind::TextScore), expect, "{text}");
        }
    }
}
