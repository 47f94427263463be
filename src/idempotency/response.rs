//! The stored answer: which head and body are kept, what is stripped, what a replay repeats (CONTRACT §5).

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::policy::ReplayRules;

/// Header or trailer lines in order, repeated ones kept.
pub type HeaderList = Vec<(HeaderName, HeaderValue)>;

/// What the upstream answered, as far as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status; `None` where an operator resolved the operation without an answer.
    pub status: Option<StatusCode>,
    /// The header lines that a replay repeats.
    pub headers: HeaderList,
    /// The body.
    pub body: StoredBody,
}

/// The body of a stored answer.
#[derive(Clone, PartialEq, Eq)]
pub enum StoredBody {
    /// All of it, as the upstream sent it.
    Whole {
        /// The bytes, without transfer coding.
        bytes: Bytes,
        /// The trailer fields.
        trailers: HeaderList,
    },
    /// It was executed, but cannot be replayed.
    NotKept(NotKept),
}

/// Why a body is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotKept {
    /// Larger than `max_response_body`, or there was no memory for it.
    TooLarge,
    /// `text/event-stream`.
    Streamed,
    /// It broke off.
    Broken,
    /// An operator said that it was executed.
    Resolved,
}

impl NotKept {
    /// The word for logs and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Streamed => "streamed",
            Self::Broken => "broken",
            Self::Resolved => "resolved",
        }
    }
}

impl fmt::Debug for StoredResponse {
    /// Sizes only: answers are stored, never logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status)
            .field("headers", &format_args!("{} lines", self.headers.len()))
            .field("body", &self.body)
            .finish()
    }
}

impl fmt::Debug for StoredBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole { bytes, trailers } => write!(f, "{} bytes, {} trailers", bytes.len(), trailers.len()),
            Self::NotKept(why) => write!(f, "NotKept({})", why.label()),
        }
    }
}

/// The lines of `headers` that a replay will repeat under `rules`, in order.
///
/// Hop-by-hop fields are expected to be gone already (the upstream room removes them from every message).
#[must_use]
pub fn replayable(headers: &HeaderMap, rules: &ReplayRules) -> HeaderList {
    headers.iter().filter(|(name, _)| repeats(name, rules)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether a replay repeats the field `name` under `rules`.
#[must_use]
pub fn repeats(name: &HeaderName, rules: &ReplayRules) -> bool {
    // The connection, the framing and the two markers are the gate's own, whatever the route says.
    const NEVER: [&str; 10] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        STATUS_FIELD,
        REPLAYED_FIELD,
    ];
    if NEVER.contains(&name.as_str()) || rules.drop_headers.contains(name) {
        return false;
    }
    rules.keep_headers.contains(name) || !is_momentary(name.as_str())
}

/// The field that says what became of a keyed request.
pub const STATUS_FIELD: &str = "idempotency-status";
/// The field that marks a replay.
pub const REPLAYED_FIELD: &str = "idempotent-replayed";

/// Whether a field speaks of one exchange only, so that repeating it later would be wrong (CONTRACT §5).
fn is_momentary(name: &str) -> bool {
    const EXACT: [&str; 11] = [
        "age",
        "date",
        "retry-after",
        "traceparent",
        "tracestate",
        "server-timing",
        "x-request-id",
        "request-id",
        "x-correlation-id",
        "cf-ray",
        "set-cookie",
    ];
    const PREFIXES: [&str; 3] = ["ratelimit", "x-ratelimit-", "x-amzn-"];
    EXACT.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
