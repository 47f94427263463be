//! Durations (`250ms 30s 15m 24h 7d`) and sizes (`512B 64KiB 1MiB 8GiB`): one whole number, one unit.

use std::time::Duration;

use super::read::Complaint;

/// The longest duration there is: ten years. Anything longer is a slip, and would not fit everywhere.
pub(super) const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

const DURATIONS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 60 * 60_000), ("d", 24 * 60 * 60_000)];
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Parses a duration of at most [`LONGEST`].
pub(super) fn duration(text: &str) -> Result<Duration, Complaint> {
    let too_long = || Complaint::new(format!("`{text}` is too long: at most {}", show_duration(LONGEST)));
    let millis = number(text, &DURATIONS, "s")?.ok_or_else(too_long)?;
    let duration = Duration::from_millis(millis);
    if duration > LONGEST { Err(too_long()) } else { Ok(duration) }
}

/// Parses a size, in bytes.
pub(super) fn size(text: &str) -> Result<u64, Complaint> {
    number(text, &SIZES, "MiB")?.ok_or_else(|| Complaint::new(format!("`{text}` is too large")))
}

/// A duration as configuration writes it, in the largest unit that gives a whole number.
pub(super) fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &DURATIONS, "s")
}

/// A size as configuration writes it, in the largest unit that gives a whole number.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES, "B")
}

fn show(amount: u64, units: &[(&str, u64)], zero: &str) -> String {
    let fits = units.iter().rev().find(|(_, worth)| amount != 0 && amount.is_multiple_of(*worth));
    fits.map_or_else(|| format!("0{zero}"), |(unit, worth)| format!("{}{unit}", amount / worth))
}

/// The amount in the smallest unit; `None` where it does not fit.
fn number(text: &str, units: &[(&str, u64)], usual: &str) -> Result<Option<u64>, Complaint> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let names = || units.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        return Err(Complaint::new("there is nothing here").hint(format!("one number and one unit of {}", names())));
    }
    if number.is_empty() {
        let hint = format!("a whole number comes first, then one of {}", names());
        return Err(Complaint::new(format!("`{text}` does not begin with a number")).hint(hint));
    }
    if unit.is_empty() {
        return Err(Complaint::new(format!("`{text}` has no unit")).hint(format!("did you mean `{text}{usual}`?")));
    }
    if unit.starts_with(['.', ',']) {
        return Err(Complaint::new(format!("`{text}` is not a whole number")).hint("use a smaller unit"));
    }
    let Some((_, worth)) = units.iter().find(|(name, _)| *name == unit) else {
        let meant = units.iter().find(|(name, _)| close(name, unit)).map(|(name, _)| *name);
        let hint = match meant {
            Some(meant) => format!("did you mean `{number}{meant}`?"),
            None if unit.contains(|c: char| c.is_ascii_digit()) => format!("one number and one unit of {}", names()),
            None => format!("the units are {}", names()),
        };
        return Err(Complaint::new(format!("`{unit}` is not a unit")).hint(hint));
    };
    // A number that does not fit is out of range like any other that is too large.
    Ok(number.parse::<u64>().ok().and_then(|number| number.checked_mul(*worth)))
}

/// Whether `found` is how some write the unit `name`: `sec`, `KB`, `mb`, `hours`, ` s`.
fn close(name: &str, found: &str) -> bool {
    let found = found.trim().to_ascii_lowercase();
    let usual: &[&str] = match name {
        "ms" => &["ms", "msec", "msecs", "millis", "millisecond", "milliseconds"],
        "s" => &["s", "sec", "secs", "second", "seconds"],
        "m" => &["m", "min", "mins", "minute", "minutes"],
        "h" => &["h", "hr", "hrs", "hour", "hours"],
        "d" => &["d", "day", "days"],
        "B" => &["b", "byte", "bytes"],
        "KiB" => &["k", "kb", "kib", "ki"],
        "MiB" => &["m", "mb", "mib", "mi"],
        "GiB" => &["g", "gb", "gib", "gi"],
        _ => &[],
    };
    usual.contains(&found.as_str())
}

#[cfg(test)]
mod tests;
