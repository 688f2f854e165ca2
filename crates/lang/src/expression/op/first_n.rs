//! `$firstN`: the first n elements of an array.
//!
//! ```text
//! { $firstN: { input: [1, 2, 3], n: 2 } } => [1, 2]
//! { $firstN: { input: [1], n: 5 } } => [1]
//! { $firstN: { input: 1, n: 5 } } => error 5788200: Input must be an array
//! { $firstN: { input: [1], n: 0 } } => error 5787908: 'n' must be greater than 0, found 0
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::n_elements;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    n_elements::parse(name, value, parser, |elements, n, _| {
        elements.truncate(n);
        Ok(())
    })
}
