//! The text a problem is about: where its lines are, and what of it may be shown.

use std::{fmt, ops::Range};

use super::mask::mask;

/// One configuration file, or the command line, as it may be shown: secrets written into it are masked.
pub(super) struct Source {
    /// How messages call it.
    pub(super) name: String,
    /// The text, each character of a secret replaced by one of the same length in bytes.
    shown: String,
}

/// A place in a text, for people: both numbers begin at 1 and the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Source {
    pub(super) fn new(name: impl Into<String>, text: &str) -> Self {
        Self { name: name.into(), shown: mask(text) }
    }

    /// Where the byte `offset` is. An offset within a character counts as its beginning, one within the end of a
    /// line as that.
    pub(super) fn place(&self, offset: usize) -> Place {
        let before = &self.shown[..floor(&self.shown, offset)];
        let (line, within) = self.line(&(offset..offset));
        Place {
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: line[..within.start].chars().count() + 1,
        }
    }

    /// The line in which `span` begins, without its end, and what of the span is in it.
    pub(super) fn line(&self, span: &Range<usize>) -> (&str, Range<usize>) {
        let start = floor(&self.shown, span.start);
        let line_start = self.shown[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.shown[start..].find('\n').map_or(self.shown.len(), |newline| start + newline);
        let line = &self.shown[line_start..line_end];
        let line = line.strip_suffix('\r').unwrap_or(line);
        let within = |offset: usize| floor(line, floor(&self.shown, offset).saturating_sub(line_start));
        let start = within(span.start);
        (line, start..within(span.end).max(start))
    }

    /// The text of `span`, as it may be shown.
    pub(super) fn slice(&self, span: &Range<usize>) -> &str {
        self.shown.get(span.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.name)
    }
}

/// The last character boundary at or before `offset`.
fn floor(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

#[cfg(test)]
mod tests;
