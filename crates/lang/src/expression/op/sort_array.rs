//! `$sortArray`: the elements in order: by a pattern for documents, or as values (1, -1).
//!
//! ```text
//! { $sortArray: { input: [3, 1, 2], sortBy: 1 } } => [1, 2, 3]
//! { $sortArray: { input: [3, "a", null, 1], sortBy: -1 } } => ["a", 3, 1, null]
//! { $sortArray: { input: "$a", sortBy: { x: -1 } } } on { a: [{ x: 1 }, { x: 2 }] } => [{ x: 2 }, { x: 1 }]
//! { $sortArray: { input: "$a", sortBy: 1 } } => null
//! { $sortArray: { input: 1, sortBy: 1 } } => error 2942504: The input argument to $sortArray must be an array, but was of type: int
//! { $sortArray: { input: [1] } } => error 2942503: Missing 'sortBy' parameter to $sortArray
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::stop::sort_by;
use crate::{Collation, Error, Path, Result, number};

#[derive(Debug)]
struct SortArray {
    input: Expression,
    order: Order,
    collation: Collation,
}

#[derive(Debug)]
enum Order {
    Values {
        descending: bool,
    },
    /// Paths and whether they descend. Arrays are compared as such.
    Documents(Vec<(Path, bool)>),
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let named = Named::read(name, value, &["input", "sortBy"], 2942500, 2942501)?;
    let input = parser.expression(named.require("input", 2942502)?)?;
    let order = match named.require("sortBy", 2942503)? {
        ValueRef::Document(pattern) => {
            if pattern.is_empty() {
                return Err(Error::location(2942505, "$sortArray: the sortBy pattern must not be empty"));
            }
            Order::Documents(pattern.iter().map(|(name, value)| part(name, value)).collect::<Result<_>>()?)
        }
        other if !number::is_number(other) => {
            return Err(Error::location(2942507, "$sortArray: the sortBy value must be 1, -1 or a pattern"));
        }
        other => match number::exact_i64(other) {
            Some(1) => Order::Values { descending: false },
            Some(-1) => Order::Values { descending: true },
            _ => return Err(Error::location(2942506, "$sortArray: the sortBy value must be 1, -1 or a pattern")),
        },
    };
    Ok(Expression::Special(Arc::new(SortArray { input, order, collation: parser.context.collation.clone() })))
}

/// A field of a pattern. Its names may begin with a dollar.
fn part(name: &str, value: ValueRef) -> Result<(Path, bool)> {
    let descending = match number::exact_i64(value) {
        Some(1) => false,
        Some(-1) => true,
        _ => return Err(Error::location(2942505, "$sortArray: the values of the sortBy pattern must be 1 or -1")),
    };
    Ok((Path::of_input(name)?, descending))
}

impl Order {
    fn compare(&self, a: ValueRef, b: ValueRef, collation: &Collation) -> Ordering {
        match (self, a, b) {
            (Order::Values { descending: false }, ..) => collation.compare(a, b),
            (Order::Values { descending: true }, ..) => collation.compare(b, a),
            (Order::Documents(pattern), ..) => pattern.iter().fold(Ordering::Equal, |order, (path, descending)| {
                order.then_with(|| {
                    let order = collation.compare(at(path, a), at(path, b));
                    if *descending { order.reverse() } else { order }
                })
            }),
        }
    }
}

/// Returns the value at a path; a value that is no document has none of the fields.
fn at<'v>(path: &Path, value: ValueRef<'v>) -> ValueRef<'v> {
    match value {
        ValueRef::Document(doc) => path.get_strict(doc).unwrap_or(ValueRef::Null),
        _ => ValueRef::Null,
    }
}

impl Special for SortArray {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return Ok(Evaluated::null());
        }
        let Some(ValueRef::Array(elements)) = input.get() else {
            let found = input.type_name();
            let message = format!("The input argument to $sortArray must be an array, but was of type: {found}");
            return Err(Error::location(2942504, message));
        };
        let mut sorted: Vec<ValueRef> = elements.iter().collect();
        sort_by(&mut sorted, |a, b| self.order.compare(*a, *b, &self.collation))?;
        Ok(sorted.into_iter().collect::<ArrayBuf>().into())
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.input]
    }
}
