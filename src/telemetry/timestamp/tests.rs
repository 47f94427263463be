//! Tests of `telemetry::timestamp`.

use super::*;

#[test]
fn moments_are_written_in_utc_with_milliseconds() {
    for (millis, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_799_999, "2000-02-29T23:59:59.999Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (1_796_098_728_123, "2026-12-01T04:18:48.123Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
        (u64::MAX, "9999-12-31T23:59:59.999Z"),
    ] {
        assert_eq!(rfc3339(WallMillis(millis)), text);
    }
}

#[test]
fn the_same_moment_is_written_as_http_date_by_the_library_that_knows() {
    for day in (0..80_000_u64).step_by(13) {
        let millis = day * 86_400_000;
        let text = rfc3339(WallMillis(millis));
        let http = httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_millis(millis));
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let month = months.iter().position(|name| *name == &http[8..11]).expect("a month") + 1;
        assert_eq!(text, format!("{}-{month:02}-{}T00:00:00.000Z", &http[12..16], &http[5..7]));
    }
}
