//! `$dateAdd`: a date some units later; a day that a month lacks becomes its last.
//!
//! ```text
//! { $dateAdd: { startDate: Date(0), unit: "hour", amount: 2 } } => Date(7200000)
//! { $dateAdd: { startDate: Date("2020-01-31T12:00:00Z"), unit: "month", amount: 1 } } => Date("2020-02-29T12:00:00Z")
//! { $dateAdd: { startDate: Date("2021-03-27T12:00:00Z"), unit: "day", amount: 1, timezone: "Europe/Berlin" } } => Date("2021-03-28T11:00:00Z")
//! { $dateAdd: { startDate: "$a", unit: "day", amount: 1 } } => null
//! { $dateAdd: { startDate: Date(0), unit: "eon", amount: 1 } } => error 9: unknown time unit value: eon
//! { $dateAdd: { startDate: Date(0), unit: "day", amount: 1.5 } } => error 5166405: $dateAdd expects integer amount of time units
//! { $dateAdd: { startDate: "x", unit: "day", amount: 1 } } => error 5166403: $dateAdd requires startDate to be convertible to a date
//! { $dateAdd: { unit: "day", amount: 1 } } => error 5166402: $dateAdd requires startDate, unit, and amount to be present
//! ```

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::date_input::zone_of;
use crate::expression::date_unit::Unit;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, date};
use crate::{Error, Result, number};

#[derive(Debug)]
struct DateAdd {
    operator: &'static str,
    start: Expression,
    unit: Expression,
    amount: Expression,
    zone: Option<Expression>,
    sign: i64,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_signed(name, value, parser, 1)
}

/// `$dateSubtract` is the same with a sign of -1.
pub(super) fn parse_signed(
    operator: &'static str,
    value: ValueRef,
    parser: &mut Parser,
    sign: i64,
) -> Result<Expression> {
    let named = Named::read(operator, value, &["startDate", "unit", "amount", "timezone"], 5166400, 5166401)?;
    let (Some(start), Some(unit), Some(amount)) = (named.get("startDate"), named.get("unit"), named.get("amount"))
    else {
        let message = format!("{operator} requires startDate, unit, and amount to be present");
        return Err(Error::location(5166402, message));
    };
    let (start, unit, amount) = (parser.expression(start)?, parser.expression(unit)?, parser.expression(amount)?);
    let zone = named.get("timezone").map(|zone| parser.expression(zone)).transpose()?;
    Ok(Expression::Special(Arc::new(DateAdd { operator, start, unit, amount, zone, sign })))
}

impl Special for DateAdd {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let operator = self.operator;
        let start = self.start.eval_in(environment)?;
        let unit = self.unit.eval_in(environment)?;
        let amount = self.amount.eval_in(environment)?;
        let zone = zone_of(self.zone.as_ref(), environment)?;
        let null = start.is_nullish() || unit.is_nullish() || amount.is_nullish();
        let (false, Some(zone)) = (null, zone) else { return Ok(Evaluated::null()) };
        let millis = date::millis(start.or_null()).map_err(|_| {
            Error::location(5166403, format!("{operator} requires startDate to be convertible to a date"))
        })?;
        let unit = Unit::of(operator, &unit, 5166404)?;
        let amount = number::exact_i64(amount.or_null())
            .ok_or_else(|| Error::location(5166405, format!("{operator} expects integer amount of time units")))?;
        let overflow = || Error::location(5166406, format!("{operator} overflowed"));
        let amount = amount.checked_mul(self.sign).ok_or_else(overflow)?;
        let later = zone.later(millis, unit, amount).ok_or_else(overflow)?;
        Ok(Evaluated::Owned(Value::DateTime(later)))
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.start, &self.unit, &self.amount].into_iter().chain(&self.zone).collect()
    }
}
