//! The date and the time zone of date operators, and the operators that return one part of a date.

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use super::date::{Moment, Zone};
use super::parse::Parser;
use super::{Environment, Evaluated, Expression, Special, date};
use crate::{Error, Result, text};

/// `<date>`, `[<date>]` or `{ date: <date>, timezone: <zone> }`.
#[derive(Debug)]
pub(super) struct DateInput {
    operator: &'static str,
    pub date: Expression,
    pub zone: Option<Expression>,
}

impl DateInput {
    pub(super) fn parse(operator: &'static str, value: ValueRef, parser: &mut Parser) -> Result<DateInput> {
        let named = match value {
            ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| !name.starts_with('$')) => doc,
            ValueRef::Array(list) => {
                let (Some(only), 1) = (list.get(0), list.len()) else {
                    let count = list.len();
                    let message =
                        format!("{operator} accepts exactly one argument if given an array, but was given {count}");
                    return Err(Error::location(40536, message));
                };
                return Ok(DateInput { operator, date: parser.expression(only)?, zone: None });
            }
            other => return Ok(DateInput { operator, date: parser.expression(other)?, zone: None }),
        };
        let (mut date, mut zone) = (None, None);
        for (name, value) in named {
            match name {
                "date" => date = Some(parser.expression(value)?),
                "timezone" => zone = Some(parser.expression(value)?),
                _ => {
                    return Err(Error::location(40535, format!("unrecognized option to {operator}: \"{name}\"")));
                }
            }
        }
        let shown = text::shell(value);
        let missing = || Error::location(40539, format!("missing 'date' argument to {operator}, provided: {shown}"));
        Ok(DateInput { operator, date: date.ok_or_else(missing)?, zone })
    }

    /// The instant in its zone; `None` when one of the two is null.
    pub(super) fn zoned(&self, environment: &Environment<'_>) -> Result<Option<Moment>> {
        let date = self.date.eval_in(environment)?;
        if date.is_nullish() {
            return Ok(None);
        }
        let millis = date::millis(date.or_null())?;
        match zone_of(self.zone.as_ref(), environment)? {
            Some(zone) => Ok(Some(zone.at(millis))),
            None => Ok(None),
        }
    }

    pub(super) fn parts(&self) -> Vec<&Expression> {
        [&self.date].into_iter().chain(&self.zone).collect()
    }
}

/// The zone an expression names, UTC without one, `None` for null.
pub(super) fn zone_of(zone: Option<&Expression>, environment: &Environment<'_>) -> Result<Option<Zone>> {
    let Some(zone) = zone else { return Ok(Some(Zone::utc())) };
    let name = zone.eval_in(environment)?;
    match name.get() {
        _ if name.is_nullish() => Ok(None),
        Some(ValueRef::String(name)) => Zone::named(name).map(Some),
        _ => {
            let message = format!("timezone must evaluate to a string, found {}", name.type_name());
            Err(Error::location(40517, message))
        }
    }
}

/// An operator that returns one part of a date, null for null.
struct DatePart {
    input: DateInput,
    part: fn(&Moment) -> Value,
}

pub(super) fn parse_part(
    operator: &'static str,
    value: ValueRef,
    parser: &mut Parser,
    part: fn(&Moment) -> Value,
) -> Result<Expression> {
    let input = DateInput::parse(operator, value, parser)?;
    Ok(Expression::Special(Arc::new(DatePart { input, part })))
}

impl std::fmt::Debug for DatePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.input.operator, self.input.date)
    }
}

impl Special for DatePart {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let zoned = self.input.zoned(environment)?;
        Ok(zoned.map_or(Evaluated::null(), |zoned| Evaluated::Owned((self.part)(&zoned))))
    }

    fn parts(&self) -> Vec<&Expression> {
        self.input.parts()
    }
}
