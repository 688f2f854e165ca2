//! Formats of `$dateToString` and `$dateFromString`: `%Y-%m-%d` and so on.
//!
//! | | | | |
//! |---|---|---|---|
//! | `%Y` year | `%m` month | `%d` day | `%j` day of the year |
//! | `%H` hour | `%M` minute | `%S` second | `%L` millisecond |
//! | `%G` ISO year | `%V` ISO week | `%u` ISO weekday | `%U` week, `%w` weekday (1 is Sunday) |
//! | `%b` month's short name | `%B` its name | `%z` offset as +hhmm | `%Z` offset in minutes |

use jiff::civil::{Date, ISOWeekDate, Weekday};

use super::date::{DAY_MILLIS, Moment, Zone, days_of, in_zone};
use crate::{Code, Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Refuses a format with an unknown letter.
pub(super) fn check(format: &str, known: &str) -> Result<()> {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        match chars.next() {
            None => return Err(Error::location(18535, "Unmatched '%' at end of format string")),
            Some(letter) if !known.contains(letter) => {
                return Err(Error::location(18536, format!("Invalid format character '%{letter}' in format string")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The letters of `$dateToString`.
pub(super) const WRITABLE: &str = "dGHjLmMSuUVwYzZbB%";
/// The letters of `$dateFromString`.
pub(super) const READABLE: &str = "dGHjLmMSuVYzZbB%";

/// The date as text.
pub(super) fn write(at: &Moment, format: &str) -> Result<String> {
    use std::fmt::Write;
    let mut out = String::with_capacity(format.len() + 8);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        let letter = if c == '%' { chars.next() } else { None };
        let Some(letter) = letter else {
            out.push(c);
            continue;
        };
        let iso = || at.date().iso_week_date();
        let _ = match letter {
            'Y' => write!(out, "{:04}", year(at.year())?),
            'G' => write!(out, "{:04}", year(at.iso_year())?),
            'm' => write!(out, "{:02}", at.month()),
            'd' => write!(out, "{:02}", at.day()),
            'j' => write!(out, "{:03}", at.day_of_year()),
            'H' => write!(out, "{:02}", at.hour()),
            'M' => write!(out, "{:02}", at.minute()),
            'S' => write!(out, "{:02}", at.second()),
            'L' => write!(out, "{:03}", at.millisecond()),
            'V' => write!(out, "{:02}", iso().week()),
            'u' => write!(out, "{}", at.weekday().to_monday_one_offset()),
            'U' => write!(out, "{:02}", week(at)),
            'w' => write!(out, "{}", at.weekday().to_sunday_one_offset()),
            'b' => write!(out, "{}", month_name(at).get(..3).unwrap_or("")),
            'B' => write!(out, "{}", month_name(at)),
            'z' => {
                let minutes = at.offset_minutes();
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(out, "{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
            'Z' => write!(out, "{:+}", at.offset_minutes()),
            other => write!(out, "{other}"),
        };
    }
    Ok(out)
}

/// The week of the year; weeks begin on Sunday, days before the first one are in week 0.
pub(super) fn week(at: &Moment) -> i32 {
    (i32::from(at.day_of_year()) + 6 - i32::from(at.weekday().to_sunday_zero_offset())) / 7
}

fn year(year: i64) -> Result<i64> {
    if (0..=9999).contains(&year) {
        return Ok(year);
    }
    Err(Error::location(18537, format!("$dateToString is only defined on year 0-9999, tried to use year {year}")))
}

fn month_name(at: &Moment) -> &'static str {
    MONTHS.get((at.month() - 1) as usize).copied().unwrap_or("")
}

/// Parts of a date parsed from a text, by format letter.
#[derive(Default)]
struct Seen {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
    offset: Option<i64>,
}

/// The instant that a text in this format names, in milliseconds since 1970.
pub(super) fn read(text: &str, format: &str, zone: &Zone) -> Result<i64> {
    let seen = scan(text, format).ok_or_else(|| {
        let message = format!("Error parsing date string '{text}'; format literal not found");
        Error::new(Code::CONVERSION_FAILURE, message)
    })?;
    let local = local(&seen)
        .ok_or_else(|| Error::new(Code::CONVERSION_FAILURE, format!("Error parsing date string '{text}'")))?;
    in_zone(local, seen.offset.map(Zone::offset), zone, text)
}

fn scan(text: &str, format: &str) -> Option<Seen> {
    let mut seen = Seen::default();
    let mut rest = text;
    let mut letters = format.chars();
    while let Some(c) = letters.next() {
        if c != '%' {
            rest = rest.strip_prefix(c)?;
            continue;
        }
        let slot = match letters.next()? {
            'Y' => seen.year.insert(number(&mut rest, 4)?),
            'm' => seen.month.insert(number(&mut rest, 2)?),
            'd' => seen.day.insert(number(&mut rest, 2)?),
            'j' => seen.day_of_year.insert(number(&mut rest, 3)?),
            'G' => seen.iso_year.insert(number(&mut rest, 4)?),
            'V' => seen.iso_week.insert(number(&mut rest, 2)?),
            'u' => seen.iso_day.insert(number(&mut rest, 1)?),
            'H' => set(&mut seen.hour, number(&mut rest, 2)?),
            'M' => set(&mut seen.minute, number(&mut rest, 2)?),
            'S' => set(&mut seen.second, number(&mut rest, 2)?),
            'L' => set(&mut seen.millisecond, number(&mut rest, 3)?),
            'b' => seen.month.insert(name(&mut rest, 3)?),
            'B' => seen.month.insert(name(&mut rest, usize::MAX)?),
            'z' => seen.offset.insert(offset(&mut rest)?),
            'Z' => seen.offset.insert(minutes(&mut rest)?),
            _ => {
                rest = rest.strip_prefix('%')?;
                continue;
            }
        };
        let _ = slot;
    }
    rest.is_empty().then_some(seen)
}

fn set(slot: &mut i64, value: i64) -> &mut i64 {
    *slot = value;
    slot
}

fn number(rest: &mut &str, digits_max: usize) -> Option<i64> {
    let end = rest.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
    let (digits, tail) = rest.split_at(end);
    *rest = tail;
    digits.parse().ok()
}

fn name(rest: &mut &str, length: usize) -> Option<i64> {
    let matches = |month: &&str| {
        let name = month.get(..length.min(month.len())).unwrap_or(month);
        rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
    };
    let at = MONTHS.iter().position(matches)?;
    *rest = rest.get(length.min(MONTHS.get(at)?.len())..)?;
    Some(at as i64 + 1)
}

/// `Z`, `+hhmm` or `+hh:mm`, in minutes.
fn offset(rest: &mut &str) -> Option<i64> {
    if let Some(tail) = rest.strip_prefix(['Z', 'z']) {
        *rest = tail;
        return Some(0);
    }
    let sign = if rest.starts_with('-') { -1 } else { 1 };
    *rest = rest.strip_prefix(['+', '-'])?;
    let hours = number(rest, 2)?;
    *rest = rest.strip_prefix(':').unwrap_or(rest);
    Some(sign * (hours * 60 + number(rest, 2).unwrap_or(0)))
}

fn minutes(rest: &mut &str) -> Option<i64> {
    let sign = if rest.starts_with('-') { -1 } else { 1 };
    *rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    Some(sign * number(rest, 4)?)
}

/// The time that is shown, counted as if it were UTC.
fn local(seen: &Seen) -> Option<i64> {
    let narrow = |v: i64| i8::try_from(v).ok();
    let day = match (seen.year, seen.iso_year, seen.day_of_year) {
        (Some(year), None, Some(day)) => {
            // COMPAT: the first day of a year has the number 0 here, and 1 in what `$dateToString` writes
            days_of(Date::new(year.try_into().ok()?, 1, 1).ok()?) + day
        }
        (Some(year), None, None) => {
            let (month, day) = (narrow(seen.month.unwrap_or(1))?, narrow(seen.day.unwrap_or(1))?);
            days_of(Date::new(year.try_into().ok()?, month, day).ok()?)
        }
        (None, Some(year), None) => {
            let weekday = Weekday::from_monday_one_offset(narrow(seen.iso_day.unwrap_or(1))?).ok()?;
            days_of(ISOWeekDate::new(year.try_into().ok()?, narrow(seen.iso_week.unwrap_or(1))?, weekday).ok()?.date())
        }
        _ => return None,
    };
    let within = |value: i64, most: i64| (0..=most).contains(&value).then_some(value);
    let minutes = within(seen.hour, 23)? * 60 + within(seen.minute, 59)?;
    Some(day * DAY_MILLIS + (minutes * 60 + within(seen.second, 59)?) * 1000 + within(seen.millisecond, 999)?)
}
