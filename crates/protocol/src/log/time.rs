//! Times as log lines show them.

use std::time::{SystemTime, UNIX_EPOCH};

pub fn now_ms() -> i64 {
    ms_of(SystemTime::now())
}

pub(super) fn ms_of(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// `2026-11-21T09:30:00.123+00:00`.
pub fn iso8601(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (seconds, ms) = (in_day / 1000, in_day % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}+00:00")
}

/// Year, month, day of a day number (0 = 1970-01-01), in the proleptic Gregorian calendar, by eras of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * in_year + 2) / 153;
    let day = in_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (ms, expect) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_795_253_400_123, "2026-11-21T09:30:00.123+00:00"),
            (-1, "1969-12-31T23:59:59.999+00:00"),
        ] {
            assert_eq!(iso8601(ms), expect);
        }
    }
}
