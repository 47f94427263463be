//! Tests of `config::units`.

use proptest::prelude::*;

use super::*;

fn complaint<T: std::fmt::Debug>(result: Result<T, Complaint>) -> (String, Option<String>) {
    let complaint = result.unwrap_err();
    (complaint.message, complaint.hint)
}

#[test]
fn durations_are_one_number_and_one_unit() {
    for (text, millis) in [
        ("0s", 0),
        ("0ms", 0),
        ("250ms", 250),
        ("30s", 30_000),
        ("15m", 900_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        ("007s", 7_000),
        ("3650d", 315_360_000_000),
    ] {
        assert_eq!(duration(text).unwrap(), Duration::from_millis(millis), "{text}");
    }
}

#[test]
fn sizes_are_one_number_and_one_binary_unit() {
    for (text, bytes) in [("0B", 0), ("512B", 512), ("64KiB", 65_536), ("1MiB", 1_048_576), ("8GiB", 8_589_934_592)] {
        assert_eq!(size(text).unwrap(), bytes, "{text}");
    }
}

#[test]
fn a_wrong_duration_is_told_what_is_wrong_with_it() {
    for (text, message, hint) in [
        ("", "there is nothing here", "one number and one unit of `ms`, `s`, `m`, `h`, `d`"),
        ("30", "`30` has no unit", "did you mean `30s`?"),
        ("s", "`s` does not begin with a number", "a whole number comes first, then one of `ms`, `s`, `m`, `h`, `d`"),
        (
            "-1s",
            "`-1s` does not begin with a number",
            "a whole number comes first, then one of `ms`, `s`, `m`, `h`, `d`",
        ),
        ("1.5s", "`1.5s` is not a whole number", "use a smaller unit"),
        ("30 sec", "` sec` is not a unit", "did you mean `30s`?"),
        ("2hours", "`hours` is not a unit", "did you mean `2h`?"),
        ("1h30m", "`h30m` is not a unit", "one number and one unit of `ms`, `s`, `m`, `h`, `d`"),
        ("1w", "`w` is not a unit", "the units are `ms`, `s`, `m`, `h`, `d`"),
        ("3é", "`é` is not a unit", "the units are `ms`, `s`, `m`, `h`, `d`"),
    ] {
        assert_eq!(complaint(duration(text)), (message.to_owned(), Some(hint.to_owned())), "{text}");
    }
    for text in ["3651d", "99999999999999999999s", "18446744073709551615d"] {
        assert_eq!(complaint(duration(text)).0, format!("`{text}` is too long: at most 3650d"));
    }
}

#[test]
fn a_wrong_size_is_told_what_is_wrong_with_it() {
    assert_eq!(complaint(size("64KB")), ("`KB` is not a unit".to_owned(), Some("did you mean `64KiB`?".to_owned())));
    assert_eq!(complaint(size("1M")).1.unwrap(), "did you mean `1MiB`?");
    assert_eq!(complaint(size("1024")).1.unwrap(), "did you mean `1024MiB`?");
    assert_eq!(complaint(size("1TiB")).1.unwrap(), "the units are `B`, `KiB`, `MiB`, `GiB`");
    assert_eq!(complaint(size("99999999999999GiB")).0, "`99999999999999GiB` is too large");
}

#[test]
fn amounts_are_shown_in_their_largest_whole_unit() {
    let duration = |millis| show_duration(Duration::from_millis(millis));
    assert_eq!(
        [duration(0), duration(250), duration(1_500), duration(90_000), duration(5_400_000), duration(172_800_000)],
        ["0s", "250ms", "1500ms", "90s", "90m", "2d"].map(str::to_owned)
    );
    assert_eq!(
        [show_size(0), show_size(1), show_size(1024), show_size(1_572_864), show_size(1 << 40)],
        ["0B", "1B", "1KiB", "1536KiB", "1024GiB"].map(str::to_owned)
    );
}

proptest! {
    #[test]
    fn what_is_shown_reads_as_what_it_was(millis in 0..=LONGEST.as_millis() as u64, bytes: u64) {
        let shown = Duration::from_millis(millis);
        prop_assert_eq!(duration(&show_duration(shown)).unwrap(), shown);
        prop_assert_eq!(size(&show_size(bytes)).unwrap(), bytes);
    }

    #[test]
    fn any_text_is_an_amount_or_a_complaint(text in "[0-9.,smhdKMGiB é]{0,30}") {
        let _ = duration(&text);
        let _ = size(&text);
    }
}
