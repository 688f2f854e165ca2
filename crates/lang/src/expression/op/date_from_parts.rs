//! `$dateFromParts`: a date from its parts; parts beyond their range carry over.
//!
//! ```text
//! { $dateFromParts: { year: 2018, month: 3, day: 27, hour: 16, minute: 58, second: 51, millisecond: 538 } } => Date(1522169931538)
//! { $dateFromParts: { year: 2018 } } => Date(1514764800000)
//! { $dateFromParts: { year: 2017, month: 14, day: 0 } } => Date(1517356800000)
//! { $dateFromParts: { year: 1970, timezone: "+01" } } => Date(-3600000)
//! { $dateFromParts: { isoWeekYear: 2018, isoWeek: 13, isoDayOfWeek: 2 } } => Date(1522108800000)
//! { $dateFromParts: { year: "$a" } } => null
//! { $dateFromParts: { month: 1 } } => error 40516: $dateFromParts requires either 'year' or 'isoWeekYear' to be present
//! { $dateFromParts: { year: 2018, isoWeek: 1 } } => error 40489: $dateFromParts does not allow mixing natural dates with ISO dates
//! { $dateFromParts: { year: "x" } } => error 40515: 'year' must evaluate to an integer, found string with value "x"
//! { $dateFromParts: { year: 0 } } => error 40523: 'year' must evaluate to an integer in the range 1 to 9999, found 0
//! { $dateFromParts: { x: 1 } } => error 40518: Unrecognized argument to $dateFromParts: x
//! ```

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};
use jiff::ToSpan;
use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;

use crate::expression::arguments::Named;
use crate::expression::date_input::zone_of;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::{Code, Error, Result, number, text};

const NATURAL: [&str; 3] = ["year", "month", "day"];
const ISO: [&str; 3] = ["isoWeekYear", "isoWeek", "isoDayOfWeek"];
const TIME: [&str; 4] = ["hour", "minute", "second", "millisecond"];

#[derive(Debug)]
struct DateFromParts {
    iso: bool,
    date: [Option<Expression>; 3],
    time: [Option<Expression>; 4],
    zone: Option<Expression>,
}

pub fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let known: Vec<&str> = NATURAL.into_iter().chain(ISO).chain(TIME).chain(["timezone"]).collect();
    let named = Named::read(name, value, &known, 40519, 40518)?;
    let iso = named.get("isoWeekYear").is_some();
    let (names, others) = if iso { (ISO, NATURAL) } else { (NATURAL, ISO) };
    if named.get(names[0]).is_none() {
        let message = "$dateFromParts requires either 'year' or 'isoWeekYear' to be present";
        return Err(Error::location(40516, message));
    }
    if others.iter().any(|name| named.get(name).is_some()) {
        let (code, order) =
            if iso { (40525, "ISO dates with natural dates") } else { (40489, "natural dates with ISO dates") };
        return Err(Error::location(code, format!("$dateFromParts does not allow mixing {order}")));
    }
    let mut optional = |name: &str| named.get(name).map(|value| parser.expression(value)).transpose();
    let date = [optional(names[0])?, optional(names[1])?, optional(names[2])?];
    let time = [optional(TIME[0])?, optional(TIME[1])?, optional(TIME[2])?, optional(TIME[3])?];
    let zone = optional("timezone")?;
    Ok(Expression::Special(Arc::new(DateFromParts { iso, date, time, zone })))
}

/// The whole number of a part; `None` for null.
fn part(name: &str, part: &Option<Expression>, default: i64, environment: &Environment<'_>) -> Result<Option<i64>> {
    let Some(part) = part else { return Ok(Some(default)) };
    let value = part.eval_in(environment)?;
    if value.is_nullish() {
        return Ok(None);
    }
    let whole = number::exact_i64(value.or_null()).ok_or_else(|| {
        let (found, shown) = (value.type_name(), text::shell(value.or_null()));
        Error::location(40515, format!("'{name}' must evaluate to an integer, found {found} with value {shown}"))
    })?;
    let years = matches!(name, "year" | "isoWeekYear");
    if years && !(1..=9999).contains(&whole) {
        let message = format!("'{name}' must evaluate to an integer in the range 1 to 9999, found {whole}");
        return Err(Error::location(if name == "year" { 40523 } else { 31095 }, message));
    }
    let wide = matches!(name, "second" | "millisecond");
    if !years && !wide && i16::try_from(whole).is_err() {
        let message =
            format!("'{name}' must evaluate to a value in the range [-32768, 32767]; value {whole} is not in range");
        return Err(Error::location(31034, message));
    }
    Ok(Some(whole))
}

fn natural(year: i64, month: i64, day: i64) -> Option<Date> {
    let months = year * 12 + month - 1;
    let first = Date::new(months.div_euclid(12).try_into().ok()?, months.rem_euclid(12) as i8 + 1, 1).ok()?;
    first.checked_add((day - 1).days()).ok()
}

fn iso(year: i64, week: i64, day: i64) -> Option<Date> {
    let first = ISOWeekDate::new(year.try_into().ok()?, 1, Weekday::Monday).ok()?.date();
    first.checked_add(((week - 1) * 7 + day - 1).days()).ok()
}

fn instant(date: Date, millis: i64, zone: TimeZone) -> Option<i64> {
    let at =
        date.to_datetime(jiff::civil::Time::midnight()).checked_add(0.days().try_milliseconds(millis).ok()?).ok()?;
    Some(at.to_zoned(zone).ok()?.timestamp().as_millisecond())
}

impl Special for DateFromParts {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let names = if self.iso { ISO } else { NATURAL };
        let mut whole = Vec::with_capacity(7);
        for (name, expression) in names.iter().zip(&self.date) {
            whole.push(part(name, expression, 1, environment)?);
        }
        for (name, expression) in TIME.iter().zip(&self.time) {
            whole.push(part(name, expression, 0, environment)?);
        }
        let zone = zone_of(self.zone.as_ref(), environment)?;
        let whole: Option<Vec<i64>> = whole.into_iter().collect();
        let (Some(&[a, b, c, hour, minute, second, millisecond]), Some(zone)) = (whole.as_deref(), zone) else {
            return Ok(Evaluated::null());
        };
        let date = if self.iso { iso(a, b, c) } else { natural(a, b, c) };
        let seconds = second.checked_add(hour * 3600 + minute * 60);
        let millis = seconds.and_then(|seconds| seconds.checked_mul(1000)?.checked_add(millisecond));
        let instant = date.zip(millis).and_then(|(date, millis)| instant(date, millis, zone));
        let out_of_range = || Error::new(Code::DURATION_OVERFLOW, "$dateFromParts: the date is out of range");
        Ok(Evaluated::Owned(Value::DateTime(instant.ok_or_else(out_of_range)?)))
    }

    fn parts(&self) -> Vec<&Expression> {
        self.date.iter().chain(&self.time).chain([&self.zone]).flatten().collect()
    }
}
