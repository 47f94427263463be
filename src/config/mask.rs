//! Hides the secrets of a configuration file before a line of it is shown.
//!
//! Reads the text and not the parsed file, because a file with broken syntax is shown too; and would rather hide too
//! much than too little. What only refers to a secret (`${VAR}`, `${file:PATH}`) stays. Not here: messages, which do
//! not repeat what they were told of a secret.

use std::ops::Range;

use super::schema::closest;

/// Keys that hold a secret, whole or as one word of several.
const SECRETS: [&str; 6] = ["token", "password", "passphrase", "secret", "credential", "encryption_key"];
/// The same, but so short that much else resembles them.
const EXACT: [&str; 6] = ["pass", "passwd", "pwd", "auth", "pw", "apikey"];

/// The text with each character of a secret replaced by one of the same length in bytes.
pub(super) fn mask(text: &str) -> String {
    let mut hidden = vec![false; text.len()];
    let mut admin = false;
    // Where the value of a secret ends that began on a line before.
    let mut covered = 0;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let inside = start < covered;
        if !inside && let Some(name) = header(line) {
            admin = is_admin(name);
        } else if let Some((key, at)) = statement(line) {
            if is_secret(key) || is_admins(key) || (admin && !is_open(key)) {
                covered = covered.max(value(text, start + at, Part::Alone, &mut hidden));
            } else if is_admin(key) {
                covered = covered.max(value(text, start + at, Part::Admin, &mut hidden));
            }
        } else if admin && !inside {
            hide(text, words(text, start..end), &mut hidden);
        }
        for (equals, _) in line.match_indices('=') {
            let name = name_before(line, equals);
            if is_secret(name) && line[..equals].strip_suffix(name).is_some_and(|before| before.ends_with(['?', '&'])) {
                // Of a query, which ends with its string.
                let ends = ['"', '\'', ' ', '\r', '\n'];
                let length = line[equals + 1..].find(ends).unwrap_or(line.len() - equals - 1);
                hide(text, start + equals + 1..start + equals + 1 + length, &mut hidden);
            } else if is_secret(name) {
                value(text, start + equals + 1, Part::Inner, &mut hidden);
            } else if is_admin(name) {
                value(text, start + equals + 1, Part::Admin, &mut hidden);
            }
        }
        urls(text, start..end, &mut hidden);
        start = end;
    }
    let shown = |(at, character): (usize, char)| {
        if hidden[at] && !character.is_control() { blot(character) } else { character }
    };
    text.char_indices().map(shown).collect()
}

/// Whether a key, possibly a dotted one, is or resembles that of a secret.
pub(super) fn is_secret(key: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or(key).trim_matches([' ', '\t', '"', '\'']);
    let alike = |word: &str| EXACT.contains(&word.to_ascii_lowercase().as_str()) || closest(word, SECRETS).is_some();
    // A name longer than any key is no slip of one, and is not compared.
    name.len() > 64 || alike(name) || (name.contains(['_', '-']) && name.split(['_', '-']).any(alike))
}

fn is_admin(name: &str) -> bool {
    closest(name.trim_matches([' ', '\t', '"', '\'']), ["admin"]).is_some()
}

/// Whether a dotted key is of the admin's table, and not one that may be shown.
fn is_admins(key: &str) -> bool {
    key.split_once('.').is_some_and(|(table, key)| is_admin(table) && !is_open(key))
}

/// The one key of `[admin]` that holds no secret. Its slips are hidden: they may as well be slips of another key.
fn is_open(key: &str) -> bool {
    key.trim_matches([' ', '\t', '"', '\'']) == "listen"
}

/// The name in `[name]` or `[[name]]`.
fn header(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix('[')?;
    let name = &inner[inner.len() - inner.trim_start_matches('[').len()..];
    let name = name[..name.find(']')?].trim();
    let plain = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ' '));
    (plain && !name.is_empty()).then_some(name)
}

/// The key at the beginning of a line, and where what follows it and its separator begins. Any separator will do.
fn statement(line: &str) -> Option<(&str, usize)> {
    let begin = line.len() - line.trim_start_matches([' ', '\t', '#', '{', ',']).len();
    let key_end = line[begin..].find(['=', ':', '\r', '\n', '#', '[', '{', ',']).map_or(line.len(), |end| begin + end);
    let key = &line[begin..key_end];
    if line[key_end..].starts_with(['=', ':']) {
        return Some((key.trim_end(), key_end + 1));
    }
    // `token "abc"`, and a line that is no statement at all.
    let (name, _) = key.split_once([' ', '\t'])?;
    Some((name, begin + name.len()))
}

/// The bare or quoted name right before `equals`.
fn name_before(line: &str, equals: usize) -> &str {
    let name = line[..equals].trim_end_matches([' ', '\t', '"', '\'']);
    let begin = name.rfind(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-')).map_or(0, |at| {
        // The character found may be of any length.
        at + name[at..].chars().next().map_or(1, char::len_utf8)
    });
    &name[begin..]
}

/// What a value is a part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A line of its own: nothing but blanks can follow, and what does is hidden as well.
    Alone,
    /// Possibly an inline table or a list, which goes on behind it.
    Inner,
    /// It is the admin's table itself.
    Admin,
}

/// Hides the value that begins at `start`, and says where it ends. Of the admin's table, `listen` stays.
fn value(text: &str, start: usize, part: Part, hidden: &mut [bool]) -> usize {
    let start = start + text[start..].len() - text[start..].trim_start_matches([' ', '\t']).len();
    let line_end = text[start..].find('\n').map_or(text.len(), |end| start + end);
    if text[start..].starts_with(['[', '{']) {
        return brackets(text, start, part == Part::Admin, hidden);
    }
    let Some((inner, end)) = string(text, start) else {
        hide(text, start..line_end, hidden);
        return line_end;
    };
    hide(text, inner, hidden);
    // A quote within the secret would end it too early: what follows must look like the end of a value. Not even a
    // comment does, where the secret may hold a `#`.
    let line_end = text[end..].find('\n').map_or(text.len(), |line_end| end + line_end);
    let rest = text[end..line_end].trim_start();
    if !rest.is_empty() && (part == Part::Alone || !rest.starts_with([',', '}', ']', '#'])) {
        hide(text, end..line_end, hidden);
        return line_end;
    }
    end
}

/// Hides all strings and words of a list or an inline table but the keys.
fn brackets(text: &str, start: usize, admin: bool, hidden: &mut [bool]) -> usize {
    let (mut at, mut depth, mut open) = (start, 0_usize, false);
    while let Some(next) = text[at..].chars().next() {
        let (inner, end) = match next {
            '[' | '{' => {
                depth += 1;
                at += 1;
                continue;
            }
            ']' | '}' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    break;
                }
                continue;
            }
            ',' | '=' | ' ' | '\t' | '\r' | '\n' => {
                open &= next != ',';
                at += 1;
                continue;
            }
            '#' => {
                at = text[at..].find('\n').map_or(text.len(), |end| at + end);
                continue;
            }
            '"' | '\'' => string(text, at).unwrap_or((at..text.len(), text.len())),
            _ => {
                let ends = [',', '=', '[', ']', '{', '}', '"', '\'', ' ', '\t', '\r', '\n'];
                let end = text[at..].find(ends).map_or(text.len(), |end| at + end);
                (at..end, end)
            }
        };
        if text[end..].trim_start_matches([' ', '\t']).starts_with('=') {
            open = admin && is_open(&text[inner]);
        } else if !open {
            hide(text, inner, hidden);
        }
        at = end;
    }
    at
}

/// What is within the quotes at `start`, and where the string ends. One that is not closed ends with its line.
fn string(text: &str, start: usize) -> Option<(Range<usize>, usize)> {
    let rest = &text[start..];
    for (quotes, long) in [("\"\"\"", true), ("'''", true), ("\"", false), ("'", false)] {
        let Some(content) = rest.strip_prefix(quotes) else { continue };
        let begin = start + quotes.len();
        let mut escaped = false;
        for (at, character) in content.char_indices() {
            if escaped {
                escaped = false;
            } else if character == '\\' && quotes.starts_with('"') {
                escaped = true;
            } else if content[at..].starts_with(quotes) {
                return Some((begin..begin + at, begin + at + quotes.len()));
            }
            if character == '\n' && !long {
                return Some((begin..begin + at, begin + at));
            }
        }
        return Some((begin..text.len(), text.len()));
    }
    None
}

/// A line without the white space around it.
fn words(text: &str, line: Range<usize>) -> Range<usize> {
    let trimmed = text[line.clone()].trim_end();
    line.start..line.start + trimmed.len()
}

/// Hides user, password, query and fragment of every URL of a line.
fn urls(text: &str, line: Range<usize>, hidden: &mut [bool]) {
    let mut from = line.start;
    while let Some(colon) = text[from..line.end].find(':').map(|colon| from + colon) {
        from = colon + 1;
        let scheme = text[line.start..colon]
            .rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'))
            .map_or(line.start, |before| line.start + before + char_len(text, line.start + before));
        if scheme == colon {
            continue;
        }
        // Within quotes a URL has blanks, and other quotes, as well.
        let quote = text[line.start..scheme].chars().next_back().filter(|c| matches!(c, '"' | '\''));
        let ends = |c: char| matches!(c, '\r' | '\n') || quote.map_or(c.is_whitespace(), |quote| c == quote);
        let end = text[from..line.end].find(ends).map_or(line.end, |end| from + end);
        let mut rest = from;
        if text[from..end].starts_with("//") {
            rest += 2;
            if let Some(at) = text[rest..end].rfind('@') {
                // The colon stays: it tells a user without a password from one with.
                let userinfo = &text[rest..rest + at];
                let user = userinfo.find(':').filter(|user| !userinfo[..*user].contains("${")).unwrap_or(0);
                hide(text, rest..rest + user, hidden);
                let password = if userinfo[user..].starts_with(':') { rest + user + 1 } else { rest };
                hide(text, password..rest + at, hidden);
                rest += at;
            }
        } else if quote.is_none() {
            // Without quotes and slashes it is a word before a colon.
            continue;
        }
        if let Some(query) = text[rest..end].find(['?', '#']) {
            hide(text, rest + query + 1..end, hidden);
        }
    }
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// Marks `range`, but for references: `${VAR}` and `${file:PATH}` show where a secret is, not what it is.
fn hide(text: &str, range: Range<usize>, hidden: &mut [bool]) {
    hidden[range.clone()].fill(true);
    let mut from = range.start;
    while let Some(open) = text[from..range.end].find("${").map(|open| from + open) {
        let Some(close) = text[open..range.end].find('}').map(|close| open + close) else { return };
        from = close + 1;
        if text[range.start..open].ends_with('$') {
            // `$${` stands for itself.
            continue;
        }
        let inner = &text[open + 2..close];
        let name =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if let Some((variable, _)) = inner.split_once(":-") {
            if name(variable) {
                hidden[open..open + 2 + variable.len() + 2].fill(false);
                hidden[close] = false;
            }
        } else if name(inner) || inner.starts_with("file:") {
            hidden[open..=close].fill(false);
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
