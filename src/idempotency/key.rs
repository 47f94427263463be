//! `IdempotencyKey`: the key a client sent, parsed (CONTRACT §3.2, RFC 9651 §4.2.5). Cannot exist invalid.

use std::fmt;

use http::HeaderMap;
use sfv::{BareItemFromInput, KeyRef, Parser, visitor::ParameterVisitor};

use super::{field::trim_ows, policy::KeyRules};

/// A valid key, unquoted. A secret: `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// Why a header is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyError {
    /// More than one header line.
    Twice,
    /// A list, or a bare key with `" , ; \` in it, or a string with parameters or broken quoting.
    Malformed,
    /// Nothing in it, or nothing but white space.
    Empty,
    /// Longer than the route's `key.max_length`.
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Bytes outside 0x21–0x7E (0x20–0x7E within quotes).
    Charset,
    /// Does not match the route's `key.pattern`.
    Pattern,
}

impl IdempotencyKey {
    /// The key of a request, `None` where the header is absent.
    ///
    /// # Errors
    /// Why the header is not a key under `rules`.
    pub fn find(headers: &HeaderMap, rules: &KeyRules) -> Result<Option<Self>, KeyError> {
        let mut lines = headers.get_all(&rules.header).iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(KeyError::Twice);
        }
        Self::parse(line.as_bytes(), rules).map(Some)
    }

    /// Parses one header value: a structured-field string, or a bare key with the same meaning.
    ///
    /// # Errors
    /// Why it is not a key under `rules`.
    pub fn parse(value: &[u8], rules: &KeyRules) -> Result<Self, KeyError> {
        let value = trim_ows(value);
        if !value.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(KeyError::Charset);
        }
        let key = match value.first() {
            None => return Err(KeyError::Empty),
            Some(b'"') => quoted(value)?,
            Some(_) => bare(value)?,
        };
        // A string of blanks tells no two operations apart; it is what an unfilled template sends.
        if key.trim_ascii().is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > rules.max_length {
            return Err(KeyError::TooLong { limit: rules.max_length });
        }
        if rules.pattern.as_ref().is_some_and(|pattern| !pattern.matches(&key)) {
            return Err(KeyError::Pattern);
        }
        Ok(Self(key))
    }

    /// The key itself. For hashing and for the probe's path; never for a log.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(…)")
    }
}

/// A bare key: visible ASCII without the characters that would make it a list, a string or parameters.
fn bare(value: &[u8]) -> Result<String, KeyError> {
    // The reserved ones first: `a, b` is a list, not a key with a blank in it.
    if value.iter().any(|byte| matches!(byte, b'"' | b',' | b';' | b'\\')) {
        return Err(KeyError::Malformed);
    }
    if !value.iter().all(u8::is_ascii_graphic) {
        return Err(KeyError::Charset);
    }
    String::from_utf8(value.to_vec()).map_err(|_| KeyError::Charset)
}

/// The contents of a structured-field string without parameters (RFC 9651 §4.2.5). Parameters are refused and not
/// dropped: a client that sends `"a";v=1` and `"a";v=2` may mean two keys.
fn quoted(value: &[u8]) -> Result<String, KeyError> {
    let string = |item: BareItemFromInput<'_>| match item {
        BareItemFromInput::String(text) => Ok(NoParameters(text.as_str().to_owned())),
        BareItemFromInput::Decimal(_)
        | BareItemFromInput::Integer(_)
        | BareItemFromInput::ByteSequence(_)
        | BareItemFromInput::Boolean(_)
        | BareItemFromInput::Token(_)
        | BareItemFromInput::Date(_)
        | BareItemFromInput::DisplayString(_) => Err(fmt::Error),
    };
    Parser::new(value).parse_item_with_visitor(string).map_err(|_| KeyError::Malformed)
}

/// An item's value, on the condition that no parameter follows.
struct NoParameters(String);

impl<'de> ParameterVisitor<'de> for NoParameters {
    type Out = String;
    type Error = fmt::Error;

    fn parameter(&mut self, _: &'de KeyRef, _: BareItemFromInput<'de>) -> Result<(), fmt::Error> {
        Err(fmt::Error)
    }

    fn finish(self) -> Result<String, fmt::Error> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests;
