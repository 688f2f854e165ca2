//! `$text`: its allowed positions in a filter, and its evaluation for one document.
//!
//! The meaning of a search depends on the text index of the collection, unknown to the parser: [`TextNode::bind`] adds it
//! before anything is matched, for all copies of the filter.

use std::sync::{Arc, OnceLock};

use arbor_bson::{Doc, ValueRef};

use super::{Filter, Node};
use crate::text_search::{TextFields, TextMatcher, TextPredicate};
use crate::{Code, Error, Result};

/// `$text` in a filter.
#[derive(Clone, Debug)]
pub struct TextNode {
    pub predicate: Arc<TextPredicate>,
    /// Empty: not bound to an index yet.
    matcher: Arc<OnceLock<Arc<TextMatcher>>>,
}

impl TextNode {
    pub(super) fn parse(operand: ValueRef) -> Result<Node> {
        Ok(Node::Text(TextNode { predicate: Arc::new(TextPredicate::parse(operand)?), matcher: Arc::default() }))
    }

    /// Makes the search one over these fields, once and for all.
    pub fn bind(&self, fields: &Arc<TextFields>) -> Arc<TextMatcher> {
        let matcher = || Arc::new(TextMatcher::new(fields.clone(), &self.predicate));
        self.matcher.get_or_init(matcher).clone()
    }

    pub(super) fn matches(&self, doc: Doc) -> Result<bool> {
        match self.matcher.get() {
            Some(matcher) => Ok(matcher.score(doc)?.is_some()),
            None => Err(index_required()),
        }
    }
}

pub fn index_required() -> Error {
    Error::new(Code::INDEX_NOT_FOUND, "text index required for $text query")
}

/// Checks that there is at most one `$text`, and none under a negation.
pub(super) fn check(root: &Node, has_text: bool) -> Result<()> {
    if !has_text {
        return Ok(());
    }
    if count(root) > 1 {
        return Err(Error::bad_value("Too many text expressions"));
    }
    check_negations(root)
}

fn count(node: &Node) -> usize {
    match node {
        Node::Text(_) => 1,
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().map(count).sum(),
        _ => 0,
    }
}

fn check_negations(node: &Node) -> Result<()> {
    match node {
        Node::Nor(nodes) if nodes.iter().any(|node| count(node) > 0) => {
            Err(Error::bad_value("text expression not allowed in nor"))
        }
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().try_for_each(check_negations),
        _ => Ok(()),
    }
}

fn find(node: &Node) -> Option<&TextNode> {
    match node {
        Node::Text(text) => Some(text),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().find_map(find),
        _ => None,
    }
}

impl Filter {
    /// The `$text` in it; there is one at most.
    pub fn text(&self) -> Option<&TextNode> {
        find(&self.root)
    }

    /// For filters that are not over a collection with indexes.
    pub fn without_text(self) -> Result<Filter> {
        match self.text() {
            Some(_) => Err(Error::bad_value("$text is not allowed in this context")),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::notation::doc;
    use crate::text_search::{Language, Weight};

    #[test]
    fn allowed_positions() {
        let parse = |text: &str| Filter::parse(doc(text).as_doc(), &Context::default()).map_err(|error| error.message);
        assert!(parse("{$text: {$search: 'a'}, b: 1}").unwrap().text().is_some());
        assert!(parse("{$or: [{$text: {$search: 'a'}}, {$and: [{b: 1}]}]}").unwrap().text().is_some());
        assert!(parse("{b: 1}").unwrap().text().is_none());
        for (filter, message) in [
            ("{$text: {$search: 'a'}, $or: [{$text: {$search: 'b'}}, {c: 1}]}", "Too many text expressions"),
            ("{$nor: [{$text: {$search: 'a'}}]}", "text expression not allowed in nor"),
            ("{$nor: [{c: 1}, {$and: [{$text: {$search: 'a'}}]}]}", "text expression not allowed in nor"),
            ("{a: {$elemMatch: {b: 1, $text: {$search: 'a'}}}}", "$text can only be applied to the top-level document"),
            ("{a: {$text: {$search: 'a'}}}", "unknown operator: $text"),
        ] {
            assert_eq!(parse(filter).map(drop), Err(message.to_owned()), "{filter}");
        }
        assert!(parse("{$text: {$search: 'a'}}").unwrap().without_text().is_err());
    }

    #[test]
    fn a_bound_filter_matches_without_an_index() {
        let fields = TextFields::new(
            vec![Weight { path: "a".to_owned(), weight: 1.0 }],
            Language::of_name("english").unwrap(),
            "language",
        );
        let filter =
            Filter::parse(doc("{$text: {$search: 'shops'}, b: {$gt: 1}}").as_doc(), &Context::default()).unwrap();
        let own = doc("{a: 'a shop', b: 2}");
        assert_eq!(filter.matches(own.as_doc()).unwrap_err().code, Code::INDEX_NOT_FOUND);
        filter.clone().text().unwrap().bind(&Arc::new(fields));
        assert!(filter.matches(own.as_doc()).unwrap());
        assert!(!filter.matches(doc("{a: 'a shop', b: 1}").as_doc()).unwrap());
        assert!(!filter.matches(doc("{a: 'tea', b: 2}").as_doc()).unwrap());
    }
}
