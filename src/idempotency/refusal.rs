//! Every reason to say no to a request, as data. Which status and words a client sees is `proxy::problem`'s.

use std::time::Duration;

use http::StatusCode;

use super::{key::KeyError, record::WallMillis};

/// Why a request is refused, or not answered by the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The route requires a key and there is none.
    KeyMissing,
    /// The key header is there and not a key.
    KeyInvalid(KeyError),
    /// No scope source is present and the route does not share cells between anonymous callers.
    CallerUnknown,
    /// Another credential of the subject holds the cell.
    CallerChanged,
    /// The request is contradictory in a way that could hide the key or the caller.
    RequestInvalid(InvalidRequest),
    /// The body did not arrive in time.
    RequestTimeout,
    /// The body is larger than the route protects.
    RequestTooLarge {
        /// The route's `max_request_body`, in bytes.
        limit: u64,
    },
    /// Same key, other request.
    KeyReused,
    /// The first request still runs.
    InProgress {
        /// When it began, by the claimant's clock.
        began: WallMillis,
    },
    /// Nobody knows what became of the first request, and it will not run again.
    OutcomeUnknown {
        /// When it began; `None` where the record cannot be read.
        since: Option<WallMillis>,
    },
    /// It was executed, and the answer cannot be repeated.
    AnswerNotKept {
        /// The upstream's status, where known.
        original_status: Option<StatusCode>,
    },
    /// The store cannot be asked; nothing was executed.
    StoreUnavailable,
    /// A limit of the gate is reached; nothing was executed.
    Overloaded(Overload),
    /// The gate is shutting down; nothing was executed.
    Draining,
}

/// What makes a request contradictory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRequest {
    /// `Connection` names the key header, a scope source, `Host`, a framing field, or a field that the fingerprint counts.
    HopByHopAbuse,
    /// A scope source occurs twice.
    CallerTwice,
    /// A method override names a method that the route requires a key for.
    MethodOverride,
    /// `application/grpc` on a route that requires a key.
    Grpc,
    /// The body ended before its announced end, or its framing is broken.
    BodyBroken,
    /// The target, the authority or the framing is not valid HTTP. The text says what, without client bytes.
    Http(&'static str),
}

/// Which limit of the gate is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// `limits.body_memory`.
    BodyMemory,
    /// `upstream.max_connections`.
    UpstreamConnections,
    /// The claim kept growing stale before it could be used.
    StaleClaims,
}

impl Refusal {
    /// The word for logs and metrics; equal to the problem slug where a client sees one.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyInvalid(_) => "key-invalid",
            Self::CallerUnknown => "caller-unknown",
            Self::CallerChanged => "caller-changed",
            Self::RequestInvalid(_) => "request-invalid",
            Self::RequestTimeout => "request-timeout",
            Self::RequestTooLarge { .. } => "request-too-large",
            Self::KeyReused => "key-reused",
            Self::InProgress { .. } => "in-progress",
            Self::OutcomeUnknown { .. } => "outcome-unknown",
            Self::AnswerNotKept { .. } => "answer-not-kept",
            Self::StoreUnavailable => "store-unavailable",
            Self::Overloaded(_) => "overloaded",
            Self::Draining => "draining",
        }
    }
}

/// How long a client should wait before it asks again for an operation that has run for `age`: as long again,
/// between 1 and 30 seconds. Whole seconds.
#[must_use]
pub fn retry_after(age: Duration) -> u64 {
    age.as_secs().clamp(1, 30)
}
