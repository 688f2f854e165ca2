//! From a filter document to the tree of [`Node`]s.

use std::sync::Arc;

use arbor_bson::{Doc, ValueRef};

use super::bits::{BitKind, BitTest};
use super::key_ranges::{KeyRanges, OUTSIDE};
use super::{Compare, In, Node, Regex, TextNode, TypeSet, array, compare, modulo, unsupported};
use crate::expression::is_true;
use crate::geo::{GeoTest, Near};
use crate::json_schema::Schema;
use crate::stop::tick;
use crate::{Context, Error, Expression, Path, Result, text};

pub(super) struct Parser<'c> {
    context: &'c Context,
    depth: usize,
    /// Inside `$elemMatch`, where whole-document predicates have no place.
    nested: bool,
    /// `$near`s parsed so far.
    pub nears: usize,
    /// A `$text` was parsed.
    pub has_text: bool,
}

/// Returns true if a name in the operand of a field is an operator. References (`$ref`, `$id`, `$db`) are values.
pub(super) fn is_operator(name: &str) -> bool {
    name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db")
}

impl<'c> Parser<'c> {
    pub(super) fn new(context: &'c Context) -> Parser<'c> {
        Parser { context, depth: 0, nested: false, nears: 0, has_text: false }
    }

    /// A whole filter: predicates that must all hold.
    pub(super) fn document(&mut self, filter: Doc) -> Result<Node> {
        self.enter()?;
        let mut nodes = Vec::new();
        for (name, value) in filter {
            tick()?;
            let node = match name.strip_prefix('$') {
                Some(_) if !matches!(name, "$ref" | "$id" | "$db") => self.top_level(name, value)?,
                _ => self.field(name, value)?,
            };
            nodes.push(node);
        }
        self.depth -= 1;
        Ok(Node::And(nodes))
    }

    /// A filter for elements of an array.
    pub(super) fn nested(&mut self, filter: Doc) -> Result<Node> {
        let outside = std::mem::replace(&mut self.nested, true);
        let node = self.document(filter);
        self.nested = outside;
        node
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > self.context.limits.depth_max {
            return Err(Error::bad_value("exceeded maximum query tree depth"));
        }
        Ok(())
    }

    fn top_level(&mut self, name: &str, value: ValueRef) -> Result<Node> {
        match name {
            "$and" => Ok(Node::And(self.branches(name, value)?)),
            "$or" => Ok(Node::Or(self.branches(name, value)?)),
            "$nor" => Ok(Node::Nor(self.branches(name, value)?)),
            "$comment" => Ok(Node::AlwaysTrue),
            "$expr" if self.nested => Err(Error::bad_value("$expr can only be applied to the top-level document")),
            "$expr" => Ok(Node::Expr(Expression::parse(value, self.context)?)),
            "$text" if self.nested => Err(Error::bad_value("$text can only be applied to the top-level document")),
            "$text" => {
                self.has_text = true;
                TextNode::parse(value)
            }
            "$jsonSchema" => Ok(Node::Schema(Arc::new(Schema::parse(value)?))),
            OUTSIDE => Ok(Node::Outside(Arc::new(KeyRanges::parse(value)?))),
            "$sampleRate" => unsupported::sample_rate(value),
            "$alwaysTrue" => unsupported::always(name, value).map(|()| Node::AlwaysTrue),
            "$alwaysFalse" => unsupported::always(name, value).map(|()| Node::AlwaysFalse),
            _ => Err(unsupported::top_level(name)),
        }
    }

    fn branches(&mut self, name: &str, value: ValueRef) -> Result<Vec<Node>> {
        let ValueRef::Array(list) = value else {
            return Err(Error::bad_value(format!("{name} must be an array")));
        };
        if list.is_empty() {
            return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
        }
        let entry = |value| match value {
            ValueRef::Document(filter) => tick().and_then(|()| self.document(filter)),
            _ => Err(Error::bad_value("$or/$and/$nor entries need to be full objects")),
        };
        list.iter().map(entry).collect()
    }

    fn field(&mut self, name: &str, value: ValueRef) -> Result<Node> {
        match value {
            ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| is_operator(name)) => {
                self.operators(name, doc)
            }
            ValueRef::Regex { pattern, options } => regex(name, pattern, options),
            other => {
                compare::check_operand(name, "$eq", other)?;
                Ok(Node::Compare { path: Path::of_input(name)?, op: Compare::Eq, value: other.to_value() })
            }
        }
    }

    /// `{ $gt: 1, $lt: 5 }` for one field.
    pub(super) fn operators(&mut self, field: &str, operators: Doc) -> Result<Node> {
        self.enter()?;
        let (mut nodes, near) = (Vec::new(), has_near(operators));
        let (options, has_regex) = (operators.get("$options"), operators.get("$regex").is_some());
        for (name, value) in operators {
            tick()?;
            match name {
                "$options" if !has_regex => {
                    return Err(Error::bad_value("$options needs a $regex"));
                }
                "$options" => {}
                "$near" | "$nearSphere" | "$geoNear" => {
                    self.nears += 1;
                    nodes.push(Node::Near(Arc::new(Near::parse(field, name, operators)?)));
                }
                "$minDistance" | "$maxDistance" if near => {}
                "$geoWithin" | "$within" | "$geoIntersects" if operators.iter().nth(1).is_some() => {
                    let shown = text::shell(ValueRef::Document(operators));
                    return Err(Error::bad_value(format!("can't parse extra field next to {name}: {shown}")));
                }
                "$regex" => {
                    let before = operators.iter().take_while(|(name, _)| *name != "$regex");
                    let options_first = before.into_iter().any(|(name, _)| name == "$options");
                    nodes.push(regex_operator(field, value, options, options_first)?);
                }
                _ => nodes.push(self.operator(field, name, value)?),
            }
        }
        self.depth -= 1;
        Ok(Node::And(nodes))
    }

    fn operator(&mut self, field: &str, name: &str, value: ValueRef) -> Result<Node> {
        let path = Path::of_input(field)?;
        if let Some(op) = Compare::of_operator(name) {
            compare::check_operand(field, name, value)?;
            let node = Node::Compare { path, op, value: value.to_value() };
            return Ok(if name == "$ne" { negate(node) } else { node });
        }
        if let Some(kind) = BitKind::of_operator(name) {
            return Ok(Node::Bits { path, test: BitTest::parse(kind, name, value)? });
        }
        match name {
            "$in" => Ok(Node::In(In::parse(name, path, value, &self.context.collation)?)),
            "$nin" => Ok(negate(Node::In(In::parse(name, path, value, &self.context.collation)?))),
            "$not" => self.not(field, value),
            "$exists" if is_true(value) => Ok(Node::Exists { path }),
            "$exists" => Ok(negate(Node::Exists { path })),
            "$type" => Ok(Node::Type { path, types: non_empty_types(field, value)? }),
            "$mod" => modulo::parse(path, value),
            "$size" => array::parse_size(path, value),
            "$all" => array::parse_all(self, path, value),
            "$elemMatch" => array::parse_elem_match(self, path, value),
            "$geoWithin" | "$within" => Ok(Node::Geo { path, test: Arc::new(GeoTest::within(name, value)?) }),
            "$geoIntersects" => Ok(Node::Geo { path, test: Arc::new(GeoTest::intersects(name, value)?) }),
            "$comment" => Ok(Node::AlwaysTrue),
            _ => Err(unsupported::operator(name)),
        }
    }

    fn not(&mut self, field: &str, value: ValueRef) -> Result<Node> {
        match value {
            ValueRef::Regex { pattern, options } => Ok(negate(regex(field, pattern, options)?)),
            ValueRef::Document(doc) if doc.is_empty() => Err(Error::bad_value("$not cannot be empty")),
            ValueRef::Document(doc) => Ok(negate(self.operators(field, doc)?)),
            _ => Err(Error::bad_value("$not needs a regex or a document")),
        }
    }
}

/// Returns true if there is a `$near`, whose distances may be among the operators.
fn has_near(operators: Doc) -> bool {
    operators.iter().any(|(name, _)| matches!(name, "$near" | "$nearSphere" | "$geoNear"))
}

fn negate(node: Node) -> Node {
    Node::Not(Box::new(node))
}

fn non_empty_types(field: &str, value: ValueRef) -> Result<TypeSet> {
    let types = TypeSet::parse(value)?;
    if types.is_empty() {
        let message = format!("{field} must match at least one type");
        return Err(Error::failed_to_parse(message));
    }
    Ok(types)
}

fn regex(field: &str, pattern: &str, options: &str) -> Result<Node> {
    Ok(Node::Regex { path: Path::of_input(field)?, regex: Arc::new(Regex::new(pattern, options)?) })
}

/// `$regex` with its `$options`, each a string; a regular expression as operand of `$regex` may bring options of its own.
fn regex_operator(field: &str, value: ValueRef, options: Option<ValueRef>, options_first: bool) -> Result<Node> {
    let options = match options {
        None => None,
        Some(ValueRef::String(options)) => Some(options),
        Some(_) => return Err(Error::bad_value("$options has to be a string")),
    };
    match value {
        ValueRef::String(pattern) if pattern.contains('\0') => {
            Err(Error::bad_value("Regular expression cannot contain an embedded null byte"))
        }
        ValueRef::String(pattern) => regex(field, pattern, options.unwrap_or("")),
        ValueRef::Regex { pattern, options: "" } => regex(field, pattern, options.unwrap_or("")),
        ValueRef::Regex { .. } if options.is_some() => {
            let code = if options_first { 51074 } else { 51075 };
            Err(Error::location(code, "options set in both $regex and $options"))
        }
        ValueRef::Regex { pattern, options: own } => regex(field, pattern, own),
        _ => Err(Error::bad_value("$regex has to be a string")),
    }
}
