//! `$firstN`, `$lastN`, `$minN`, `$maxN`: `{ input: <expression>, n: <count> }`.

use std::collections::VecDeque;

use arbor_bson::{ArrayBuf, Doc, Value, ValueRef};

use super::moving::{Arrived, End, Moving, Order, Ordered, Part};
use super::{State, elements, value_bytes};
use crate::expression::Evaluated;
use crate::{Collation, Context, Error, Expression, Result, number, text};

/// Values that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    First,
    Last,
    Min,
    Max,
}

impl Selector {
    pub(super) fn of_operator(name: &str) -> Option<Selector> {
        Some(match name {
            "$firstN" => Selector::First,
            "$lastN" => Selector::Last,
            "$minN" => Selector::Min,
            "$maxN" => Selector::Max,
            _ => return None,
        })
    }

    pub(super) fn start(self, n: usize, collation: &Collation) -> Box<dyn State> {
        Box::new(NValues { selector: self, n, values: VecDeque::new(), collation: collation.clone() })
    }

    pub(super) fn start_moving(self, n: usize, collation: &Collation) -> Box<dyn Moving> {
        let ordered = |descending| {
            let order = Order::Values { descending, collation: collation.clone() };
            Box::new(Ordered::new(order, End { bottom: false, n: Some(n) }))
        };
        match self {
            Selector::First => Box::new(Arrived::new(Part::First(n))),
            Selector::Last => Box::new(Arrived::new(Part::Last(n))),
            Selector::Min => ordered(false),
            Selector::Max => ordered(true),
        }
    }
}

/// The input and the count.
pub(super) fn parse(name: &str, operand: ValueRef, context: &Context) -> Result<(Expression, usize)> {
    let ValueRef::Document(doc) = operand else {
        let message = format!("specification must be an object; found {name}: {}", text::shell(operand));
        return Err(Error::location(5787900, message));
    };
    if let Some((unknown, _)) = doc.iter().find(|(field, _)| !matches!(*field, "input" | "n")) {
        return Err(Error::location(5787901, format!("Unknown argument for 'n' operator: {unknown}")));
    }
    let n = doc.get("n").ok_or_else(|| Error::location(5787906, "Missing value for 'n'"))?;
    let input = doc.get("input").ok_or_else(|| Error::location(5787907, "Missing value for 'input'"))?;
    Ok((Expression::parse(input, context)?, count(n, context)?))
}

/// A constant expression that gives a positive whole number.
pub(super) fn count(n: ValueRef, context: &Context) -> Result<usize> {
    let value = Expression::parse(n, context)?.eval(Doc::empty())?.unwrap_or(Value::Null);
    let shown = text::shell(value.as_ref());
    if !number::is_number(value.as_ref()) {
        let message = format!("Value for 'n' must be of integral type, but found {shown}");
        return Err(Error::location(5787902, message));
    }
    match number::exact_i64(value.as_ref()) {
        None => Err(Error::location(5787903, format!("Value for 'n' must be of integral type, but found {shown}"))),
        Some(n) if n < 1 => Err(Error::location(5787908, format!("'n' must be greater than 0, found {n}"))),
        Some(n) => Ok(n as usize),
    }
}

#[derive(Debug)]
struct NValues {
    selector: Selector,
    n: usize,
    /// In the order of the result for `Min` and `Max`, else in the order they came.
    values: VecDeque<Value>,
    collation: Collation,
}

impl State for NValues {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        match self.selector {
            Selector::First if self.values.len() == self.n => {}
            Selector::First => self.values.push_back(value.into_value().unwrap_or(Value::Null)),
            Selector::Last => {
                self.values.push_back(value.into_value().unwrap_or(Value::Null));
                if self.values.len() > self.n {
                    self.values.pop_front();
                }
            }
            Selector::Min | Selector::Max if value.is_nullish() => {}
            Selector::Min | Selector::Max => {
                let greatest_first = self.selector == Selector::Max;
                let candidate = value.or_null();
                let at = self.values.partition_point(|known| {
                    let order = self.collation.compare(known.as_ref(), candidate);
                    if greatest_first { order.is_ge() } else { order.is_le() }
                });
                if at < self.n {
                    self.values.insert(at, candidate.to_value());
                    self.values.truncate(self.n);
                }
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        Value::Array(self.values.iter().collect::<ArrayBuf>())
    }

    fn partial(&self) -> Value {
        Value::Array(self.values.iter().collect::<ArrayBuf>())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        elements(partial).try_for_each(|value| self.add(Evaluated::Borrowed(value), Doc::empty()))
    }

    fn size_bytes(&self) -> usize {
        self.values.iter().map(value_bytes).sum()
    }
}
