//! `Policy`: one route's rules as plain, resolved data. Parsed by `config`, obeyed everywhere else.

use std::{fmt, time::Duration};

use http::{HeaderName, Method, StatusCode};

pub use super::status::{StatusClass, StatusClasses, StatusConflict, StatusPattern};

/// One route's rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Whether anything is protected at all.
    pub mode: Mode,
    /// The methods that are protected.
    pub methods: Vec<Method>,
    /// What a key is.
    pub key: KeyRules,
    /// Whose key it is.
    pub scope: ScopeRules,
    /// Which request it is.
    pub fingerprint: FingerprintRules,
    /// What a duplicate meets while the first request runs.
    pub in_flight: InFlight,
    /// How long a claim holds without renewal.
    pub lease: Duration,
    /// How long a record lives.
    pub retention: Duration,
    /// What a retry of an operation with unknown outcome meets.
    pub unknown: OnUnknown,
    /// What an answer's status proves.
    pub outcome: StatusClasses,
    /// The status of `key-reused`: 422, or 409 where the API documented that.
    pub mismatch_status: StatusCode,
    /// The largest protected request body, in bytes.
    pub max_request_body: u64,
    /// The largest answer that is kept for replay, in bytes.
    pub max_response_body: u64,
    /// Which header fields a replay repeats.
    pub replay: ReplayRules,
    /// What to do when the store cannot be asked.
    pub store_down: OnStoreDown,
}

/// Whether a route is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// CONTRACT §3 in full.
    Enforce,
    /// Nothing is added, removed or remembered.
    Off,
}

/// What is accepted as a key (CONTRACT §3.2).
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRules {
    /// The header field that carries it.
    pub header: HeaderName,
    /// Whether a request without a key is refused.
    pub required: bool,
    /// The longest key, in bytes after unquoting.
    pub max_length: usize,
    /// What the whole key must match, if anything.
    pub pattern: Option<KeyPattern>,
}

/// A regular expression that a key must match as a whole.
#[derive(Clone, Debug)]
pub struct KeyPattern {
    source: String,
    anchored: regex::Regex,
}

impl KeyPattern {
    /// Compiles `source` (syntax of the `regex` crate), anchored at both ends.
    ///
    /// # Errors
    /// The regular expression's own error, which shows the place in `source`.
    pub fn new(source: &str) -> Result<Self, regex::Error> {
        // Compiled alone first: `a)(b` is only valid inside the anchoring group.
        regex::Regex::new(source)?;
        // A comment in verbose mode (`(?x) … # …`) would swallow the closing bracket: there it needs its own line.
        let anchored = regex::Regex::new(&format!(r"\A(?:{source})\z"))
            .or_else(|_| regex::Regex::new(&format!("\\A(?:{source}\n)\\z")))?;
        Ok(Self { source: source.to_owned(), anchored })
    }

    /// Whether the whole of `key` matches.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        self.anchored.is_match(key)
    }

    /// The expression as configured.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl PartialEq for KeyPattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Who the caller is (CONTRACT §3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeRules {
    /// The sources of identity, all that are present taken together. Empty: one scope for all.
    pub sources: Vec<ScopeSource>,
    /// What a request without any source is.
    pub anonymous: Anonymous,
}

/// One place where a caller's credential may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeSource {
    /// `header:NAME`
    Header(HeaderNameOrd),
    /// `cookie:NAME`; cookie names are case-sensitive (RFC 6265).
    Cookie(String),
}

/// A `HeaderName` that can be ordered and hashed by its lower-case text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderNameOrd(pub HeaderName);

impl PartialOrd for HeaderNameOrd {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeaderNameOrd {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.as_str().cmp(other.0.as_str())
    }
}

impl ScopeSource {
    /// Its kind: what stands before the colon in a configuration.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Header(_) => "header",
            Self::Cookie(_) => "cookie",
        }
    }

    /// Its name; that of a header in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Header(name) => name.0.as_str(),
            Self::Cookie(name) => name,
        }
    }
}

impl fmt::Display for ScopeSource {
    /// As the configuration spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.name())
    }
}

/// What a request is that carries none of the scope sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// Refused: 400 `caller-unknown`.
    Reject,
    /// All such requests are one caller, unless they carry a cookie.
    Share,
}

/// Which parts of a request make it the same request (CONTRACT §3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintRules {
    /// How the body is read.
    pub body: BodyForm,
    /// Parts of the body that do not count: JSON Pointers for `Json`, field names for `Form`.
    pub ignore: Vec<String>,
    /// Further header fields that count.
    pub headers: Vec<HeaderName>,
}

/// How a body is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Byte for byte.
    Raw,
    /// Member order and white space ignored, number tokens byte for byte.
    Json,
    /// Decoded pairs, stable-sorted by name.
    Form,
    /// Parts without the boundary.
    Multipart,
    /// Not at all.
    None,
}

/// What a duplicate meets while the first request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// 409 at once.
    Reject,
    /// Waits for the first request's end.
    Wait {
        /// At most this long, then 409.
        at_most: Duration,
    },
}

impl InFlight {
    /// How long a duplicate may wait; zero where it may not.
    #[must_use]
    pub fn patience(self) -> Duration {
        match self {
            Self::Reject => Duration::ZERO,
            Self::Wait { at_most } => at_most,
        }
    }
}

/// What a retry of a doubtful operation meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnknown {
    /// 409 `outcome-unknown`.
    Hold,
    /// The retry takes the claim over.
    Retry,
}

/// What to do when the store cannot be asked and nothing was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreDown {
    /// 503 `store-unavailable`.
    Reject,
    /// Forward unprotected, and say so.
    Bypass,
}

/// Which header fields a replay repeats, on top of the built-in rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayRules {
    /// Not repeated.
    pub drop_headers: Vec<HeaderName>,
    /// Repeated although the built-in rules would drop them.
    pub keep_headers: Vec<HeaderName>,
}

#[cfg(test)]
mod tests;
