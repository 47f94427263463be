//! A failure becomes an answer: RFC 9457 problem documents. The only place with status codes of our own.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::{
    answer::Mark,
    body::{self, Body},
    intake::Flaw,
};
use crate::{
    idempotency::{
        Policy, Refusal, WallMillis,
        key::KeyError,
        policy::Anonymous,
        refusal::{InvalidRequest, Overload, retry_after},
    },
    telemetry::timestamp::rfc3339_seconds,
};

/// What a client is told when it does not get the upstream's answer.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    /// What `Idempotency-Status` says, where the request is a keyed one.
    pub(super) mark: Mark,
    retry_after: Option<u64>,
    allow: Option<&'static str>,
    members: Map<String, Value>,
    /// Whether the connection must not be used again.
    pub(super) close: bool,
}

/// What CONNECT and TRACE are told to use instead.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

impl Problem {
    fn new(status: StatusCode, slug: &'static str, title: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            slug,
            title,
            detail: detail.into(),
            mark: Mark::NotExecuted,
            retry_after: None,
            allow: None,
            members: Map::new(),
            close: false,
        }
    }

    fn mark(mut self, mark: Mark) -> Self {
        self.mark = mark;
        self
    }

    fn after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    fn member(mut self, name: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.members.insert(name.to_owned(), value);
        }
        self
    }

    /// The slug, for the access line.
    pub(super) fn slug(&self) -> &'static str {
        self.slug
    }

    /// Whether the client was too slow.
    pub(super) fn is_timeout(&self) -> bool {
        self.status == StatusCode::REQUEST_TIMEOUT
    }

    /// A message that is not valid HTTP, or not for a gateway.
    pub(super) fn flaw(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Invalid(what) => Self::request_invalid(what),
            Flaw::Framing(what) => Self { close: true, ..Self::request_invalid(what) },
            Flaw::Method { close } => Self {
                allow: Some(METHODS),
                close,
                ..Self::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "method-not-allowed",
                    "Method not allowed",
                    "This gateway does not serve that method.",
                )
            },
            Flaw::Coding => Self {
                close: true,
                ..Self::new(
                    StatusCode::NOT_IMPLEMENTED,
                    "not-implemented",
                    "Transfer coding not implemented",
                    "The only transfer coding that is accepted is chunked.",
                )
            },
            Flaw::Loop => Self::new(
                StatusCode::LOOP_DETECTED,
                "loop-detected",
                "Loop detected",
                "The request has passed this gateway before: its upstream leads back to it.",
            ),
        }
    }

    fn request_invalid(what: &'static str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "request-invalid",
            "Request invalid",
            format!("The request is not valid: {what}."),
        )
    }

    /// A refusal of a request under `policy`. `now` only dates `Retry-After`.
    pub(super) fn refusal(refusal: &Refusal, policy: &Policy, now: WallMillis) -> Self {
        let header = policy.key.header.as_str();
        match refusal {
            Refusal::KeyMissing => Self::new(
                StatusCode::BAD_REQUEST,
                "key-missing",
                "Idempotency key missing",
                format!(
                    "This operation requires the header {header}: a fresh random key for each operation, the same key on each retry of it."
                ),
            ),
            Refusal::KeyInvalid(error) => Self::new(
                StatusCode::BAD_REQUEST,
                "key-invalid",
                "Idempotency key invalid",
                format!("The header {header} is not a valid key: {}.", key_error(*error)),
            ),
            Refusal::CallerUnknown => {
                Self::new(StatusCode::BAD_REQUEST, "caller-unknown", "Caller unknown", caller_unknown(policy))
            }
            Refusal::CallerChanged => Self::new(
                StatusCode::CONFLICT,
                "caller-changed",
                "Caller changed",
                "Another credential of the same subject used this key. Nothing was executed, and nothing is replayed to this \
                 one, since this gateway does not verify tokens (a scope of `jwt:sub` would). Ask with the credential that \
                 was used first.",
            ),
            Refusal::RequestInvalid(why) => Self::request_invalid(invalid(*why)),
            Refusal::RequestTimeout => Self::new(
                StatusCode::REQUEST_TIMEOUT,
                "request-timeout",
                "Request timeout",
                "The request body did not arrive in time. Nothing was executed; the key was not used.",
            ),
            Refusal::RequestTooLarge { limit } => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request-too-large",
                "Request too large",
                format!(
                    "A request with an idempotency key may have at most {limit} bytes here. Nothing was executed; the key was not used."
                ),
            ),
            Refusal::KeyReused => Self::new(
                policy.mismatch_status,
                "key-reused",
                "Idempotency key reused",
                "This key was used for a different request. Use a new key for a new operation.",
            )
            .mark(Mark::Mismatch),
            Refusal::InProgress { began } => Self::new(
                StatusCode::CONFLICT,
                "in-progress",
                "Request in progress",
                "The first request with this key is still running. Ask again later with the same key.",
            )
            .mark(Mark::InProgress)
            .after(retry_after(now.since(*began))),
            Refusal::OutcomeUnknown { since } => Self::new(
                StatusCode::CONFLICT,
                "outcome-unknown",
                "Outcome unknown",
                "It is not known whether the first request with this key was executed. It will not be run again. \
                 Check with the API before using a new key.",
            )
            .mark(Mark::Unknown)
            .member("since", since.map(|since| json!(rfc3339_seconds(since)))),
            Refusal::AnswerNotKept { original_status } => Self::new(
                StatusCode::CONFLICT,
                "answer-not-kept",
                "Answer not kept",
                "The first request with this key was executed, but its answer cannot be repeated.",
            )
            .mark(Mark::Executed)
            .member("original_status", original_status.map(|status| json!(status.as_u16()))),
            Refusal::StoreUnavailable => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "store-unavailable",
                "Store unavailable",
                "The gateway cannot reach its memory. Nothing was executed; try again with the same key.",
            )
            .after(1),
            Refusal::Overloaded(overload) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "Overloaded", overloaded(*overload)).after(1)
            }
            Refusal::Draining => Self {
                close: true,
                ..Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "draining",
                    "Draining",
                    "This gateway is shutting down. Nothing was executed; try again with the same key.",
                )
                .after(1)
            },
        }
    }

    /// The upstream was not reached, or (for an unprotected request) broke off.
    pub(super) fn upstream_unreachable(protected: bool) -> Self {
        let detail = if protected {
            "The upstream could not be reached. Nothing was executed; try again with the same key."
        } else {
            "The upstream could not be reached, or closed the connection without an answer."
        };
        Self::new(StatusCode::BAD_GATEWAY, "upstream-unreachable", "Upstream unreachable", detail)
    }

    /// The upstream did not answer an unprotected request in time.
    pub(super) fn upstream_timeout() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "upstream-timeout",
            "Upstream timeout",
            "The upstream did not answer in time.",
        )
    }

    /// The request was sent and its answer lost.
    pub(super) fn answer_lost() -> Self {
        Self::new(
            StatusCode::BAD_GATEWAY,
            "outcome-unknown",
            "Outcome unknown",
            "The upstream took the request and gave no answer. It is not known whether it was executed; it will not be run again.",
        )
        .mark(Mark::Unknown)
    }

    /// The answer is late; the execution goes on.
    pub(super) fn still_running(seconds: u64) -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "outcome-unknown",
            "Outcome unknown yet",
            "The upstream has not answered in time; the request still runs. Ask again later with the same key for its answer.",
        )
        .mark(Mark::InProgress)
        .after(seconds)
    }

    /// The execution was given up without an answer.
    pub(super) fn given_up() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "outcome-unknown",
            "Outcome unknown",
            "The upstream has not answered in time. It is not known whether the request was executed; it will not be run again.",
        )
        .mark(Mark::Unknown)
    }

    /// The answer's body broke off.
    pub(super) fn broken_off(status: StatusCode, mark: Mark) -> Self {
        Self::new(
            StatusCode::BAD_GATEWAY,
            "answer-not-kept",
            "Answer broken off",
            "The upstream answered, but its answer broke off before its end.",
        )
        .mark(mark)
        .member("original_status", Some(json!(status.as_u16())))
    }

    /// The answer, its `type` under `base`.
    pub(super) fn into_response(self, base: &str) -> Response<Body> {
        let mut document = Map::new();
        document.insert("type".to_owned(), json!(format!("{base}{}", self.slug)));
        document.insert("title".to_owned(), json!(self.title));
        document.insert("status".to_owned(), json!(self.status.as_u16()));
        document.insert("detail".to_owned(), json!(self.detail));
        document.extend(self.members);
        let mut response = Response::new(body::whole(Bytes::from(Value::Object(document).to_string())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        response
    }
}

fn key_error(error: KeyError) -> Cow<'static, str> {
    match error {
        KeyError::Twice => "it is there more than once".into(),
        KeyError::Malformed => "it must be one string, quoted or bare, without parameters".into(),
        KeyError::Empty => "it is empty".into(),
        KeyError::TooLong { limit } => format!("it is longer than {limit} bytes").into(),
        KeyError::Charset => "it holds bytes other than printable ASCII".into(),
        KeyError::Pattern => "it does not have the form that this API asks for".into(),
    }
}

fn caller_unknown(policy: &Policy) -> String {
    let sources: Vec<String> = policy.scope.sources.iter().map(ToString::to_string).collect();
    let remedy = match policy.scope.anonymous {
        Anonymous::Reject => {
            "For an API without credentials, the operator can set `anonymous = \"share\"` or `scope = []`."
        }
        Anonymous::Share => {
            "The request carries a Cookie, so it may belong to a logged-in user: the operator must name that cookie in `scope` \
             (`cookie:NAME`); `anonymous = \"share\"` does not apply."
        }
    };
    format!(
        "A key belongs to its caller, and this request names none: `scope` looks at {}. {remedy}",
        sources.join(", ")
    )
}

fn invalid(why: InvalidRequest) -> &'static str {
    match why {
        InvalidRequest::HopByHopAbuse => "Connection names a field that decides who asks, or what",
        InvalidRequest::CallerTwice => "a credential is there twice",
        InvalidRequest::MethodOverride => "a method override leads to an operation that requires a key",
        InvalidRequest::Grpc => "gRPC cannot be protected by a key",
        InvalidRequest::BodyBroken => "the body ends before its end, or its framing is broken",
        InvalidRequest::Http(what) => what,
    }
}

fn overloaded(overload: Overload) -> &'static str {
    match overload {
        Overload::BodyMemory => {
            "The gateway holds as many bodies as it may. Nothing was executed; try again with the same key."
        }
        Overload::UpstreamConnections => {
            "Too many requests are on their way to the upstream. Nothing was executed; try again with the same key."
        }
        Overload::StaleClaims => {
            "The gateway is too slow to keep its claims. Nothing was executed; try again with the same key."
        }
    }
}

#[cfg(test)]
mod tests;
