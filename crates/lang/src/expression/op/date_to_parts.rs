//! `$dateToParts`: a date as a document of its parts.
//!
//! ```text
//! { $dateToParts: { date: Date(1522169931538) } } => { year: 2018, month: 3, day: 27, hour: 16, minute: 58, second: 51, millisecond: 538 }
//! { $dateToParts: { date: Date(0), timezone: "+01" } } => { year: 1970, month: 1, day: 1, hour: 1, minute: 0, second: 0, millisecond: 0 }
//! { $dateToParts: { date: Date(1522169931538), iso8601: true } } => { isoWeekYear: 2018, isoWeek: 13, isoDayOfWeek: 2, hour: 16, minute: 58, second: 51, millisecond: 538 }
//! { $dateToParts: { date: "$a" } } => null
//! { $dateToParts: {} } => error 40522: Missing 'date' parameter to $dateToParts
//! ```

use std::sync::Arc;

use arbor_bson::{DocBuf, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::date_input::zone_of;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, date};
use crate::{Error, Result, text};

#[derive(Debug)]
struct DateToParts {
    date: Expression,
    zone: Option<Expression>,
    iso: Option<Expression>,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let named = Named::read(name, value, &["date", "timezone", "iso8601"], 40524, 40520)?;
    let date = parser.expression(named.require("date", 40522)?)?;
    let mut optional = |name| named.get(name).map(|value| parser.expression(value)).transpose();
    let (zone, iso) = (optional("timezone")?, optional("iso8601")?);
    Ok(Expression::Special(Arc::new(DateToParts { date, zone, iso })))
}

impl Special for DateToParts {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let date = self.date.eval_in(environment)?;
        let iso = match &self.iso {
            None => false,
            Some(iso) => match iso.eval_in(environment)?.get() {
                Some(ValueRef::Bool(iso)) => iso,
                None | Some(ValueRef::Null) => return Ok(Evaluated::null()),
                Some(other) => {
                    let found = text::type_name(Some(other));
                    return Err(Error::location(40521, format!("iso8601 must evaluate to a bool, found {found}")));
                }
            },
        };
        let zone = zone_of(self.zone.as_ref(), environment)?;
        let (false, Some(zone)) = (date.is_nullish(), zone) else { return Ok(Evaluated::null()) };
        let at = zone.at(date::millis(date.or_null())?);
        let mut parts = DocBuf::new();
        let week = at.date().iso_week_date();
        let mut part = |name: &str, value: i32| {
            parts.append(name, value);
        };
        if iso {
            part("isoWeekYear", at.iso_year() as i32);
            part("isoWeek", i32::from(week.week()));
            part("isoDayOfWeek", i32::from(at.weekday().to_monday_one_offset()));
        } else {
            part("year", at.year() as i32);
            part("month", i32::from(at.month()));
            part("day", i32::from(at.day()));
        }
        part("hour", i32::from(at.hour()));
        part("minute", i32::from(at.minute()));
        part("second", i32::from(at.second()));
        part("millisecond", i32::from(at.millisecond()));
        Ok(parts.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.date].into_iter().chain(&self.zone).chain(&self.iso).collect()
    }
}
