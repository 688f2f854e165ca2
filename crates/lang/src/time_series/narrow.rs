//! Conditions on buckets, derived from a filter over measurements.
//!
//! | measurement | bucket |
//! |---|---|
//! | a condition on `metaField` | the same on `meta` |
//! | `t >= x` | `control.max.t >= x`, `_id >=` the first one of the window a span before x |
//! | `t <= x` | `control.min.t <= x`, `_id <=` the last one of the window of x |
//!
//! No other condition narrows the buckets, and all are checked on the measurements again.

use arbor_bson::Value;

use super::{Unpack, first_id, last_id};
use crate::Path;
use crate::matcher::{Compare, In, Node};

impl Unpack {
    /// Conditions that hold for the bucket of every measurement for which `node` holds.
    pub fn narrow(&self, node: &Node) -> Vec<Node> {
        match node {
            Node::And(nodes) => nodes.iter().flat_map(|node| self.narrow(node)).collect(),
            Node::Compare { path, op, value: Value::DateTime(time) } if path.as_str() == self.time_field => {
                self.times(*op, *time)
            }
            Node::In(In { path, values, regexes }) if path.as_str() == self.time_field && regexes.is_empty() => {
                match (values.first(), values.last()) {
                    (Some(Value::DateTime(low)), Some(Value::DateTime(high))) => {
                        [self.times(Compare::Gte, *low), self.times(Compare::Lte, *high)].concat()
                    }
                    _ => Vec::new(),
                }
            }
            node => self.about_meta(node).into_iter().collect(),
        }
    }

    /// Like [`Unpack::narrow`], also for the begin of buckets: it is at most a span before their measurements.
    pub fn narrow_with_begin(&self, node: &Node) -> Vec<Node> {
        let mut nodes = self.narrow(node);
        let end = format!("control.max.{}", self.time_field);
        let begin = format!("control.min.{}", self.time_field);
        let after = |node: &Node| match node {
            Node::Compare { path, op: Compare::Gt | Compare::Gte, value: Value::DateTime(time) }
                if path.as_str() == end =>
            {
                let time = time.saturating_sub(self.span_seconds.saturating_mul(1000));
                Some(Node::Compare { path: Path::new(&begin), op: Compare::Gte, value: Value::DateTime(time) })
            }
            _ => None,
        };
        let begins: Vec<Node> = nodes.iter().filter_map(after).collect();
        nodes.extend(begins);
        nodes
    }

    fn times(&self, op: Compare, time: i64) -> Vec<Node> {
        let compare = |path: String, op, value| Node::Compare { path: Path::new(&path), op, value };
        let of = |end: &str, op| compare(format!("control.{end}.{}", self.time_field), op, Value::DateTime(time));
        let second = time.div_euclid(1000);
        let from = || compare("_id".to_owned(), Compare::Gte, Value::ObjectId(first_id(second - self.span_seconds)));
        let until = || compare("_id".to_owned(), Compare::Lte, Value::ObjectId(last_id(second)));
        match op {
            Compare::Gt | Compare::Gte => vec![of("max", op), from()],
            Compare::Lt | Compare::Lte => vec![of("min", op), until()],
            Compare::Eq => vec![of("max", Compare::Gte), from(), of("min", Compare::Lte), until()],
        }
    }

    /// The condition over `meta`; None: it is about something else too.
    pub fn about_meta(&self, node: &Node) -> Option<Node> {
        let all = |nodes: &[Node]| nodes.iter().map(|node| self.about_meta(node)).collect::<Option<Vec<Node>>>();
        match node {
            Node::And(nodes) => all(nodes).map(Node::And),
            Node::Or(nodes) => all(nodes).map(Node::Or),
            Node::Nor(nodes) => all(nodes).map(Node::Nor),
            Node::Not(inner) => self.about_meta(inner).map(Box::new).map(Node::Not),
            node => {
                let path = self.meta_path(node.path()?.as_str())?;
                let mut renamed = node.clone();
                *renamed.path_mut()? = Path::new(&path);
                Some(renamed)
            }
        }
    }

    /// `meta.x` for `m.x`; None: it is not within the metaField.
    pub fn meta_path(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(self.meta_field.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| format!("meta{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Filter};
    use arbor_bson::{DocBuf, ValueRef};

    fn narrowed(filter: &DocBuf) -> Vec<String> {
        let unpack = Unpack { time_field: "t".to_owned(), meta_field: Some("m".to_owned()), span_seconds: 3600 };
        let filter = Filter::parse(filter.as_doc(), &Context::new(0)).unwrap();
        let paths = |node: &Node| node.path().map_or("?".to_owned(), |path| path.as_str().to_owned());
        unpack.narrow(filter.root()).iter().map(paths).collect()
    }

    #[test]
    fn times_and_meta_narrow() {
        let date = |ms| ValueRef::DateTime(ms);
        let compare = |op: &str, ms| DocBuf::new().with("t", &DocBuf::new().with(op, date(ms)));
        assert_eq!(narrowed(&compare("$gte", 5)), ["control.max.t", "_id"]);
        assert_eq!(narrowed(&compare("$lt", 5)), ["control.min.t", "_id"]);
        assert_eq!(narrowed(&DocBuf::new().with("t", date(5))), ["control.max.t", "_id", "control.min.t", "_id"]);
        assert_eq!(narrowed(&DocBuf::new().with("m.x", 1i32).with("v", 1i32)), ["meta.x"]);
        assert_eq!(narrowed(&DocBuf::new().with("m", 1i32)), ["meta"]);
        assert!(narrowed(&DocBuf::new().with("mm", 1i32).with("t", 5i32)).is_empty());
        let either: arbor_bson::ArrayBuf =
            [DocBuf::new().with("m", 1i32), DocBuf::new().with("v", 1i32)].iter().collect();
        assert!(narrowed(&DocBuf::new().with("$or", &either)).is_empty());
    }
}
