//! A moment as text: RFC 3339, in UTC, as the log has it.

use std::time::SystemTime;

const DAY: u64 = 24 * 60 * 60;
/// From 0000-03-01 to 1970-01-01. Years that begin in March have their odd day at the end.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_OF_400_YEARS: u64 = 146_097;

/// `2026-07-28T09:05:01.250Z`. A clock set before 1970 shows 1970.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date(since.as_secs() / DAY);
    let seconds = since.as_secs() % DAY;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of a day since 1970 (Howard Hinnant's `civil_from_days`).
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_written_as_everybody_writes_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.250Z"),
            (951_782_399, "2000-02-28T23:59:59.250Z"),
            (951_782_400, "2000-02-29T00:00:00.250Z"),
            (1_785_229_501, "2026-07-28T09:05:01.250Z"),
            (4_107_542_400, "2100-03-01T00:00:00.250Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 250);
            assert_eq!(rfc3339(time), text);
        }
        assert!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).starts_with("1970-01-01"));
    }
}
