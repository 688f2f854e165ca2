//! Shared code of the date operators: instants, time zones, ISO texts.

use arbor_bson::ValueRef;
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use crate::{Code, Error, Result, text};

/// The instant of a date, a timestamp or an ObjectId, in milliseconds since 1970.
pub fn millis(value: ValueRef) -> Result<i64> {
    match value {
        ValueRef::DateTime(millis) => Ok(millis),
        ValueRef::Timestamp(timestamp) => Ok(i64::from(timestamp.seconds) * 1000),
        ValueRef::ObjectId(id) => {
            let [a, b, c, d, ..] = id.0;
            Ok(i64::from(u32::from_be_bytes([a, b, c, d])) * 1000)
        }
        other => {
            let found = text::type_name(Some(other));
            Err(Error::location(16006, format!("can't convert from BSON type {found} to Date")))
        }
    }
}

/// The instant seen in a time zone. Dates go from year -9999 to 9999.
pub fn zoned(millis: i64, zone: &TimeZone) -> Result<Zoned> {
    let instant = Timestamp::from_millisecond(millis)
        .map_err(|_| Error::new(Code::OVERFLOW, format!("date out of range: {millis}")))?;
    Ok(instant.to_zoned(zone.clone()))
}

/// A zone by its name in the tz database or by its offset: `+03`, `+0330`, `+03:30`.
pub fn zone(name: &str) -> Result<TimeZone> {
    if matches!(name, "UTC" | "GMT" | "Z" | "z") {
        return Ok(TimeZone::UTC);
    }
    if name.starts_with(['+', '-']) {
        return offset(name).map(TimeZone::fixed).ok_or_else(|| unknown_zone(name));
    }
    TimeZone::get(name).map_err(|_| unknown_zone(name))
}

fn offset(name: &str) -> Option<Offset> {
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let digits: String = name.chars().skip(1).filter(|c| *c != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at_checked(2)?,
        _ => return None,
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

fn unknown_zone(name: &str) -> Error {
    Error::location(40485, format!("unrecognized time zone identifier: \"{name}\""))
}

/// `2018-03-27T16:58:51.538Z`.
pub fn iso(millis: i64) -> String {
    match zoned(millis, &TimeZone::UTC) {
        Ok(at) => format!("{}Z", at.strftime("%Y-%m-%dT%H:%M:%S%.3f")),
        Err(_) => millis.to_string(),
    }
}

/// An ISO 8601 text: a date, a date and time, with an offset or in UTC.
pub fn parse(text: &str) -> Result<i64> {
    parse_in(text, &TimeZone::UTC)
}

/// An ISO 8601 text; without an offset of its own it is in `zone`.
/// COMPAT: MongoDB also reads texts like "Mar 27 2018 4pm"; those are refused here.
pub fn parse_in(text: &str, zone: &TimeZone) -> Result<i64> {
    let trimmed = text.trim();
    let instant = trimmed
        .parse::<Timestamp>()
        .or_else(|_| with_short_offset(trimmed))
        .or_else(|_| trimmed.parse::<DateTime>().and_then(|at| at.to_zoned(zone.clone())).map(|at| at.timestamp()))
        .or_else(|_| trimmed.parse::<Date>().and_then(|date| date.to_zoned(zone.clone())).map(|at| at.timestamp()));
    match instant {
        Ok(instant) if trimmed.starts_with(|c: char| c.is_ascii_digit()) => Ok(instant.as_millisecond()),
        _ => Err(parse_error(text)),
    }
}

/// `+0200` at the end, which ISO's extended form writes with a colon.
fn with_short_offset(text: &str) -> std::result::Result<Timestamp, jiff::Error> {
    let at = text.len().saturating_sub(2);
    let colon = text.get(..at).zip(text.get(at..)).map(|(head, tail)| format!("{head}:{tail}"));
    colon.unwrap_or_default().parse()
}

pub fn parse_error(text: &str) -> Error {
    let first = text.chars().next().map_or(String::new(), |c| c.to_string());
    let message = format!("Error parsing date string '{text}'; 0: Unexpected character '{first}'");
    Error::new(Code::CONVERSION_FAILURE, message)
}
