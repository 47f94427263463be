//! The canonical path (CONTRACT §8) and path templates.
//!
//! The canonical form of a path is pure ASCII: what cannot be there as it is, is percent-encoded with upper-case
//! digits. So two spellings of one path that an upstream may take for the same compare equal.

use std::{borrow::Cow, fmt};

/// The canonical form of `path`, which may carry a query (dropped).
///
/// In this order: unreserved characters are percent-decoded and `%2F` becomes a slash, `;parameters` of each
/// segment are dropped, slashes merged, dot segments resolved, a trailing slash dropped. Letter case, backslash,
/// suffixes and double encoding stay as they are. The asterisk form (`*`) is its own canonical form.
#[must_use]
pub fn canonical(path: &str) -> Cow<'_, str> {
    let path = without_query(path);
    if path == "*" || is_canonical(path) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(fold_segments(&decode(path, true)))
}

/// The same path as an upstream reads it that splits it at slashes first and decodes the pieces: the canonical form,
/// but `%2F` is a part of its segment. `None` where the path has no `%2F`, and there is one reading only.
pub(super) fn canonical_of_pieces(path: &str) -> Option<String> {
    let path = without_query(path);
    let has_slash = path.as_bytes().windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f"));
    has_slash.then(|| fold_segments(&decode(path, false)))
}

fn without_query(path: &str) -> &str {
    // A fragment cannot be in a request target; an upstream that finds one will most likely cut it off.
    path.find(['?', '#']).map_or(path, |end| &path[..end])
}

/// A decoded path without `;parameters`, empty segments and dot segments.
fn fold_segments(decoded: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        let segment = segment.split(';').next().unwrap_or_default();
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut canonical = String::with_capacity(decoded.len() + 1);
    for segment in &segments {
        canonical.push('/');
        canonical.push_str(segment);
    }
    if canonical.is_empty() {
        canonical.push('/');
    }
    canonical
}

/// Whether `path` is certainly canonical: what nearly every request has, told without an allocation.
fn is_canonical(path: &str) -> bool {
    let bytes = path.as_bytes();
    if path == "/" {
        return true;
    }
    bytes.starts_with(b"/")
        && !bytes.ends_with(b"/")
        && bytes.iter().all(|byte| byte.is_ascii() && !matches!(byte, b'%' | b';'))
        && bytes.windows(2).all(|pair| pair[0] != b'/' || !matches!(pair[1], b'/' | b'.'))
}

/// Decodes unreserved characters (RFC 3986 §2.3) and, where `slashes`, `%2F`; writes everything else in its one ASCII
/// form.
fn decode(path: &str, slashes: bool) -> String {
    let bytes = path.as_bytes();
    let mut decoded = String::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte != b'%' {
            push_byte(&mut decoded, byte, byte.is_ascii());
            continue;
        }
        match hex(bytes.get(at)).zip(hex(bytes.get(at + 1))) {
            Some((high, low)) => {
                let byte = high << 4 | low;
                push_byte(&mut decoded, byte, (slashes && byte == b'/') || is_unreserved(byte));
                at += 2;
            }
            // A percent sign that encodes nothing is one itself; left bare it could team up with what follows it.
            None => push_byte(&mut decoded, b'%', false),
        }
    }
    decoded
}

fn push_byte(text: &mut String, byte: u8, plain: bool) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    if plain {
        text.push(char::from(byte));
    } else {
        text.extend(['%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn hex(digit: Option<&u8>) -> Option<u8> {
    match digit? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A canonical path without its letter case, beyond ASCII too: everything that some upstream may take for equal.
pub(super) fn fold(canonical: &str) -> String {
    let lower = canonical.to_ascii_lowercase();
    if !lower.contains('%') {
        return lower;
    }
    // Only what is not ASCII is decoded: an encoded slash or percent sign must not change its meaning here.
    let mut bytes = Vec::with_capacity(lower.len());
    let mut rest = lower.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = hex(after.first()).zip(hex(after.get(1))).map(|(high, low)| high << 4 | low);
        match escaped.filter(|escaped| byte == b'%' && !escaped.is_ascii()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) => text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect(),
        Err(_) => lower,
    }
}

/// A path template: `/accounts/{id}/transfers`, `/files/{*rest}`.
///
/// `{name}` stands for exactly one segment, `{*name}` for the rest of the path, also an empty one.
#[derive(Clone, PartialEq, Eq)]
pub struct PathTemplate {
    source: String,
    segments: Vec<Segment>,
    /// Whether it ends in `{*name}`.
    rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// One text: canonical, and without its letter case.
    Literal { text: String, folded: String },
    /// `{name}`
    Any,
}

/// Why a text is not a path template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is not an absolute path.
    #[error("a path template begins with `/`")]
    NotAbsolute,
    /// It has a query or a fragment.
    #[error("a path template has no `{0}`: only the path is matched")]
    Query(char),
    /// It has `;parameters`.
    #[error("a path template has no `;parameters`: they are dropped before matching")]
    Parameters,
    /// `{id}.json`, `{a}{b}`, `{`
    #[error("`{0}` mixes text and braces: a parameter is a whole segment, `/{{name}}/`")]
    Mixed(String),
    /// `{}`, `{a b}`
    #[error("`{0}` has no proper name: letters, digits, `_` and `-`, such as `{{id}}`")]
    Name(String),
    /// A name twice.
    #[error("the parameter `{0}` is there twice")]
    Twice(String),
    /// `{*rest}` before the end.
    #[error("`{0}` stands for the rest of the path: nothing can follow it")]
    RestNotLast(String),
    /// Control characters or spaces.
    #[error("a path template has no white space and no control characters")]
    Space,
}

impl PathTemplate {
    /// Parses `path` of a route. Its text is canonicalised as request paths are.
    ///
    /// # Errors
    /// Why it is not a template.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        if !source.starts_with('/') {
            return Err(TemplateError::NotAbsolute);
        }
        for character in source.chars() {
            match character {
                '?' | '#' => return Err(TemplateError::Query(character)),
                ';' => return Err(TemplateError::Parameters),
                character if character.is_whitespace() || character.is_control() => return Err(TemplateError::Space),
                _ => {}
            }
        }
        let mut template = Self { source: source.to_owned(), segments: Vec::new(), rest: false };
        let mut names: Vec<&str> = Vec::new();
        let path = canonical(source);
        let mut segments = segments(&path);
        while let Some(segment) = segments.next() {
            let Some(name) = parameter(segment)? else {
                template.segments.push(Segment::Literal { text: segment.to_owned(), folded: fold(segment) });
                continue;
            };
            let bare = name.strip_prefix('*').unwrap_or(name);
            if names.contains(&bare) {
                return Err(TemplateError::Twice(bare.to_owned()));
            }
            names.push(bare);
            if name.starts_with('*') {
                if segments.next().is_some() {
                    return Err(TemplateError::RestNotLast(segment.to_owned()));
                }
                template.rest = true;
            } else {
                template.segments.push(Segment::Any);
            }
        }
        Ok(template)
    }

    /// `/{*rest}`: every path.
    #[must_use]
    pub fn any() -> Self {
        Self { source: "/{*rest}".to_owned(), segments: Vec::new(), rest: true }
    }

    /// The template as configured.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether a canonical path is one of these.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.walk(path, |text, _, segment| text == segment)
    }

    /// Whether a canonical path is one of these but for its letter case. `path` is what [`fold`] made of it.
    pub(super) fn matches_folded(&self, path: &str) -> bool {
        self.walk(path, |_, folded, segment| folded == segment)
    }

    fn walk(&self, path: &str, equal: impl Fn(&str, &str, &str) -> bool) -> bool {
        if !path.starts_with('/') {
            return false;
        }
        let mut path = segments(path);
        let all = self.segments.iter().all(|segment| match (segment, path.next()) {
            (Segment::Literal { text, folded }, Some(found)) => equal(text, folded, found),
            (Segment::Any, Some(_)) => true,
            (Segment::Literal { .. } | Segment::Any, None) => false,
        });
        all && (self.rest || path.next().is_none())
    }

    /// Whether `self` says more about a path that both match: at the first segment where they differ in kind,
    /// text beats `{name}` beats the end of the template beats `{*rest}`.
    pub(super) fn is_more_specific_than(&self, other: &Self) -> bool {
        self.ranks().gt(other.ranks())
    }

    fn ranks(&self) -> impl Iterator<Item = u8> + '_ {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Literal { .. } => 3,
            Segment::Any => 2,
        });
        segments.chain(std::iter::once(u8::from(!self.rest)))
    }

    /// Whether both match the same paths, `folded` telling whether letter case counts.
    pub(super) fn is_twin(&self, other: &Self, folded: bool) -> bool {
        let same = |(ours, theirs): (&Segment, &Segment)| match (ours, theirs) {
            (Segment::Any, Segment::Any) => true,
            (Segment::Literal { text: a, folded: a_folded }, Segment::Literal { text: b, folded: b_folded }) => {
                if folded {
                    a_folded == b_folded
                } else {
                    a == b
                }
            }
            (Segment::Any | Segment::Literal { .. }, _) => false,
        };
        self.rest == other.rest
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(same)
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl fmt::Debug for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathTemplate({:?})", self.source)
    }
}

/// The segments of a canonical path; the root has none.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1).filter(|segment| !segment.is_empty())
}

/// The name within the braces of a template's segment, `None` where it is text.
fn parameter(segment: &str) -> Result<Option<&str>, TemplateError> {
    let Some(name) = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) else {
        let braces = segment.contains(['{', '}']);
        return if braces { Err(TemplateError::Mixed(segment.to_owned())) } else { Ok(None) };
    };
    if name.contains(['{', '}']) {
        return Err(TemplateError::Mixed(segment.to_owned()));
    }
    let bare = name.strip_prefix('*').unwrap_or(name);
    let proper = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if bare.is_empty() || !bare.bytes().all(proper) {
        return Err(TemplateError::Name(segment.to_owned()));
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests;
