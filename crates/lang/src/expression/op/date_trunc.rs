//! `$dateTrunc`: the beginning of the unit (or of the bin of several) that contains a date. Bins are counted from 2000.
//!
//! ```text
//! { $dateTrunc: { date: Date("2021-03-20T11:30:05Z"), unit: "hour" } } => Date("2021-03-20T11:00:00Z")
//! { $dateTrunc: { date: Date("2021-03-20T11:30:05Z"), unit: "month" } } => Date("2021-03-01T00:00:00Z")
//! { $dateTrunc: { date: Date("2021-03-20T11:30:05Z"), unit: "month", binSize: 2 } } => Date("2021-03-01T00:00:00Z")
//! { $dateTrunc: { date: Date("2021-03-20T11:30:05Z"), unit: "week" } } => Date("2021-03-14T00:00:00Z")
//! { $dateTrunc: { date: Date("2021-03-20T11:30:05Z"), unit: "week", startOfWeek: "monday" } } => Date("2021-03-15T00:00:00Z")
//! { $dateTrunc: { date: Date("2021-03-20T11:30:05Z"), unit: "day", timezone: "+02" } } => Date("2021-03-19T22:00:00Z")
//! { $dateTrunc: { date: Date("2021-03-20T11:50:05Z"), unit: "minute", binSize: 15 } } => Date("2021-03-20T11:45:00Z")
//! { $dateTrunc: { date: Date("1999-11-20T11:50:05Z"), unit: "quarter" } } => Date("1999-10-01T00:00:00Z")
//! { $dateTrunc: { date: "$a", unit: "day" } } => null
//! { $dateTrunc: { date: Date(0), unit: "day", binSize: 0 } } => error 5439018: $dateTrunc requires 'binSize' to be greater than 0, but got value 0
//! ```

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};
use jiff::civil::Weekday;

use crate::expression::arguments::Named;
use crate::expression::date::{DAY_MILLIS, Moment, Zone, day_number};
use crate::expression::date_input::zone_of;
use crate::expression::date_unit::{Unit, start_of_week};
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, date};
use crate::{Code, Error, Result, number, text};

#[derive(Debug)]
struct DateTrunc {
    date: Expression,
    unit: Expression,
    bin_size: Option<Expression>,
    zone: Option<Expression>,
    start_of_week: Option<Expression>,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let known = ["date", "unit", "binSize", "timezone", "startOfWeek"];
    let named = Named::read(name, value, &known, 5439007, 5439008)?;
    let date = parser.expression(named.require("date", 5439009)?)?;
    let unit = parser.expression(named.require("unit", 5439010)?)?;
    let mut optional = |name| named.get(name).map(|value| parser.expression(value)).transpose();
    Ok(Expression::Special(Arc::new(DateTrunc {
        date,
        unit,
        bin_size: optional("binSize")?,
        zone: optional("timezone")?,
        start_of_week: optional("startOfWeek")?,
    })))
}

/// Days from 1970-01-01 to 2000-01-01, a Saturday.
const DAYS_TO_2000: i64 = 10_957;

/// The years of a bin from which on it is refused.
const BIN_YEARS_MAX: i64 = 100_000_000_000;

fn truncate(at: &Moment, unit: Unit, bin: i64, first_day: Weekday, zone: &Zone) -> Result<i64> {
    let floor = |value: i64, step: i64| value - value.rem_euclid(step);
    let out_of_range = || Error::new(Code::DURATION_OVERFLOW, "$dateTrunc: the date is out of range");
    let too_large = |code| move || Error::location(code, "$dateTrunc: the binSize is too large for its unit");
    if let Some(unit_millis) = unit.millis() {
        let step = unit_millis.checked_mul(bin).ok_or_else(too_large(5439002))?;
        let reference = zone.instant(DAYS_TO_2000 * DAY_MILLIS).ok_or_else(out_of_range)?;
        let floored = at.millis().checked_sub(reference).map(|millis| floor(millis, step));
        return floored.and_then(|millis| reference.checked_add(millis)).ok_or_else(out_of_range);
    }
    let day = match unit {
        Unit::Day | Unit::Week => {
            // the first day of a week on or after 2000-01-01
            let saturday_to_first = (i64::from(first_day.to_monday_zero_offset()) - 5).rem_euclid(7);
            let (reference, step) = match unit {
                Unit::Week => (DAYS_TO_2000 + saturday_to_first, bin.checked_mul(7).ok_or_else(too_large(5439005))?),
                _ => (DAYS_TO_2000, bin),
            };
            Some(reference + floor(at.day_number() - reference, step))
        }
        _ => {
            let months = (at.year() - 2000) * 12 + i64::from(at.month()) - 1;
            let step = bin.checked_mul(unit.months()).filter(|step| *step <= BIN_YEARS_MAX * 12);
            let month = floor(months, step.ok_or_else(too_large(5439006))?) + 2000 * 12;
            day_number(month.div_euclid(12), month.rem_euclid(12) + 1, 1)
        }
    };
    let local = day.and_then(|day| day.checked_mul(DAY_MILLIS));
    local.and_then(|local| zone.instant(local)).ok_or_else(out_of_range)
}

impl DateTrunc {
    /// `None` for null.
    fn bin_size(&self, environment: &Environment<'_>) -> Result<Option<i64>> {
        let Some(size) = &self.bin_size else { return Ok(Some(1)) };
        let size = size.eval_in(environment)?;
        if size.is_nullish() {
            return Ok(None);
        }
        let shown = text::shell(size.or_null());
        match number::exact_i64(size.or_null()) {
            None => {
                let message = format!("$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{shown}'");
                Err(Error::location(5439017, message))
            }
            Some(size) if size < 1 => {
                let message = format!("$dateTrunc requires 'binSize' to be greater than 0, but got value {size}");
                Err(Error::location(5439018, message))
            }
            size => Ok(size),
        }
    }
}

impl Special for DateTrunc {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let date = self.date.eval_in(environment)?;
        let unit = self.unit.eval_in(environment)?;
        let bin = self.bin_size(environment)?;
        let zone = zone_of(self.zone.as_ref(), environment)?;
        let null = date.is_nullish() || unit.is_nullish();
        let (false, Some(bin), Some(zone)) = (null, bin, zone) else { return Ok(Evaluated::null()) };
        let millis = date::millis(date.or_null()).map_err(|_| {
            let found = date.type_name();
            Error::location(5166307, format!("$dateTrunc requires 'date' to be a date, but got {found}"))
        })?;
        let at = zone.at(millis);
        let unit = Unit::of("$dateTrunc", &unit, 5439013)?;
        let first_day = match &self.start_of_week {
            // COMPAT: of other units MongoDB reads it when the date is a field, and only whether it is null
            Some(day) if unit == Unit::Week || !matches!(self.date, Expression::Constant(_)) => {
                let day = day.eval_in(environment)?;
                if day.is_nullish() {
                    return Ok(Evaluated::null());
                }
                if unit == Unit::Week { start_of_week("$dateTrunc", &day)? } else { Weekday::Sunday }
            }
            _ => Weekday::Sunday,
        };
        let truncated = truncate(&at, unit, bin, first_day, &zone)?;
        Ok(Evaluated::Owned(Value::DateTime(truncated)))
    }

    fn parts(&self) -> Vec<&Expression> {
        let optional = [&self.bin_size, &self.zone, &self.start_of_week];
        [&self.date, &self.unit].into_iter().chain(optional.into_iter().flatten()).collect()
    }
}
