//! Dates of texts without a format: ISO 8601, and the forms that people write.
//!
//! A text has a day, a month and a year in any order that is clear, and perhaps a time and an offset:
//! `2018-03-27T16:58:51.538Z`, `Mar 27 2018 4pm`, `27 March 2018 16:58 +0200`, `3/27/2018`, `WED jan 31 12:05:28 +03:30 1996`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::date::{DAY_MILLIS, days_of};
use crate::{Code, Error};

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
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The time that a text shows, counted as if it were UTC, and its offset from UTC if it has one.
pub(super) struct Read {
    pub local: i64,
    pub offset_minutes: Option<i64>,
}

/// Returns the time of a text, None when it is none.
pub(super) fn read(text: &str) -> Option<Read> {
    let trimmed = text.trim();
    if trimmed.len() > 200 {
        return None;
    }
    Reader { rest: trimmed, ..Reader::default() }.read().or_else(|| basic(trimmed))
}

/// The other forms of ISO 8601: without dashes and colons, with a zone in brackets.
fn basic(text: &str) -> Option<Read> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(Read { local: instant.as_millisecond(), offset_minutes: Some(0) });
    }
    let shown = text.parse::<DateTime>().ok()?;
    let local = shown.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(Read { local, offset_minutes: None })
}

pub(super) fn error(text: &str) -> Error {
    let first = text.chars().next().map_or(String::new(), |c| c.to_string());
    refused(text, &format!("0: Unexpected character '{first}'"))
}

pub(super) fn refused(text: &str, why: &str) -> Error {
    Error::new(Code::CONVERSION_FAILURE, format!("Error parsing date string '{text}'; {why}"))
}

#[derive(Default)]
struct Reader<'t> {
    rest: &'t str,
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    time: Option<i64>,
    afternoon: Option<bool>,
    offset_minutes: Option<i64>,
}

impl Reader<'_> {
    fn read(mut self) -> Option<Read> {
        while let Some(first) = self.rest.chars().next() {
            match first {
                ' ' | ',' | '\t' => self.skip(1),
                '+' | '-' if self.time.is_some() => self.offset()?,
                _ if first.is_ascii_digit() => self.number()?,
                _ if first.is_ascii_alphabetic() => self.word()?,
                _ => return None,
            }
        }
        let date =
            Date::new(i16::try_from(self.year?).ok()?, i8::try_from(self.month?).ok()?, i8::try_from(self.day?).ok()?)
                .ok()?;
        let mut time = self.time.unwrap_or(0);
        if let Some(afternoon) = self.afternoon {
            let hour = time / 3_600_000;
            if !(1..=12).contains(&hour) {
                return None;
            }
            time += (hour % 12 - hour + if afternoon { 12 } else { 0 }) * 3_600_000;
        }
        Some(Read { local: days_of(date) * DAY_MILLIS + time, offset_minutes: self.offset_minutes })
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    fn take(&mut self, prefix: char) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes digits: their number and how many there were.
    fn digits(&mut self) -> Option<(i64, usize)> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest.get(..count)?.parse().ok()?;
        self.skip(count);
        Some((number, count))
    }

    fn letters(&mut self) -> String {
        let count = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = self.rest.get(..count).unwrap_or("").to_ascii_lowercase();
        self.skip(count);
        word
    }

    fn word(&mut self) -> Option<()> {
        let word = self.letters();
        match word.as_str() {
            "t" if self.day.is_some() && self.rest.starts_with(|c: char| c.is_ascii_digit()) => Some(()),
            "z" | "utc" | "gmt" => set(&mut self.offset_minutes, 0),
            "am" | "pm" if self.time.is_some() => {
                let set = self.afternoon.is_none();
                self.afternoon = Some(word == "pm");
                set.then_some(())
            }
            _ if WEEKDAYS.iter().any(|day| abbreviates(&word, day)) => {
                self.take('.');
                Some(())
            }
            _ => set(&mut self.month, month(&word)?).inspect(|()| {
                self.take('.');
            }),
        }
    }

    fn number(&mut self) -> Option<()> {
        let (number, count) = self.digits()?;
        match (count, self.rest.chars().next()) {
            (1 | 2, Some(':')) => self.time_from(number),
            (4, Some('-' | '/')) if self.year.is_none() => self.year_month_day(number),
            (1 | 2, Some(separator @ ('-' | '/' | '.'))) => self.day_month_year(number, separator),
            (8, _) if self.year.is_none() => {
                set(&mut self.year, number / 10_000)?;
                set(&mut self.month, number / 100 % 100)?;
                set(&mut self.day, number % 100)
            }
            (4, _) => set(&mut self.year, number),
            (1 | 2, _) => {
                let before = self.rest;
                match self.letters().as_str() {
                    "st" | "nd" | "rd" | "th" => set(&mut self.day, number),
                    "am" | "pm" => {
                        self.rest = before;
                        set(&mut self.time, number * 3_600_000)
                    }
                    _ => {
                        self.rest = before;
                        let next = before.trim_start().to_ascii_lowercase();
                        let hour = self.day.is_some() && (next.starts_with("am") || next.starts_with("pm"));
                        if hour { set(&mut self.time, number * 3_600_000) } else { set(&mut self.day, number) }
                    }
                }
            }
            _ => None,
        }
    }

    /// `-03-27`, `/03/27` behind a year.
    fn year_month_day(&mut self, year: i64) -> Option<()> {
        let separator = self.rest.chars().next()?;
        self.skip(1);
        let (month, _) = self.digits().filter(|(_, count)| *count <= 2)?;
        if !self.take(separator) {
            return None;
        }
        let (day, _) = self.digits().filter(|(_, count)| *count <= 2)?;
        set(&mut self.year, year)?;
        set(&mut self.month, month)?;
        set(&mut self.day, day)
    }

    /// `3/27/2018` is American, `27-3-2018`, `27.3.2018` and `27-Mar-2018` are not.
    fn day_month_year(&mut self, first: i64, separator: char) -> Option<()> {
        self.skip(1);
        let (second, named) = match self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            true => (self.digits().filter(|(_, count)| *count <= 2)?.0, false),
            false => (month(&self.letters())?, true),
        };
        if !self.take(separator) {
            return None;
        }
        let (year, _) = self.digits().filter(|(_, count)| *count == 4)?;
        let (month, day) = if separator == '/' && !named { (first, second) } else { (second, first) };
        set(&mut self.year, year)?;
        set(&mut self.month, month)?;
        set(&mut self.day, day)
    }

    /// `:58`, `:58:51`, `:58:51.538` behind an hour. Digits beyond milliseconds are cut off.
    fn time_from(&mut self, hour: i64) -> Option<()> {
        self.skip(1);
        let (minute, _) = self.digits().filter(|(_, count)| *count == 2)?;
        let (mut second, mut millis) = (0, 0);
        if self.take(':') {
            second = self.digits().filter(|(_, count)| *count == 2)?.0;
            if self.take('.') {
                let (fraction, count) = self.digits().filter(|(_, count)| *count <= 18)?;
                millis = i64::try_from(i128::from(fraction) * 1000 / 10i128.pow(count as u32)).ok()?;
            }
        }
        if hour > 24 || minute > 59 || second > 59 || (hour == 24 && minute + second + millis > 0) {
            return None;
        }
        set(&mut self.time, (hour * 3600 + minute * 60 + second) * 1000 + millis)
    }

    /// `+02`, `+0200`, `+02:00`.
    fn offset(&mut self) -> Option<()> {
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
        set(&mut self.offset_minutes, sign * minutes)
    }
}

/// Sets what was not set yet.
fn set(slot: &mut Option<i64>, value: i64) -> Option<()> {
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
        ] {
            let read = read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((read.local, read.offset_minutes), (local, offset), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not() {
        for text in
            ["", "nope", "2018", "Mar 27", "2018-13-01", "2018-02-30", "27/3/2018", "2018-03-27T25:00:00", "5", "4pm"]
        {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
