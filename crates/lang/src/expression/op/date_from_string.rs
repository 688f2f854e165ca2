//! `$dateFromString`: a date from a text, ISO 8601 or in a format.
//!
//! ```text
//! { $dateFromString: { dateString: "2018-03-27T16:58:51.538Z" } } => Date(1522169931538)
//! { $dateFromString: { dateString: "2018-03-27", timezone: "+01:00" } } => Date(1522105200000)
//! { $dateFromString: { dateString: "27/03/2018 16:58", format: "%d/%m/%Y %H:%M" } } => Date(1522169880000)
//! { $dateFromString: { dateString: "Mar 27, 2018", format: "%b %d, %Y" } } => Date(1522108800000)
//! { $dateFromString: { dateString: "nope", onError: "bad" } } => "bad"
//! { $dateFromString: { dateString: "$a", onNull: 5 } } => 5
//! { $dateFromString: { dateString: "$a" } } => null
//! { $dateFromString: { dateString: "nope" } } => error 241: Error parsing date string 'nope'; 0: The timezone could not be found in the database 'n'
//! { $dateFromString: { dateString: 5 } } => error 241: $dateFromString requires that 'dateString' be a string, found: int with value 5
//! { $dateFromString: {} } => error 40542: Missing 'dateString' parameter to $dateFromString
//! { $dateFromString: { dateString: "x", y: 1 } } => error 40541: Unrecognized argument to $dateFromString: y
//! ```

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::date_input::zone_of;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, date, date_format};
use crate::{Code, Error, Result, text};

#[derive(Debug)]
struct DateFromString {
    text: Expression,
    format: Option<Expression>,
    zone: Option<Expression>,
    on_error: Option<Expression>,
    on_null: Option<Expression>,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let known = ["dateString", "format", "timezone", "onError", "onNull"];
    let named = Named::read(name, value, &known, 40540, 40541)?;
    let text = parser.expression(named.require("dateString", 40542)?)?;
    let mut optional = |name| named.get(name).map(|value| parser.expression(value)).transpose();
    Ok(Expression::Special(Arc::new(DateFromString {
        text,
        format: optional("format")?,
        zone: optional("timezone")?,
        on_error: optional("onError")?,
        on_null: optional("onNull")?,
    })))
}

impl DateFromString {
    fn read(&self, text: &Evaluated, environment: &Environment<'_>) -> Result<Option<i64>> {
        let Some(zone) = zone_of(self.zone.as_ref(), environment)? else { return Ok(None) };
        let ValueRef::String(text) = text.or_null() else {
            let (found, shown) = (text.type_name(), text::shell(text.or_null()));
            let message =
                format!("$dateFromString requires that 'dateString' be a string, found: {found} with value {shown}");
            return Err(Error::new(Code::CONVERSION_FAILURE, message));
        };
        let Some(format) = &self.format else { return date::parse_in(text, &zone).map(Some) };
        let format = format.eval_in(environment)?;
        match format.or_null() {
            _ if format.is_nullish() => Ok(None),
            ValueRef::String(format) => {
                date_format::check(format, date_format::READABLE)?;
                date_format::read(text, format, &zone).map(Some)
            }
            other => {
                let (found, shown) = (format.type_name(), text::shell(other));
                let message =
                    format!("$dateFromString requires that 'format' be a string, found: {found} with value {shown}");
                Err(Error::location(40684, message))
            }
        }
    }
}

impl Special for DateFromString {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let text = self.text.eval_in(environment)?;
        if text.is_nullish() {
            return self.on_null.as_ref().map_or(Ok(Evaluated::null()), |value| value.eval_in(environment));
        }
        match (self.read(&text, environment), &self.on_error) {
            (Ok(Some(millis)), _) => Ok(Evaluated::Owned(Value::DateTime(millis))),
            (Ok(None), _) => Ok(Evaluated::null()),
            (Err(error), Some(value)) if error.code == Code::CONVERSION_FAILURE => value.eval_in(environment),
            (Err(error), _) => Err(error),
        }
    }

    fn parts(&self) -> Vec<&Expression> {
        let optional = [&self.format, &self.zone, &self.on_error, &self.on_null];
        [&self.text].into_iter().chain(optional.into_iter().flatten()).collect()
    }
}
