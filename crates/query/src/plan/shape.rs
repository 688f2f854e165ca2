//! The shape of a query: the query without its constants. Queries of one shape share an entry of the plan cache.

use std::hash::{DefaultHasher, Hash, Hasher};

use arbor_bson::{Array, Doc, DocBuf, ValueRef};
use arbor_lang::{Collation, Context};

use super::query::Query;
use crate::Result;
use crate::explain::filter_doc;
use crate::operator::pattern_doc;

/// A hash as clients see it: eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeHash(pub u32);

impl ShapeHash {
    /// Returns the hash of a `find` by its documents.
    pub fn of_find(
        filter: Doc<'_>,
        sort: Option<Doc<'_>>,
        projection: Option<Doc<'_>>,
        collation: Collation,
    ) -> Result<ShapeHash> {
        Ok(hash(&text_of_find(filter, sort, projection, collation)?))
    }

    pub fn of(query: &Query) -> ShapeHash {
        hash(&(text_of(query) + &query.above))
    }

    /// Adds the names of the candidate plans.
    pub fn with(self, plans: &[String]) -> ShapeHash {
        hash(&(self, plans))
    }

    pub fn text(self) -> String {
        format!("{:08X}", self.0)
    }
}

/// Returns the shape of a `find` by its documents.
pub(super) fn text_of_find(
    filter: Doc<'_>,
    sort: Option<Doc<'_>>,
    projection: Option<Doc<'_>>,
    collation: Collation,
) -> Result<String> {
    let context = &Context { collation, ..Context::new(0) };
    let mut query = Query::parse(filter, None, context)?;
    query.sort_by(sort, context)?;
    query.show(projection, context)?;
    Ok(text_of(&query))
}

/// Returns the shape of a query as a text.
pub(super) fn text_of(query: &Query) -> String {
    let mut text = String::new();
    of_filter(filter_doc::of_filter(&query.filter).as_doc(), &mut text);
    let sort = query.sort.as_ref().map(pattern_doc).unwrap_or_default();
    let projection = query.projection.as_ref().map(|shown| shown.spec.clone()).unwrap_or_default();
    text.push_str(&format!("|{}|", sort.as_doc()));
    of_projection(&projection, &mut text);
    if !query.filter.collation().is_simple() {
        text.push_str(&format!("|{}", query.filter.collation().to_doc().as_doc()));
    }
    text
}

fn hash(value: &impl Hash) -> ShapeHash {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    ShapeHash((hasher.finish() >> 32) as u32)
}

fn of_filter(filter: Doc<'_>, text: &mut String) {
    text.push('{');
    for (name, value) in filter {
        text.push_str(name);
        text.push(':');
        match (name, value) {
            ("$and" | "$or" | "$nor", ValueRef::Array(parts)) => of_parts(parts, text),
            ("$not" | "$elemMatch", ValueRef::Document(inner)) => of_filter(inner, text),
            ("$jsonSchema", ValueRef::Document(schema)) => text.push_str(&schema.to_string()),
            (name, ValueRef::Document(inner)) if !name.starts_with('$') => of_filter(inner, text),
            _ => text.push('?'),
        }
        text.push(' ');
    }
    text.push('}');
}

/// In whichever order they were written.
fn of_parts(parts: Array<'_>, text: &mut String) {
    let shape = |part: ValueRef<'_>| {
        let mut text = String::new();
        if let ValueRef::Document(part) = part {
            of_filter(part, &mut text);
        }
        text
    };
    let mut shapes: Vec<String> = parts.iter().map(shape).collect();
    shapes.sort_unstable();
    text.push_str(&shapes.concat());
}

/// Which fields, shown or hidden, in any order.
fn of_projection(projection: &DocBuf, text: &mut String) {
    let shown = |value: ValueRef<'_>| match value {
        ValueRef::Document(_) | ValueRef::Array(_) | ValueRef::String(_) => value.to_string(),
        ValueRef::Int32(0) | ValueRef::Int64(0) | ValueRef::Bool(false) => "0".to_owned(),
        ValueRef::Double(0.0) => "0".to_owned(),
        _ => "1".to_owned(),
    };
    let mut fields: Vec<String> =
        projection.as_doc().iter().map(|(name, value)| format!("{name}:{} ", shown(value))).collect();
    fields.sort_unstable();
    text.push_str(&fields.concat());
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::ArrayBuf;
    use arbor_lang::Filter;

    fn shape(filter: &DocBuf) -> ShapeHash {
        ShapeHash::of(&Query::new(Filter::parse(filter.as_doc(), &Context::new(0)).unwrap()))
    }

    fn on(path: &str, operator: &str, value: i32) -> DocBuf {
        DocBuf::new().with(path, &DocBuf::new().with(operator, value))
    }

    #[test]
    fn constants_make_no_difference_and_operators_do() {
        assert_eq!(shape(&on("a", "$gt", 1)), shape(&on("a", "$gt", 2)));
        assert_ne!(shape(&on("a", "$gt", 1)), shape(&on("a", "$lt", 1)));
        assert_ne!(shape(&on("a", "$gt", 1)), shape(&on("b", "$gt", 1)));
        let both =
            |first: DocBuf, second: DocBuf| DocBuf::new().with("$or", &[first, second].iter().collect::<ArrayBuf>());
        let (a, b) = (on("a", "$gt", 1), on("b", "$lt", 5));
        assert_eq!(shape(&both(a.clone(), b.clone())), shape(&both(b, a)));
        assert_eq!(shape(&on("a", "$gt", 1)).text().len(), 8);
    }
}
