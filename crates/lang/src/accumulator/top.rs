//! `$top`, `$topN`, `$bottom`, `$bottomN`: `{ sortBy: <pattern>, output: <expression>, n: <count> }`.

use arbor_bson::{ArrayBuf, Doc, Value, ValueRef};

use super::moving::{End, Moving, Order, Ordered};
use super::{State, elements, n_values, value_bytes};
use crate::expression::Evaluated;
use crate::{Context, Error, Expression, Result, SortPattern};

#[derive(Clone, Debug)]
pub(super) struct Top {
    pattern: SortPattern,
    /// From the end of the order.
    bottom: bool,
    /// `None`: one value, not an array.
    n: Option<usize>,
}

impl Top {
    pub(super) fn parse(name: &str, operand: ValueRef, context: &Context) -> Result<(Expression, Top)> {
        let ValueRef::Document(doc) = operand else {
            return Err(Error::location(5788001, format!("specification must be an object; found {name}")));
        };
        let many = name.ends_with('N');
        let known = |field: &str| matches!(field, "sortBy" | "output") || (many && field == "n");
        if let Some((unknown, _)) = doc.iter().find(|(field, _)| !known(field)) {
            return Err(Error::location(5788002, format!("Unknown argument to {name} '{unknown}'")));
        }
        let missing = |code, what| Error::location(code, format!("Missing value for '{what}'"));
        let n = match doc.get("n") {
            Some(n) => Some(n_values::count(n, context)?),
            None if many => return Err(missing(5788003, "n")),
            None => None,
        };
        let output = doc.get("output").ok_or_else(|| missing(5788004, "output"))?;
        let Some(ValueRef::Document(pattern)) = doc.get("sortBy") else {
            return Err(missing(5788005, "sortBy"));
        };
        let pattern = SortPattern::parse(pattern, context)?;
        Ok((Expression::parse(output, context)?, Top { pattern, bottom: name.starts_with("$bottom"), n }))
    }

    pub(super) fn start(&self) -> Box<dyn State> {
        Box::new(TopState { top: self.clone(), values: Vec::new() })
    }

    pub(super) fn start_moving(&self) -> Box<dyn Moving> {
        let end = End { bottom: self.bottom, n: self.n };
        Box::new(Ordered::new(Order::Documents(self.pattern.clone()), end))
    }
}

#[derive(Debug)]
struct TopState {
    top: Top,
    /// Sort key and value, in order.
    values: Vec<(Vec<u8>, Value)>,
}

impl TopState {
    fn keep(&mut self, key: Vec<u8>, value: Evaluated) {
        let at = self.values.partition_point(|(known, _)| *known <= key);
        let n = self.top.n.unwrap_or(1);
        let full = self.values.len() == n;
        let falls_out = if self.top.bottom { full && at == 0 } else { at == n };
        if falls_out {
            return;
        }
        self.values.insert(at, (key, value.into_value().unwrap_or(Value::Null)));
        if full {
            let out = if self.top.bottom { 0 } else { n };
            self.values.remove(out);
        }
    }
}

impl State for TopState {
    fn add(&mut self, value: Evaluated, root: Doc) -> Result<()> {
        self.keep(self.top.pattern.key(root)?, value);
        Ok(())
    }

    /// Sort keys and values in turn.
    fn partial(&self) -> Value {
        let mut parts = ArrayBuf::new();
        for (key, value) in &self.values {
            parts.push(ValueRef::Binary { subtype: 0, bytes: key }).push(value);
        }
        Value::Array(parts)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        let mut parts = elements(partial);
        while let (Some(ValueRef::Binary { bytes, .. }), Some(value)) = (parts.next(), parts.next()) {
            self.keep(bytes.to_vec(), Evaluated::Borrowed(value));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Value {
        match self.top.n {
            Some(_) => Value::Array(self.values.iter().map(|(_, value)| value).collect::<ArrayBuf>()),
            None => self.values.pop().map_or(Value::Null, |(_, value)| value),
        }
    }

    fn size_bytes(&self) -> usize {
        self.values.iter().map(|(key, value)| key.len() + value_bytes(value)).sum()
    }
}
