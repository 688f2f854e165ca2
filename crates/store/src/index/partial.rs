//! The filter of a partial index: which documents have entries in it.

use arbor_bson::{Doc, DocBuf};
use arbor_lang::matcher::Node;
use arbor_lang::{Code, Collation, Context, Filter};

use crate::index::refusal::{cannot, problem, shown};
use crate::{IndexProblem, Result};

/// The code for a variable of the command's time, which an index has none of.
const TIME_UNAVAILABLE: Code = Code(51_144);

/// `partialFilterExpression`, parsed.
#[derive(Clone, Debug)]
pub struct PartialFilter {
    filter: Filter,
    /// As the user wrote it.
    doc: DocBuf,
}

impl PartialFilter {
    /// `collation` is the index's.
    pub fn parse(doc: Doc<'_>, collation: &Collation) -> Result<PartialFilter> {
        let context = Context { collation: collation.clone(), without_times: true, ..Context::new(0) };
        let filter = match Filter::parse(doc, &context) {
            Err(error) if error.code == TIME_UNAVAILABLE => {
                return problem(IndexProblem::Location(224), format!("{} in a partial index", error.message));
            }
            filter => filter?,
        };
        check(filter.root(), doc)?;
        Ok(PartialFilter { filter, doc: doc.to_buf() })
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    pub fn doc(&self) -> &DocBuf {
        &self.doc
    }

    pub(crate) fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        Ok(self.filter.matches(doc)?)
    }
}

/// MongoDB takes equality, `$exists: true`, comparisons, `$in`, `$type`, `$and` and `$or`.
fn check(node: &Node, doc: Doc<'_>) -> Result<()> {
    match node {
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().try_for_each(|node| check(node, doc)),
        Node::In(membership) if membership.regexes.is_empty() => Ok(()),
        Node::Compare { .. } | Node::Exists { .. } | Node::Type { .. } => Ok(()),
        Node::AlwaysTrue | Node::AlwaysFalse => Ok(()),
        _ => cannot(format!("Expression not supported in partial index: {}", shown(doc))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, IndexProblem};
    use arbor_bson::Value;

    fn on_a(operator: &str, value: impl Into<Value>) -> DocBuf {
        DocBuf::new().with("a", &DocBuf::new().with(operator, &value.into()))
    }

    #[test]
    fn the_time_is_nothing_to_filter_by() {
        let sides: arbor_bson::ArrayBuf = ["$a", "$$NOW"].into_iter().collect();
        let filter = DocBuf::new().with("$expr", &DocBuf::new().with("$lt", &sides));
        let error = PartialFilter::parse(filter.as_doc(), &Collation::simple()).unwrap_err();
        assert!(matches!(error, Error::Index { kind: IndexProblem::Location(224), .. }), "{error}");
    }

    #[test]
    fn what_a_filter_may_say() {
        for good in [DocBuf::new(), on_a("$gt", 1), on_a("$exists", true), on_a("$type", "string"), on_a("$eq", 1)] {
            assert!(PartialFilter::parse(good.as_doc(), &Collation::simple()).is_ok(), "{good:?}");
        }
        for bad in [on_a("$exists", false), on_a("$ne", 1), on_a("$regex", "^a"), on_a("$size", 1)] {
            let error = PartialFilter::parse(bad.as_doc(), &Collation::simple()).unwrap_err();
            assert!(matches!(error, Error::Index { kind: IndexProblem::CannotCreate, .. }), "{error}");
        }
        assert!(matches!(PartialFilter::parse(on_a("$what", 1).as_doc(), &Collation::simple()), Err(Error::Filter(_))));
    }
}
