//! `$dateToString`: a date in a format, ISO 8601 by default.
//!
//! ```text
//! { $dateToString: { date: "$d" } } on { d: Date(1522169931538) } => "2018-03-27T16:58:51.538Z"
//! { $dateToString: { date: "$d", format: "%Y-%m-%d %H:%M" } } on { d: Date(1522169931538) } => "2018-03-27 16:58"
//! { $dateToString: { date: "$d", format: "%H %z %Z", timezone: "+02:00" } } on { d: Date(0) } => "02 +0200 +120"
//! { $dateToString: { date: "$d", format: "%j %U %V %u %w %L %b %%" } } on { d: Date(1522169931538) } => "086 12 13 2 3 538 Mar %"
//! { $dateToString: { date: "$d", timezone: "Europe/Berlin" } } on { d: Date(0) } => "1970-01-01T01:00:00.000"
//! { $dateToString: { date: Date(0), timezone: "UTC" } } => "1970-01-01T00:00:00.000Z"
//! { $dateToString: { date: "$nope", onNull: "none" } } => "none"
//! { $dateToString: { date: "$nope" } } => null
//! { $dateToString: { date: Date(0), format: "%x" } } => error 18536: Invalid format character '%x' in format string
//! { $dateToString: { date: Date(0), format: 5 } } => error 18533: $dateToString requires that 'format' be a string, found: int with value 5
//! { $dateToString: {} } => error 18628: Missing 'date' parameter to $dateToString
//! { $dateToString: { date: 1, x: 1 } } => error 18534: Unrecognized argument to $dateToString: x
//! { $dateToString: 1 } => error 18629: $dateToString only supports an object as its argument
//! { $dateToString: { date: "x" } } => error 16006: can't convert from BSON type string to Date
//! ```

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::date_input::zone_of;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, date, date_format};
use crate::{Error, Result, text};

#[derive(Debug)]
struct DateToString {
    date: Expression,
    format: Option<Expression>,
    zone: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let named = Named::read(name, value, &["date", "format", "timezone", "onNull"], 18629, 18534)?;
    let date = parser.expression(named.require("date", 18628)?)?;
    let mut optional = |name| named.get(name).map(|value| parser.expression(value)).transpose();
    let (format, zone, on_null) = (optional("format")?, optional("timezone")?, optional("onNull")?);
    if let Some(Expression::Constant(Some(value))) = &format {
        match Value::as_ref(value) {
            ValueRef::String(format) => date_format::check(format, date_format::WRITABLE)?,
            other => return Err(not_a_string(other)),
        }
    }
    Ok(Expression::Special(Arc::new(DateToString { date, format, zone, on_null })))
}

fn not_a_string(format: ValueRef) -> Error {
    let (found, shown) = (text::type_name(Some(format)), text::shell(format));
    let message = format!("$dateToString requires that 'format' be a string, found: {found} with value {shown}");
    Error::location(18533, message)
}

impl Special for DateToString {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let date = self.date.eval_in(environment)?;
        if date.is_nullish() {
            return match &self.on_null {
                Some(on_null) => on_null.eval_in(environment),
                None => Ok(Evaluated::null()),
            };
        }
        let Some(zone) = zone_of(self.zone.as_ref(), environment)? else {
            return Ok(Evaluated::null());
        };
        let at = zone.at(date::millis(date.or_null())?);
        let Some(format) = &self.format else {
            let z = if zone.is_utc() { "Z" } else { "" };
            return Ok(format!("{}{z}", date_format::write(&at, "%Y-%m-%dT%H:%M:%S.%L")?).into());
        };
        let format = format.eval_in(environment)?;
        match format.or_null() {
            _ if format.is_nullish() => Ok(Evaluated::null()),
            ValueRef::String(format) => {
                date_format::check(format, date_format::WRITABLE)?;
                Ok(date_format::write(&at, format)?.into())
            }
            other => Err(not_a_string(other)),
        }
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.date].into_iter().chain(&self.format).chain(&self.zone).chain(&self.on_null).collect()
    }
}
