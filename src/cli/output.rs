//! Printing. A reader that has seen enough (`| head`) is no error, and never a panic.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

/// Writes to standard output.
pub(super) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to standard error.
pub(super) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Whether standard output may be coloured.
pub(super) fn stdout_colour() -> bool {
    io::stdout().is_terminal() && wants_colour()
}

/// Whether standard error may be coloured.
pub(super) fn stderr_colour() -> bool {
    io::stderr().is_terminal() && wants_colour()
}

/// `NO_COLOR`, not empty, turns colour off (no-color.org).
fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `1 route`, `2 routes`
pub(super) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A duration as configuration writes it, in the largest unit that loses nothing: `250ms`, `30s`, `7d`.
pub(super) fn duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    match units.iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

/// A size as configuration writes it, in the largest unit that loses nothing: `1MiB`, `1500B`.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests;
