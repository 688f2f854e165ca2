//! `$lastN`: the last n elements of an array.
//!
//! ```text
//! { $lastN: { input: [1, 2, 3], n: 2 } } => [2, 3]
//! { $lastN: { input: [1], n: 5 } } => [1]
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::n_elements;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    n_elements::parse(name, value, parser, |elements, n, _| {
        elements.drain(..elements.len().saturating_sub(n));
        Ok(())
    })
}
