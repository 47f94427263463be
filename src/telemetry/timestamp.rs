//! Moments for people: wall-clock time as RFC 3339 text. Decides nothing; the store's clock does.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::idempotency::WallMillis;

/// The wall clock now. A clock before 1970 reads as 1970.
#[must_use]
pub fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// `2026-12-01T04:18:48.123Z` (RFC 3339 §5.6, UTC, milliseconds). Years beyond 9999 read as the last moment of it.
#[must_use]
pub fn rfc3339(at: WallMillis) -> String {
    let millis = at.0.min(LAST);
    format!("{}.{:03}Z", to_the_second(millis), millis % 1000)
}

/// `2026-12-01T04:18:48Z`: as [`rfc3339`], without the fraction.
#[must_use]
pub fn rfc3339_seconds(at: WallMillis) -> String {
    format!("{}Z", to_the_second(at.0.min(LAST)))
}

/// The last millisecond of the year 9999.
const LAST: u64 = 253_402_300_799_999;

fn to_the_second(millis: u64) -> String {
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar.
///
/// Counts from 1 March 0000, so that the leap day is the last of its year: a 400-year era has 146 097 days.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
