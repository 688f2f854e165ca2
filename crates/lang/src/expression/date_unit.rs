//! Units of time of `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

use arbor_bson::ValueRef;
use jiff::civil::Weekday;

use super::Evaluated;
use crate::{Error, Result, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    /// The unit an argument names; the code is for arguments that are no strings.
    pub(crate) fn of(operator: &str, value: &Evaluated, code: i32) -> Result<Unit> {
        let Some(ValueRef::String(name)) = value.get() else {
            let found = value.type_name();
            let message = format!("{operator} requires 'unit' to be a string, but got {found}");
            return Err(Error::location(code, message));
        };
        Ok(match name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            _ => return Err(Error::failed_to_parse(format!("unknown time unit value: {name}"))),
        })
    }

    /// Milliseconds, for the units that are always equally long.
    pub(crate) fn millis(self) -> Option<i64> {
        match self {
            Unit::Hour => Some(3_600_000),
            Unit::Minute => Some(60_000),
            Unit::Second => Some(1000),
            Unit::Millisecond => Some(1),
            _ => None,
        }
    }

    /// Months, for years, quarters and months.
    pub(crate) fn months(self) -> i64 {
        match self {
            Unit::Year => 12,
            Unit::Quarter => 3,
            _ => 1,
        }
    }
}

/// The first day of a week, Sunday by default.
pub(super) fn start_of_week(operator: &str, value: &Evaluated) -> Result<Weekday> {
    let Some(ValueRef::String(name)) = value.get() else {
        let found = value.type_name();
        let message = format!("{operator} requires 'startOfWeek' to be a string, but got {found}");
        return Err(Error::location(5439015, message));
    };
    let days = [
        ("sunday", Weekday::Sunday),
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
    ];
    let lower = name.to_lowercase();
    let found = days.iter().find(|(day, _)| lower == *day || (lower.len() == 3 && day.starts_with(&lower)));
    found.map(|(_, day)| *day).ok_or_else(|| {
        let shown = text::shell(ValueRef::String(name));
        Error::location(5439016, format!("{operator} unknown day of week value: {shown}"))
    })
}
