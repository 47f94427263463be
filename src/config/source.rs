//! The text a problem is about: where its lines are, and what of it may be shown.

use std::{fmt, ops::Range};

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

/// Masks what a file should not hold in clear, and sometimes does: the values of `token` and `password` keys, and
/// the password of a URL. Works line by line on the text, so that a file with broken syntax is masked too.
fn mask(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut hidden = Vec::new();
        if let Some(value) = secret_value(line) {
            hidden.push(value);
        }
        let mut from = 0;
        while let Some(password) = url_password(line, from) {
            from = password.end;
            hidden.push(password);
        }
        for (at, character) in line.char_indices() {
            let secret = hidden.iter().any(|range| range.contains(&at)) && !character.is_control();
            shown.push(if secret { blot(character) } else { character });
        }
    }
    shown
}

/// What is hidden of a line such as `token = "…"`: everything within the quotes, unless it only refers to a secret.
fn secret_value(line: &str) -> Option<Range<usize>> {
    const KEYS: [&str; 3] = ["token", "password", "pass"];
    let mut from = 0;
    loop {
        let equals = from + line.get(from..)?.find('=')?;
        let key = line[..equals].trim_end().trim_end_matches(['"', '\'']);
        let word = |key: &str, name: &str| {
            let before = key.strip_suffix(name)?;
            Some(before.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '-'))
        };
        if !KEYS.iter().any(|name| word(key, name) == Some(true)) {
            from = equals + 1;
            continue;
        }
        let value = &line[equals + 1..];
        let start = value.len() - value.trim_start_matches([' ', '\t', '"', '\'']).len();
        if value[start..].starts_with("${") {
            return None;
        }
        let end = value[start..].find(['"', '\'', '\r', '\n']).map_or(value.len(), |end| start + end);
        return Some(equals + 1 + start..equals + 1 + end);
    }
}

/// The password of the first URL with userinfo at or after `from`, unless it only refers to a secret.
fn url_password(line: &str, from: usize) -> Option<Range<usize>> {
    let mut from = from;
    loop {
        let start = from + line.get(from..)?.find("://")? + 3;
        let end = line[start..].find(['"', '\'', ' ', '\r', '\n']).map_or(line.len(), |end| start + end);
        from = end;
        let Some(at) = line[start..end].rfind('@') else { continue };
        let userinfo = &line[start..start + at];
        let password = userinfo.find(':').map_or(start, |colon| start + colon + 1);
        if !line[password..start + at].starts_with("${") {
            return Some(password..start + at);
        }
    }
}

/// A character that hides another one of the same length, so that no place in the text moves.
fn blot(character: char) -> char {
    match character.len_utf8() {
        1 => '*',
        2 => '·',
        3 => '•',
        _ => '🞄',
    }
}

#[cfg(test)]
mod tests;
