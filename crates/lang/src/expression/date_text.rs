//! Dates of texts without a format: ISO 8601, and the forms that people write.
//!
//! A text has a day, a month and a year in any order that is clear, and perhaps a time, a zone and amounts of time to add:
//! `2018-03-27T16:58:51.538Z`, `Mar 27 2018 4pm EST`, `27 March 2018 16:58 +0200`, `3/27/2018`, `2018W133 Europe/Paris +2 days`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::date::{DAY_MILLIS, Zone, day_number, days_of, iso_day_number};
use super::date_unit::Unit;
use super::zone_names;
use crate::{Code, Error};

const TEXT_BYTES_MAX: usize = 200;
const HOUR_MILLIS: i64 = 3_600_000;
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const ROMAN_MONTHS: [&str; 12] = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The time that a text shows, counted as if it were UTC, and its zone if it names one.
pub(super) struct Read {
    pub local: i64,
    pub zone: Option<Zone>,
}

/// Why a text is no date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Unexpected,
    UnknownZone,
    Incomplete,
}

/// Returns the time of a text. Errors: it is none.
pub(super) fn read(text: &str) -> Result<Read, Error> {
    let trimmed = text.trim();
    if trimmed.len() > TEXT_BYTES_MAX {
        return Err(error(text));
    }
    let mut reader = Reader { rest: trimmed, ..Reader::default() };
    match reader.read() {
        Ok(read) => Ok(read),
        Err(fault) => basic(trimmed).ok_or_else(|| {
            let at = trimmed.len() - reader.rest.len();
            let character = reader.rest.chars().next().map_or(String::new(), |c| c.to_string());
            match fault {
                Fault::Unexpected => refused(text, &format!("{at}: Unexpected character '{character}'")),
                Fault::UnknownZone => {
                    refused(text, &format!("{at}: The timezone could not be found in the database '{character}'"))
                }
                Fault::Incomplete => Error::new(
                    Code::CONVERSION_FAILURE,
                    format!("an incomplete date/time string has been found, with elements missing: \"{text}\""),
                ),
            }
        }),
    }
}

/// The other forms of ISO 8601: without dashes and colons, with a zone in brackets.
fn basic(text: &str) -> Option<Read> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(Read { local: instant.as_millisecond(), zone: Some(Zone::utc()) });
    }
    let shown = text.parse::<DateTime>().ok()?;
    let local = shown.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(Read { local, zone: None })
}

pub(super) fn error(text: &str) -> Error {
    let first = text.chars().next().map_or(String::new(), |c| c.to_string());
    refused(text, &format!("0: Unexpected character '{first}'"))
}

pub(super) fn refused(text: &str, why: &str) -> Error {
    Error::new(Code::CONVERSION_FAILURE, format!("Error parsing date string '{text}'; {why}"))
}

/// The day within a year, as a text shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayOfYear {
    Number(i64),
    IsoWeek { week: i64, day: i64 },
}

#[derive(Default)]
struct Reader<'t> {
    rest: &'t str,
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// Instead of month and day.
    of_year: Option<DayOfYear>,
    weekday: Option<i64>,
    time: Option<i64>,
    afternoon: Option<bool>,
    zone: Option<Zone>,
    /// Amounts of time to add.
    later: Vec<(Unit, i64)>,
}

/// None: the text cannot be read there.
type Step = Option<()>;

impl Reader<'_> {
    fn read(&mut self) -> Result<Read, Fault> {
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let step = match first {
                ' ' | ',' | '\t' => {
                    self.skip(1);
                    Some(())
                }
                '+' | '-' => self.amount().or_else(|| self.offset()),
                '@' => self.seconds(),
                '(' => self.zone_in_parentheses(),
                _ if first.is_ascii_digit() => self.number(),
                _ if first.is_ascii_alphabetic() => self.word(),
                _ => None,
            };
            if step.is_none() {
                self.rest = before;
                let is_word = first.is_ascii_alphabetic() || first == '(';
                return Err(if is_word { Fault::UnknownZone } else { Fault::Unexpected });
            }
        }
        let days = self.days()?;
        let time = self.time_of_day().ok_or(Fault::Unexpected)?;
        let local = self.later.iter().try_fold(days * DAY_MILLIS + time, |local, (unit, amount)| {
            later(local, *unit, *amount).ok_or(Fault::Unexpected)
        })?;
        Ok(Read { local, zone: self.zone.take() })
    }

    /// Days since 1970-01-01 without what is to be added.
    fn days(&self) -> Result<i64, Fault> {
        let year = self.year.ok_or(Fault::Incomplete)?;
        let days = match self.of_year {
            Some(DayOfYear::Number(number)) => day_number(year, 1, number),
            Some(DayOfYear::IsoWeek { week, day }) => iso_day_number(year, week, day),
            None => {
                let month = self.month.ok_or(Fault::Incomplete)?;
                let day = self.day.unwrap_or(1);
                let date =
                    || Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
                date().map(days_of)
            }
        };
        let days = days.ok_or(Fault::Unexpected)?;
        // a day of the week that is not that of the date names the next such day; 1970-01-01 was a Thursday
        Ok(self.weekday.map_or(days, |weekday| days + (weekday - 4 - days).rem_euclid(7)))
    }

    fn time_of_day(&self) -> Option<i64> {
        let time = self.time.unwrap_or(0);
        let Some(afternoon) = self.afternoon else { return Some(time) };
        let hour = time / HOUR_MILLIS;
        (1..=12).contains(&hour).then(|| time + (hour % 12 - hour + if afternoon { 12 } else { 0 }) * HOUR_MILLIS)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    fn take(&mut self, prefix: char) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn is_at_digit(&self) -> bool {
        self.rest.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Takes digits: their number and how many there were.
    fn digits(&mut self) -> Option<(i64, usize)> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest.get(..count)?.parse().ok()?;
        self.skip(count);
        Some((number, count))
    }

    /// Takes a number of one or two digits.
    fn short_number(&mut self) -> Option<i64> {
        self.digits().filter(|(_, count)| *count <= 2).map(|(number, _)| number)
    }

    fn letters(&mut self) -> String {
        let count = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = self.rest.get(..count).unwrap_or("").to_ascii_lowercase();
        self.skip(count);
        word
    }

    fn word(&mut self) -> Step {
        let before = self.rest;
        let word = self.letters();
        match word.as_str() {
            "t" if self.is_at_digit() => self.behind_t(),
            "utc" | "gmt" if self.rest.starts_with(['+', '-']) => self.offset(),
            "a" | "p" if self.time.is_some() && self.rest.to_ascii_lowercase().starts_with(".m") => {
                self.skip(2);
                self.take('.');
                self.half_of_day(word == "p")
            }
            "am" | "pm" if self.time.is_some() => self.half_of_day(word == "pm"),
            "now" => Some(()),
            "noon" => set(&mut self.time, 12 * HOUR_MILLIS),
            "today" | "midnight" => self.at_midnight(0),
            "tomorrow" => self.at_midnight(1),
            "yesterday" => self.at_midnight(-1),
            "ago" => {
                self.later.iter_mut().for_each(|(_, amount)| *amount = -*amount);
                Some(())
            }
            _ => {
                if let Some(weekday) = WEEKDAYS.iter().position(|day| abbreviates(&word, day)) {
                    self.take('.');
                    return set(&mut self.weekday, weekday as i64);
                }
                if let Some(month) = self.month_of(&word) {
                    return self.behind_month(month);
                }
                self.rest = before;
                self.zone()
            }
        }
    }

    /// A `T` is in front of a time, which may be an hour alone.
    fn behind_t(&mut self) -> Step {
        let before = self.rest;
        match self.digits()? {
            (hour, 1 | 2) if !self.rest.starts_with([':', '.']) => self.set_time(hour, 0, 0, 0),
            _ => {
                self.rest = before;
                Some(())
            }
        }
    }

    fn half_of_day(&mut self, afternoon: bool) -> Step {
        self.afternoon.is_none().then(|| self.afternoon = Some(afternoon))
    }

    fn at_midnight(&mut self, days: i64) -> Step {
        self.time = None;
        self.later.push((Unit::Day, days));
        Some(())
    }

    fn month_of(&self, word: &str) -> Option<i64> {
        let is_roman = self.month.is_none() && self.day.is_some() && self.time.is_none();
        let roman = || ROMAN_MONTHS.iter().position(|name| is_roman && *name == word).map(|at| at as i64 + 1);
        month(word).or_else(roman)
    }

    /// `Mar.`, `May-09-78`
    fn behind_month(&mut self, month: i64) -> Step {
        set(&mut self.month, month)?;
        self.take('.');
        let Some(rest) = self.rest.strip_prefix('-').filter(|_| self.day.is_none()) else { return Some(()) };
        self.rest = rest;
        let day = self.short_number()?;
        set(&mut self.day, day)?;
        if self.take('-') { self.year_in_short() } else { Some(()) }
    }

    /// A year, perhaps without its century.
    fn year_in_short(&mut self) -> Step {
        let (year, count) = self.digits().filter(|(_, count)| *count == 4 || *count <= 2)?;
        set(&mut self.year, if count == 4 { year } else { with_century(year) })
    }

    fn number(&mut self) -> Step {
        let (number, count) = self.digits()?;
        if let Some(unit) = self.unit() {
            self.later.push((unit.0, number.checked_mul(unit.1)?));
            return Some(());
        }
        let has_date = self.day.is_some() || self.of_year.is_some();
        match (count, self.rest.chars().next()) {
            (1 | 2, Some(':')) => self.time_from(number, ':'),
            (1 | 2, Some('.')) if has_date && self.time.is_none() => self.time_from(number, '.'),
            (4, Some('-' | '/' | '.' | ':' | 'W')) if self.year.is_none() => self.behind_year(number),
            (1 | 2, Some(separator @ ('-' | '/' | '.'))) => self.behind_day(number, separator),
            (14, _) if self.year.is_none() && self.time.is_none() => {
                self.digits_of_date(number / 1_000_000)?;
                self.digits_of_time(number % 1_000_000)
            }
            (8, _) if self.year.is_none() => self.digits_of_date(number),
            (7, _) if self.year.is_none() => {
                set(&mut self.year, number / 1000)?;
                self.day_of_year(number % 1000)
            }
            (6, _) if self.year.is_some() && self.time.is_none() => self.digits_of_time(number),
            (4, _) if self.year.is_some() && self.time.is_none() => self.digits_of_time(number * 100),
            (4, _) => set(&mut self.year, number),
            (1 | 2, _) => self.day_hour_or_year(number),
            _ => None,
        }
    }

    fn digits_of_date(&mut self, digits: i64) -> Step {
        set(&mut self.year, digits / 10_000)?;
        set(&mut self.month, digits / 100 % 100)?;
        set(&mut self.day, digits % 100)
    }

    fn digits_of_time(&mut self, digits: i64) -> Step {
        let (hour, minute, second) = (digits / 10_000, digits / 100 % 100, digits % 100);
        self.set_time(hour, minute, second, 0)
    }

    fn day_of_year(&mut self, number: i64) -> Step {
        ((1..=366).contains(&number) && self.of_year.is_none()).then(|| self.of_year = Some(DayOfYear::Number(number)))
    }

    /// A number of one or two digits with nothing that belongs to it: `27th`, `4pm`, the year of `27 Mar 18`.
    fn day_hour_or_year(&mut self, number: i64) -> Step {
        let before = self.rest;
        if matches!(self.letters().as_str(), "st" | "nd" | "rd" | "th") {
            return set(&mut self.day, number);
        }
        self.rest = before;
        let next = before.trim_start().to_ascii_lowercase();
        let is_hour = ["am", "pm", "a.m", "p.m"].iter().any(|half| next.starts_with(half));
        match (is_hour, self.day, self.month) {
            (true, ..) => self.set_time(number, 0, 0, 0),
            (_, Some(_), Some(_)) => set(&mut self.year, with_century(number)),
            _ => set(&mut self.day, number),
        }
    }

    /// `-03-27`, `/03/27`, `-Mar-27`, `-03`, `-086`, `.086`, `-W13-2`, `:03:27` behind a year.
    fn behind_year(&mut self, year: i64) -> Step {
        let separator = self.rest.chars().next()?;
        set(&mut self.year, year)?;
        if separator == 'W' {
            return self.iso_week();
        }
        self.skip(1);
        if separator == '-' && self.rest.starts_with('W') {
            return self.iso_week();
        }
        if !self.is_at_digit() {
            let word = self.letters();
            let month = month(&word)?;
            set(&mut self.month, month)?;
            let day = if self.take(separator) { self.short_number()? } else { 1 };
            return set(&mut self.day, day);
        }
        match (self.digits()?, separator) {
            ((number, 3), '-' | '.') => self.day_of_year(number),
            ((month, 1 | 2), _) => {
                set(&mut self.month, month)?;
                let day = match self.take(separator) {
                    true => self.short_number()?,
                    false if separator == '-' => 1,
                    false => return None,
                };
                set(&mut self.day, day)
            }
            _ => None,
        }
    }

    /// `W13`, `W132`, `W13-2`: a week, and a day of it.
    fn iso_week(&mut self) -> Step {
        self.skip(1);
        let (week, day) = match self.digits()? {
            (week, 2) => {
                let has_day =
                    self.rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                self.skip(usize::from(has_day));
                (week, if has_day { self.digits().filter(|(_, count)| *count == 1)?.0 } else { 1 })
            }
            (both, 3) => (both / 10, both % 10),
            _ => return None,
        };
        let is_week = (1..=53).contains(&week) && day <= 7;
        is_week.then(|| self.of_year = Some(DayOfYear::IsoWeek { week, day }))
    }

    /// `3/27/2018` is American, `27-3-2018`, `27.3.2018`, `27-Mar-2018` and `27/Mar/2018:16:58` are not; `18-3-27` begins with the year.
    fn behind_day(&mut self, first: i64, separator: char) -> Step {
        self.skip(1);
        if !self.is_at_digit() {
            let word = self.letters();
            let month = month(&word)?;
            set(&mut self.month, month)?;
            if first > 31 {
                set(&mut self.year, with_century(first))?;
                let day = if self.take(separator) { self.short_number()? } else { 1 };
                return set(&mut self.day, day);
            }
            set(&mut self.day, first)?;
            if !self.take(separator) {
                return Some(());
            }
            self.year_in_short()?;
            // the form of log files has the time right behind the date
            if self.rest.starts_with(':') {
                self.skip(1);
            }
            return Some(());
        }
        let second = self.short_number()?;
        if !self.take(separator) {
            // `3/27` lacks the year
            return if separator == '/' { set(&mut self.month, first).and(set(&mut self.day, second)) } else { None };
        }
        let (third, count) = self.digits().filter(|(_, count)| *count == 4 || *count <= 2)?;
        let year = if count == 4 { third } else { with_century(third) };
        let (year, month, day) = match (separator, count) {
            ('/', _) => (year, first, second),
            ('-', 1 | 2) => (with_century(first), second, third),
            // a time where it may be one
            ('.', 1 | 2) if third <= 60 => return self.set_time(first, second, third, 0),
            _ => (year, second, first),
        };
        set(&mut self.year, year)?;
        set(&mut self.month, month)?;
        set(&mut self.day, day)
    }

    /// `:58`, `:58:51`, `:58:51.538` behind an hour. Digits beyond milliseconds are cut off.
    fn time_from(&mut self, hour: i64, separator: char) -> Step {
        self.skip(1);
        let two_digits = |reader: &mut Self| Some(reader.digits().filter(|(_, count)| *count == 2)?.0);
        let minute = two_digits(self)?;
        let (mut second, mut millis) = (0, 0);
        if self.take(separator) {
            second = two_digits(self)?;
            if self.take('.') {
                let (fraction, count) = self.digits().filter(|(_, count)| *count <= 18)?;
                millis = i64::try_from(i128::from(fraction) * 1000 / 10i128.pow(count as u32)).ok()?;
            }
        }
        self.set_time(hour, minute, second, millis)
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64, millis: i64) -> Step {
        if hour > 24 || minute > 59 || second > 59 || (hour == 24 && minute + second + millis > 0) {
            return None;
        }
        set(&mut self.time, (hour * 3600 + minute * 60 + second) * 1000 + millis)
    }

    /// `+2 days`, `-1 month`
    fn amount(&mut self) -> Step {
        let before = self.rest;
        let sign = if self.rest.starts_with('-') { -1 } else { 1 };
        self.skip(1);
        self.skip_spaces();
        let amount = self.digits().and_then(|(number, _)| {
            let (unit, each) = self.unit()?;
            Some((unit, number.checked_mul(each * sign)?))
        });
        if amount.is_none() {
            self.rest = before;
        }
        self.later.push(amount?);
        Some(())
    }

    /// Takes the name of a unit of time, perhaps behind spaces; returns it and how many of it the name means.
    fn unit(&mut self) -> Option<(Unit, i64)> {
        let before = self.rest;
        self.skip_spaces();
        let word = self.letters();
        let unit = match word.strip_suffix('s').unwrap_or(&word) {
            "sec" | "second" => (Unit::Second, 1),
            "min" | "minute" => (Unit::Minute, 1),
            "hour" => (Unit::Hour, 1),
            "day" => (Unit::Day, 1),
            "week" => (Unit::Week, 1),
            "fortnight" => (Unit::Day, 14),
            "month" => (Unit::Month, 1),
            "year" => (Unit::Year, 1),
            _ => {
                self.rest = before;
                return None;
            }
        };
        Some(unit)
    }

    /// `@1522169931`: seconds since 1970.
    fn seconds(&mut self) -> Step {
        self.skip(1);
        let sign = if self.take('-') { -1 } else { 1 };
        let (seconds, _) = self.digits()?;
        self.digits_of_date(19_700_101)?;
        set(&mut self.time, 0)?;
        self.later.push((Unit::Second, sign * seconds));
        self.set_zone(Zone::utc())
    }

    /// `+02`, `+0200`, `+02:00`.
    fn offset(&mut self) -> Step {
        let sign = if self.rest.starts_with('-') { -1 } else { 1 };
        self.skip(1);
        let minutes = match self.digits()? {
            (hours, 1 | 2) => {
                let minutes = if self.take(':') { self.digits().filter(|(_, count)| *count == 2)?.0 } else { 0 };
                hours * 60 + minutes
            }
            (both, 4) => both / 100 * 60 + both % 100,
            _ => return None,
        };
        self.set_zone(Zone::offset(sign * minutes))
    }

    fn zone_in_parentheses(&mut self) -> Step {
        self.skip(1);
        self.zone()?;
        self.take(')').then_some(())
    }

    /// The abbreviation of a zone, or its name in the tz database.
    fn zone(&mut self) -> Step {
        let is_part = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'/' | b'_' | b'-' | b'+');
        let word = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let whole = self.rest.bytes().take_while(is_part).count();
        let name = self.rest.get(..whole)?;
        let zone = match name.contains('/') {
            true => Zone::named(name).ok()?,
            false => Zone::offset(zone_names::minutes_of(&self.rest.get(..word)?.to_ascii_lowercase())?),
        };
        self.skip(if name.contains('/') { whole } else { word });
        self.set_zone(zone)
    }

    fn set_zone(&mut self, zone: Zone) -> Step {
        self.zone.is_none().then(|| self.zone = Some(zone))
    }
}

/// Returns the time that much later. A day that a month does not have is one of the next.
fn later(local: i64, unit: Unit, amount: i64) -> Option<i64> {
    let months = match unit {
        Unit::Year => 12,
        Unit::Month => 1,
        _ => return Zone::utc().later(local, unit, amount),
    };
    let at = Zone::utc().at(local);
    let month = i64::from(at.month()).checked_add(amount.checked_mul(months)?)?;
    let day = day_number(at.year(), month, i64::from(at.day()))?;
    day.checked_mul(DAY_MILLIS)?.checked_add(local.rem_euclid(DAY_MILLIS))
}

/// Returns the year that two digits mean, from 1970 to 2069.
fn with_century(year: i64) -> i64 {
    year + if year < 70 { 2000 } else { 1900 }
}

/// Sets what was not set yet.
fn set(slot: &mut Option<i64>, value: i64) -> Step {
    slot.is_none().then(|| *slot = Some(value))
}

fn abbreviates(word: &str, name: &str) -> bool {
    word == name || (word.len() >= 3 && word.len() <= 4 && name.starts_with(word))
}

fn month(word: &str) -> Option<i64> {
    MONTHS.iter().position(|name| abbreviates(word, name)).map(|at| at as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_dates() {
        for (text, local, offset) in [
            ("2018-03-27T16:58:51.538Z", 1_522_169_931_538, Some(0)),
            ("2018-03-27 16:58:51", 1_522_169_931_000, None),
            ("2018-03-27", 1_522_108_800_000, None),
            ("20180327", 1_522_108_800_000, None),
            ("20180327T165851Z", 1_522_169_931_000, Some(0)),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999, Some(0)),
            ("Mar 27 2018 4pm", 1_522_166_400_000, None),
            ("27 March 2018, 4:58:51 PM -0200", 1_522_169_931_000, Some(-120)),
            ("Tuesday, March 27th, 2018", 1_522_108_800_000, None),
            ("3/27/2018 12 am", 1_522_108_800_000, None),
            ("27-3-2018", 1_522_108_800_000, None),
            ("27.03.2018", 1_522_108_800_000, None),
            ("27-Mar-2018", 1_522_108_800_000, None),
            ("wed mar 28 16:58:51 +03:30 2018", 1_522_256_331_000, Some(210)),
            ("2018-03-27 16:58:51 EST", 1_522_169_931_000, Some(-300)),
            ("2018-03-27T16:58:51.538 GMT+02:00", 1_522_169_931_538, Some(120)),
            ("2018-03-27T16:58 a", 1_522_169_880_000, Some(60)),
            ("Tue Mar 27 16:58:51 (PDT) 2018", 1_522_169_931_000, Some(-420)),
            ("2018-03-27 16:58 Asia/Tokyo", 1_522_169_880_000, Some(540)),
            ("27/Mar/2018:16:58:51 +0200", 1_522_169_931_000, Some(120)),
            ("2018:03:27 16:58:51", 1_522_169_931_000, None),
            ("20180327165851", 1_522_169_931_000, None),
            ("2018-03-27 1658", 1_522_169_880_000, None),
            ("2018-03-27t16", 1_522_166_400_000, None),
            ("2018-03-27 16.58.51", 1_522_169_931_000, None),
            ("Mar 27, 2018 4:58:51 p.m.", 1_522_169_931_000, None),
            ("2018-03", 1_519_862_400_000, None),
            ("March 2018", 1_519_862_400_000, None),
            ("2018-086", 1_522_108_800_000, None),
            ("2018086", 1_522_108_800_000, None),
            ("2018W132", 1_522_108_800_000, None),
            ("2018-W13-2 noon", 1_522_152_000_000, None),
            ("2018-Mar-27", 1_522_108_800_000, None),
            ("Mar-27-2018", 1_522_108_800_000, None),
            ("27-Mar-18", 1_522_108_800_000, None),
            ("78-Dec-22", 283_132_800_000, None),
            ("22.12.78", 283_132_800_000, None),
            ("12/22/78", 283_132_800_000, None),
            ("78-12-22", 283_132_800_000, None),
            ("22DEC78", 283_132_800_000, None),
            ("14 III 2018", 1_520_985_600_000, None),
            // the Monday that comes next, what is added, a day that the month does not have
            ("Monday 2018-03-27", 1_522_627_200_000, None),
            ("2018-03-25 +2 days", 1_522_108_800_000, None),
            ("2018-03-25 2 days", 1_522_108_800_000, None),
            ("2018-03-29 12:00 2 days 12 hours ago", 1_522_108_800_000, None),
            ("2018-01-31 +1 month", 1_520_035_200_000, None),
            ("yesterday 2018-03-28", 1_522_108_800_000, None),
            ("@1522169931", 1_522_169_931_000, Some(0)),
        ] {
            let read = read(text).unwrap_or_else(|error| panic!("{text}: {}", error.message));
            let shown = read.zone.as_ref().map(|zone| (zone.at(0).local_millis()) / 60_000);
            assert_eq!((read.local, shown), (local, offset), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not() {
        for text in [
            "",
            "nope",
            "2018",
            "Mar 27",
            "2018-13-01",
            "2018-02-30",
            "27/3/2018",
            "2018-03-27T25:00:00",
            "5",
            "4pm",
            "now",
            "tomorrow",
            "+1 day",
            "5/17",
            "2018-03-27 EST CET",
            "2018-03-27 Asia/Nowhere",
            "2018-03-27 (EST",
            "2018-W54",
            "2018-367",
            "2018-03-27 +9223372036854775807 years",
            "2018-03-27 12:00 13:00",
            "J 2018-03-27J",
            "@99999999999999999999",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
