//! `$minN`: the n smallest elements of an array that are not null.
//!
//! ```text
//! { $minN: { input: [3, 1, null, 2], n: 2 } } => [1, 2]
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::n_elements;
use crate::expression::parse::Parser;
use crate::stop::sort_by;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    n_elements::parse(name, value, parser, |elements, n, collation| {
        elements.retain(|value| !matches!(value, ValueRef::Null | ValueRef::Undefined));
        sort_by(elements, |a, b| collation.compare(*a, *b))?;
        elements.truncate(n);
        Ok(())
    })
}
