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

use crate::expression::arguments::Named;
use crate::expression::date::{DAY_MILLIS, day_number, iso_day_number};
use crate::expression::date_input::zone_of;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::{Code, Error, Result, number, text};
use arbor_bson::{Value, ValueRef};

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

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let known: Vec<&str> = NATURAL.into_iter().chain(ISO).chain(TIME).chain(["timezone"]).collect();
    let named = Named::read(name, value, &known, 40519, 40518)?;
    let iso = named.get("isoWeekYear").is_some() && named.get("year").is_none();
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
        let date = if self.iso { iso_day_number(a, b, c) } else { day_number(a, b, c) };
        let seconds = second.checked_add(hour * 3600 + minute * 60);
        let millis = seconds.and_then(|seconds| seconds.checked_mul(1000)?.checked_add(millisecond));
        let local = date.zip(millis).and_then(|(date, millis)| date.checked_mul(DAY_MILLIS)?.checked_add(millis));
        let instant = local.and_then(|local| zone.instant(local));
        let out_of_range = || Error::new(Code::DURATION_OVERFLOW, "$dateFromParts: the date is out of range");
        Ok(Evaluated::Owned(Value::DateTime(instant.ok_or_else(out_of_range)?)))
    }

    fn parts(&self) -> Vec<&Expression> {
        self.date.iter().chain(&self.time).chain([&self.zone]).flatten().collect()
    }
}
