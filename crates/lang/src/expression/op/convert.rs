//! `$convert`: a value in another type, with results for null and for failures.
//!
//! ```text
//! { $convert: { input: "5", to: "int" } } => 5
//! { $convert: { input: 5, to: 2 } } => "5"
//! { $convert: { input: "x", to: "int", onError: "bad" } } => "bad"
//! { $convert: { input: null, to: "int", onNull: 0 } } => 0
//! { $convert: { input: "$a", to: "int" } } => null
//! { $convert: { input: "0aFF", to: "binData", format: "hex" } } => Binary(0, "0aff")
//! { $convert: { input: Binary(0, "0aff"), to: "string", format: "base64" } } => "Cv8="
//! { $convert: { input: 258, to: { type: "binData", subtype: 5 }, byteOrder: "big" } } => Binary(5, "00000102")
//! { $convert: { input: Binary(0, "feff"), to: "int" } } => -2
//! { $convert: { input: "x", to: "binData" } } => error 4341115: Format must be specified when converting from 'string' to 'binData'
//! { $convert: { input: 1, to: "foo" } } => error 2: Unknown type name: foo
//! { $convert: { input: 1 } } => error 9: Missing 'to' parameter to $convert
//! { $convert: { input: 1, to: "int", x: 1 } } => error 9: $convert found an unknown argument: x
//! { $convert: 1 } => error 9: $convert expects an object of named arguments but found: int
//! ```

use std::sync::Arc;

use arbor_bson::{Type, ValueRef};

use crate::expression::binary_format::Format;
use crate::expression::convert::{Target, convert};
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::matcher::type_set;
use crate::{Code, Error, Result, number, text};

#[derive(Debug)]
struct Convert {
    input: Expression,
    to: Expression,
    format: Option<Expression>,
    byte_order: Option<Expression>,
    on_error: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::failed_to_parse(format!(
            "$convert expects an object of named arguments but found: {found}"
        )));
    };
    let (mut input, mut to, mut format, mut byte_order, mut on_error, mut on_null) =
        (None, None, None, None, None, None);
    for (name, value) in doc {
        let slot = match name {
            "input" => &mut input,
            "to" => &mut to,
            "format" => &mut format,
            "byteOrder" => &mut byte_order,
            "onError" => &mut on_error,
            "onNull" => &mut on_null,
            _ => return Err(Error::failed_to_parse(format!("$convert found an unknown argument: {name}"))),
        };
        *slot = Some(parser.expression(value)?);
    }
    let missing = |what| Error::failed_to_parse(format!("Missing '{what}' parameter to $convert"));
    let input = input.ok_or_else(|| missing("input"))?;
    let to = to.ok_or_else(|| missing("to"))?;
    Ok(Expression::Special(Arc::new(Convert { input, to, format, byte_order, on_error, on_null })))
}

/// The type and the subtype of `to`: a type, or `{ type: ..., subtype: ... }`. Type 0 is a number of no type, and none
/// can be converted to it.
fn target_type(value: ValueRef) -> Result<(Option<Type>, u8)> {
    let (named, subtype) = match value {
        ValueRef::Document(doc) => {
            let missing = || Error::failed_to_parse("$convert's 'to' argument must contain a 'type' field");
            (doc.get("type").ok_or_else(missing)?, doc.get("subtype").map(subtype).transpose()?.unwrap_or(0))
        }
        other => (other, 0),
    };
    match named {
        ValueRef::String(name) => {
            let unknown = || Error::bad_value(format!("Unknown type name: {name}"));
            type_set::by_alias(name).ok_or_else(unknown).map(|to| (Some(to), subtype))
        }
        other if number::is_number(other) => {
            let shown = text::shell(other);
            let integral = "In $convert, numeric 'to' argument is not an integer";
            let code = number::exact_i32(other).ok_or_else(|| Error::failed_to_parse(integral))?;
            let unknown = || {
                Error::failed_to_parse(format!(
                    "In $convert, numeric value for 'to' does not correspond to a BSON type: {shown}"
                ))
            };
            let to = type_set::by_number(code);
            if to.is_none() && code != 0 {
                return Err(unknown());
            }
            Ok((to, subtype))
        }
        other => {
            let found = text::type_name(Some(other));
            let message = format!("$convert's 'to' argument must be a string or number, but is {found}");
            Err(Error::failed_to_parse(message))
        }
    }
}

/// A known subtype of binary data, or one of the user's own.
fn subtype(value: ValueRef) -> Result<u8> {
    if !number::is_number(value) {
        let found = text::type_name(Some(value));
        return Err(Error::location(
            4341108,
            format!("$convert's 'subtype' argument must be a number, but is {found}"),
        ));
    }
    let integral = || Error::location(4341106, "In $convert, numeric 'subtype' argument is not an integer");
    let number = number::exact_i64(value).ok_or_else(integral)?;
    let known = u8::try_from(number).ok().filter(|subtype| *subtype < 10 || *subtype >= 128);
    known.ok_or_else(|| {
        Error::location(
            4341107,
            format!("In $convert, numeric value for 'subtype' does not correspond to a BinData type: {number}"),
        )
    })
}

fn format(value: &Evaluated) -> Result<Option<Format>> {
    match value.get() {
        _ if value.is_nullish() => Ok(None),
        Some(ValueRef::String(name)) => {
            let unknown = || Error::location(4341125, format!("Invalid 'format' argument for $convert: {name}"));
            Format::of(name).map(Some).ok_or_else(unknown)
        }
        _ => {
            let message = format!("$convert requires that 'format' be a string, found: {}", value.type_name());
            Err(Error::location(4341114, message))
        }
    }
}

/// Returns true for `"big"`; little is the default.
fn is_big_endian(value: &Evaluated) -> Result<bool> {
    match value.get() {
        _ if value.is_nullish() => Ok(false),
        Some(ValueRef::String("big")) => Ok(true),
        Some(ValueRef::String("little")) => Ok(false),
        Some(ValueRef::String(name)) => {
            Err(Error::location(9130002, format!("Invalid 'byteOrder' argument for $convert: {name}")))
        }
        _ => {
            let message = format!("$convert requires that 'byteOrder' be a string, found: {}", value.type_name());
            Err(Error::location(9130001, message))
        }
    }
}

impl Special for Convert {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let to = self.to.eval_in(environment)?;
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return match &self.on_null {
                Some(on_null) => on_null.eval_in(environment),
                None => Ok(Evaluated::null()),
            };
        }
        if to.is_nullish() {
            return Ok(Evaluated::null());
        }
        let (to, subtype) = target_type(to.or_null())?;
        let evaluated = |part: &'a Option<Expression>| {
            part.as_ref().map_or(Ok(Evaluated::Missing), |part| part.eval_in(environment))
        };
        let format = format(&evaluated(&self.format)?)?;
        let big_endian = is_big_endian(&evaluated(&self.byte_order)?)?;
        let converted = match to {
            Some(to) => convert(input.or_null(), Target { to, subtype, format, big_endian }),
            None => Err(Error::new(
                Code::CONVERSION_FAILURE,
                format!(
                    "Unsupported conversion from {} to missing in $convert with no onError value",
                    input.type_name()
                ),
            )),
        };
        match (converted, &self.on_error) {
            (Ok(value), _) => Ok(Evaluated::Owned(value)),
            (Err(error), Some(on_error)) if error.code == Code::CONVERSION_FAILURE => on_error.eval_in(environment),
            (Err(error), _) => Err(error),
        }
    }

    fn parts(&self) -> Vec<&Expression> {
        let optional = [&self.format, &self.byte_order, &self.on_error, &self.on_null];
        [&self.input, &self.to].into_iter().chain(optional.into_iter().flatten()).collect()
    }
}
