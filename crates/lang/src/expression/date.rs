//! Shared code of the date operators: instants, time zones, ISO texts.
//!
//! Dates are those of the proleptic Gregorian calendar in all the years that 64 bits of milliseconds reach. `jiff`, which
//! knows the zones, ends with year 9999: beyond [`SHIFTED_FROM`] a date is looked up in a year that is a multiple of 400
//! away, which has the same calendar.

use std::ops::Deref;

use arbor_bson::ValueRef;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::date_unit::Unit;
use super::{date_format, date_text};
use crate::{Error, Result, text};

pub(crate) const DAY_MILLIS: i64 = 86_400_000;
/// Days of 400 years.
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_MILLIS: i64 = CYCLE_DAYS * DAY_MILLIS;
/// Milliseconds from 1970, either way, from which on dates are shifted: 7000 years.
const SHIFTED_FROM: i64 = 7000 * 365 * DAY_MILLIS;

/// The instant of a date, a timestamp or an ObjectId, in milliseconds since 1970.
pub(crate) fn millis(value: ValueRef) -> Result<i64> {
    match value {
        ValueRef::DateTime(millis) => Ok(millis),
        ValueRef::Timestamp(timestamp) => Ok(i64::from(timestamp.seconds) * 1000),
        ValueRef::ObjectId(id) => {
            let [a, b, c, d, ..] = id.0;
            // COMPAT: the seconds of an ObjectId are signed
            Ok(i64::from(i32::from_be_bytes([a, b, c, d])) * 1000)
        }
        other => {
            let found = text::type_name(Some(other));
            Err(Error::location(16006, format!("can't convert from BSON type {found} to Date")))
        }
    }
}

/// A time zone by its rules, or an offset, which may be up to `+99:99`.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    rules: TimeZone,
    /// Milliseconds by which the zone is ahead of the rules.
    ahead: i64,
}

impl Zone {
    pub(crate) fn utc() -> Zone {
        Zone { rules: TimeZone::UTC, ahead: 0 }
    }

    /// Returns a zone by its name in the tz database or by its offset: `+03`, `+0330`, `+03:30`.
    pub(crate) fn named(name: &str) -> Result<Zone> {
        let unknown = || Error::location(40485, format!("unrecognized time zone identifier: \"{name}\""));
        if matches!(name, "UTC" | "GMT") {
            return Ok(Zone::utc());
        }
        if name.starts_with(['+', '-']) {
            return Ok(Zone::offset(offset_minutes(name).ok_or_else(unknown)?));
        }
        let rules = TimeZone::get(name).map_err(|_| unknown())?;
        // names have one spelling
        if rules.iana_name() != Some(name) {
            return Err(unknown());
        }
        Ok(Zone { rules, ahead: 0 })
    }

    pub(crate) fn offset(minutes: i64) -> Zone {
        Zone { rules: TimeZone::UTC, ahead: minutes * 60_000 }
    }

    pub(crate) fn is_utc(&self) -> bool {
        self.rules == TimeZone::UTC && self.ahead == 0
    }

    /// Returns an instant as it is seen in the zone.
    pub(crate) fn at(&self, millis: i64) -> Moment {
        let shifted = millis.saturating_add(self.ahead);
        let cycles = cycles_of(shifted);
        let zoned = timestamp(in_cycle(shifted)).to_zoned(self.rules.clone());
        Moment { zoned, cycles, millis, ahead: self.ahead }
    }

    /// Returns the instant at which clocks of the zone show this time, counted as if it were UTC. None: beyond all dates.
    pub(crate) fn instant(&self, local: i64) -> Option<i64> {
        if self.rules == TimeZone::UTC {
            return local.checked_sub(self.ahead);
        }
        let cycles = cycles_of(local);
        let shown: DateTime = timestamp(in_cycle(local)).to_zoned(TimeZone::UTC).datetime();
        let zoned = shown.to_zoned(self.rules.clone()).ok()?;
        zoned.timestamp().as_millisecond().checked_add(cycles.checked_mul(CYCLE_MILLIS)?)?.checked_sub(self.ahead)
    }

    /// Returns the instant that many units later. Days and longer units keep the time of the day, and the day of the month
    /// where the month has it. None: beyond all dates.
    pub(crate) fn later(&self, millis: i64, unit: Unit, amount: i64) -> Option<i64> {
        if let Some(unit_millis) = unit.millis() {
            return millis.checked_add(unit_millis.checked_mul(amount)?);
        }
        let at = self.at(millis);
        let day = match unit {
            Unit::Week => at.day_number().checked_add(amount.checked_mul(7)?)?,
            Unit::Day => at.day_number().checked_add(amount)?,
            _ => {
                let months = amount.checked_mul(unit.months())?.checked_add(i64::from(at.month()))?;
                let first = day_number(at.year(), months, 1)?;
                let next = day_number(at.year(), months.checked_add(1)?, 1)?;
                first + (i64::from(at.day()) - 1).min(next - first - 1)
            }
        };
        self.instant(day.checked_mul(DAY_MILLIS)?.checked_add(at.local_millis().rem_euclid(DAY_MILLIS))?)
    }
}

fn offset_minutes(name: &str) -> Option<i64> {
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = match name.get(1..)?.split_at_checked(2)? {
        (hours, "") => (hours, "00"),
        (hours, minutes) => (hours, minutes.strip_prefix(':').unwrap_or(minutes)),
    };
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    Some(sign * (hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?))
}

/// The times 400 years by which a date is shifted.
fn cycles_of(millis: i64) -> i64 {
    if (-SHIFTED_FROM..SHIFTED_FROM).contains(&millis) { 0 } else { millis.div_euclid(CYCLE_MILLIS) }
}

fn in_cycle(millis: i64) -> i64 {
    if cycles_of(millis) == 0 { millis } else { millis.rem_euclid(CYCLE_MILLIS) }
}

fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).expect("an instant within 7000 years of 1970 is one of jiff's")
}

/// An instant in a zone. The parts that do not depend on the year's number are those of `jiff`.
pub(crate) struct Moment {
    zoned: Zoned,
    cycles: i64,
    millis: i64,
    ahead: i64,
}

impl Deref for Moment {
    type Target = Zoned;

    fn deref(&self) -> &Zoned {
        &self.zoned
    }
}

impl Moment {
    pub(crate) fn millis(&self) -> i64 {
        self.millis
    }

    pub(crate) fn year(&self) -> i64 {
        i64::from(self.zoned.year()) + 400 * self.cycles
    }

    pub(crate) fn iso_year(&self) -> i64 {
        i64::from(self.zoned.date().iso_week_date().year()) + 400 * self.cycles
    }

    /// Minutes ahead of UTC.
    pub(crate) fn offset_minutes(&self) -> i64 {
        i64::from(self.zoned.offset().seconds()) / 60 + self.ahead / 60_000
    }

    /// The time that clocks show, counted as if it were UTC.
    pub(crate) fn local_millis(&self) -> i64 {
        let offset = i64::from(self.zoned.offset().seconds()) * 1000 + self.ahead;
        self.millis.saturating_add(offset)
    }

    /// Days since 1970-01-01, a Thursday.
    pub(crate) fn day_number(&self) -> i64 {
        self.local_millis().div_euclid(DAY_MILLIS)
    }
}

/// Days from 1970-01-01 to a date, whose month and day may lie outside of their year and month.
pub(crate) fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    let months = year.checked_mul(12)?.checked_add(month.checked_sub(1)?)?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    let (cycles, year) = ((year - 2000).div_euclid(400), 2000 + (year - 2000).rem_euclid(400));
    let first = Date::new(i16::try_from(year).ok()?, month as i8 + 1, 1).ok()?;
    cycles.checked_mul(CYCLE_DAYS)?.checked_add(days_of(first))?.checked_add(day.checked_sub(1)?)
}

/// Days from 1970-01-01 to the date of an ISO week.
pub(crate) fn iso_day_number(year: i64, week: i64, day: i64) -> Option<i64> {
    let fourth = day_number(year, 1, 4)?;
    let monday = fourth - (fourth + 3).rem_euclid(7);
    monday.checked_add(week.checked_sub(1)?.checked_mul(7)?)?.checked_add(day.checked_sub(1)?)
}

/// Days from 1970-01-01 to a date.
pub(crate) fn days_of(date: Date) -> i64 {
    let first = Date::constant(1970, 1, 1);
    i64::from(first.until(date).map_or(0, |span| span.get_days()))
}

/// Days from a Monday on, as weeks begin.
pub(crate) fn days_from(first: Weekday, day_number: i64) -> i64 {
    day_number - i64::from(first.to_monday_zero_offset()) + 3
}

/// `2018-03-27T16:58:51.538Z`.
pub(crate) fn iso(millis: i64) -> Result<String> {
    date_format::write(&Zone::utc().at(millis), "%Y-%m-%dT%H:%M:%S.%LZ")
}

/// `Mar 27 16:58:51`, of seconds since 1970.
pub(crate) fn month_and_time(seconds: u32) -> String {
    Zone::utc().at(i64::from(seconds) * 1000).strftime("%b %e %H:%M:%S").to_string()
}

/// A date's text in UTC, or with an offset of its own.
pub(crate) fn parse(text: &str) -> Result<i64> {
    parse_in(text, &Zone::utc())
}

/// A date's text; without a zone of its own it is in `zone`, and an own one is refused where the zone is not UTC.
pub(crate) fn parse_in(text: &str, zone: &Zone) -> Result<i64> {
    let read = date_text::read(text)?;
    in_zone(read.local, read.zone, zone, text)
}

/// The instant of a local time, in the zone that its text names or in another.
pub(crate) fn in_zone(local: i64, own: Option<Zone>, zone: &Zone, text: &str) -> Result<i64> {
    if own.is_some() && !zone.is_utc() {
        return Err(date_text::refused(
            text,
            "you cannot pass in a date/time string with a time zone of its own together with a timezone argument",
        ));
    }
    own.as_ref().unwrap_or(zone).instant(local).ok_or_else(|| date_text::error(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_beyond_four_digits() {
        for (millis, year, day) in [
            (253_402_300_799_999, 9999, 365),
            (253_402_300_800_000, 10_000, 1),
            (i64::MAX, 292_278_994, 229),
            (i64::MIN, -292_275_055, 136),
        ] {
            let at = Zone::utc().at(millis);
            assert_eq!((at.year(), at.day_of_year()), (year, day), "{millis}");
            assert_eq!(at.local_millis(), millis);
        }
        assert_eq!(day_number(10_000, 1, 1), Some(253_402_300_800_000 / DAY_MILLIS));
        assert_eq!(day_number(-100_000, 1, 1), Some(-37_243_778));
        assert_eq!(iso_day_number(2021, 1, 1), day_number(2021, 1, 4));
        assert_eq!(iso_day_number(2020, 53, 5), day_number(2021, 1, 1));
    }

    #[test]
    fn zones_and_offsets() {
        for (name, local) in
            [("+99:99", 6_039 * 60_000), ("-0330", -210 * 60_000), ("+01", 3_600_000), ("Asia/Tokyo", 9 * 3_600_000)]
        {
            let zone = Zone::named(name).unwrap();
            assert_eq!(zone.at(0).local_millis(), local, "{name}");
            assert_eq!(zone.instant(local), Some(0), "{name}");
        }
        for name in ["asia/tokyo", "Z", "+1", "+100", "+1:30", "+ab", "", "+01:3"] {
            assert_eq!(Zone::named(name).unwrap_err().code.0, 40485, "{name}");
        }
    }

    #[test]
    fn later_dates_keep_the_day_of_the_month_where_there_is_one() {
        let utc = Zone::utc();
        let day = |year, month, day| day_number(year, month, day).unwrap() * DAY_MILLIS;
        for (from, unit, amount, to) in [
            (day(2020, 1, 31), Unit::Month, 1, day(2020, 2, 29)),
            (day(2020, 2, 29), Unit::Year, -1, day(2019, 2, 28)),
            (day(2020, 2, 29), Unit::Year, 200_000, day(202_020, 2, 29)),
            (day(2020, 12, 31), Unit::Quarter, 1, day(2021, 3, 31)),
            (day(9999, 12, 31), Unit::Week, 1, day(10_000, 1, 7)),
        ] {
            assert_eq!(utc.later(from, unit, amount), Some(to));
        }
        assert_eq!(utc.later(i64::MAX, Unit::Day, 1), None);
        assert_eq!(utc.later(0, Unit::Year, i64::MAX), None);
        // a day across the start of summer time has 23 hours
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let noon = berlin.instant(day(2024, 3, 30) + DAY_MILLIS / 2).unwrap();
        assert_eq!(berlin.later(noon, Unit::Day, 1), Some(noon + 23 * 3_600_000));
    }
}
