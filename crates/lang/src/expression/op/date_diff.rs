//! `$dateDiff`: how many boundaries of a unit lie between two dates.
//!
//! ```text
//! { $dateDiff: { startDate: Date("2020-12-31T23:00:00Z"), endDate: Date("2021-01-01T01:00:00Z"), unit: "year" } } => Long(1)
//! { $dateDiff: { startDate: Date(0), endDate: Date(7199999), unit: "hour" } } => Long(1)
//! { $dateDiff: { startDate: Date("2021-01-02T00:00:00Z"), endDate: Date("2021-01-03T00:00:00Z"), unit: "week" } } => Long(1)
//! { $dateDiff: { startDate: Date("2021-01-02T00:00:00Z"), endDate: Date("2021-01-03T00:00:00Z"), unit: "week", startOfWeek: "monday" } } => Long(0)
//! { $dateDiff: { startDate: Date("2021-03-01T00:00:00Z"), endDate: Date("2021-01-31T00:00:00Z"), unit: "month" } } => Long(-2)
//! { $dateDiff: { startDate: "$a", endDate: Date(0), unit: "day" } } => null
//! { $dateDiff: { startDate: 1, endDate: Date(0), unit: "day" } } => error 5166307: $dateDiff requires 'startDate' to be a date, but got int
//! { $dateDiff: { endDate: 1, unit: "day" } } => error 5166303: Missing 'startDate' parameter to $dateDiff
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;
use jiff::civil::Weekday;

use crate::expression::arguments::Named;
use crate::expression::date::{Moment, days_from};
use crate::expression::date_input::zone_of;
use crate::expression::date_unit::{Unit, start_of_week};
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, date};
use crate::{Error, Result};

#[derive(Debug)]
struct DateDiff {
    start: Expression,
    end: Expression,
    unit: Expression,
    zone: Option<Expression>,
    start_of_week: Option<Expression>,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let known = ["startDate", "endDate", "unit", "timezone", "startOfWeek"];
    let named = Named::read(name, value, &known, 5166301, 5166302)?;
    let start = parser.expression(named.require("startDate", 5166303)?)?;
    let end = parser.expression(named.require("endDate", 5166304)?)?;
    let unit = parser.expression(named.require("unit", 5166305)?)?;
    let mut optional = |name| named.get(name).map(|value| parser.expression(value)).transpose();
    let (zone, start_of_week) = (optional("timezone")?, optional("startOfWeek")?);
    Ok(Expression::Special(Arc::new(DateDiff { start, end, unit, zone, start_of_week })))
}

/// Counts the boundaries of the unit up to this moment, from a fixed origin.
fn boundaries(at: &Moment, unit: Unit, first_day: Weekday) -> i64 {
    let months = at.year() * 12 + i64::from(at.month()) - 1;
    match unit {
        Unit::Year => at.year(),
        Unit::Quarter => months.div_euclid(3),
        Unit::Month => months,
        Unit::Week => days_from(first_day, at.day_number()).div_euclid(7),
        Unit::Day => at.day_number(),
        other => {
            // as clocks show it, but for the hours that they were set forward or back
            let millis = other.millis().unwrap_or(1);
            at.local_millis().div_euclid(millis) - at.offset_minutes() / 60 * (3_600_000 / millis)
        }
    }
}

fn date_of(name: &str, code: i32, value: &Evaluated) -> Result<i64> {
    date::millis(value.or_null()).map_err(|_| {
        let found = value.type_name();
        Error::location(code, format!("$dateDiff requires '{name}' to be a date, but got {found}"))
    })
}

impl Special for DateDiff {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let start = self.start.eval_in(environment)?;
        let end = self.end.eval_in(environment)?;
        let unit = self.unit.eval_in(environment)?;
        let zone = zone_of(self.zone.as_ref(), environment)?;
        let null = start.is_nullish() || end.is_nullish() || unit.is_nullish();
        let (false, Some(zone)) = (null, zone) else { return Ok(Evaluated::null()) };
        let start = zone.at(date_of("startDate", 5166307, &start)?);
        let end = zone.at(date_of("endDate", 5166307, &end)?);
        let unit = Unit::of("$dateDiff", &unit, 5439013)?;
        let first_day = match &self.start_of_week {
            Some(day) if unit == Unit::Week => {
                let day = day.eval_in(environment)?;
                if day.is_nullish() {
                    return Ok(Evaluated::null());
                }
                start_of_week("$dateDiff", &day)?
            }
            _ => Weekday::Sunday,
        };
        let difference = boundaries(&end, unit, first_day).checked_sub(boundaries(&start, unit, first_day));
        let overflow = || Error::location(5166308, "$dateDiff overflowed");
        Ok(difference.ok_or_else(overflow)?.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        let optional = [&self.zone, &self.start_of_week];
        [&self.start, &self.end, &self.unit].into_iter().chain(optional.into_iter().flatten()).collect()
    }
}
