//! `$meta`: what is known about a document beside its fields. There is no text search yet, so there is nothing.
//!
//! ```text
//! { $meta: "indexKey" } => missing
//! { $meta: "textScore" } => error 40218: query requires text score metadata, but it is not available
//! { $meta: "foo" } => error 17308: Unsupported argument to $meta: foo
//! { $meta: 1 } => error 17307: $meta only supports string arguments
//! ```

use arbor_bson::ValueRef;

use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::{Error, Result};

pub fn parse(_name: &'static str, value: ValueRef, _parser: &mut Parser) -> Result<Expression> {
    let ValueRef::String(what) = value else {
        return Err(Error::location(17307, "$meta only supports string arguments"));
    };
    match what {
        "indexKey" | "recordId" | "sortKey" => Ok(Expression::Constant(None)),
        "textScore" => Err(Error::location(40218, "query requires text score metadata, but it is not available")),
        "geoNearDistance" | "geoNearPoint" | "searchScore" | "searchHighlights" | "searchScoreDetails"
        | "vectorSearchScore" | "randVal" => Ok(Expression::Constant(None)),
        _ => Err(Error::location(17308, format!("Unsupported argument to $meta: {what}"))),
    }
}
