//! Answers to protected requests: what a client sees of the first answer, of a replay, and of the markers.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, response};

use super::body::{self, Body};
use crate::idempotency::{
    HeaderList, StoredBody, StoredResponse,
    policy::ReplayRules,
    response::{REPLAYED_FIELD, STATUS_FIELD, repeats},
};

/// What `Idempotency-Status` says (CONTRACT §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It ran, now or earlier, and that is written down.
    Executed,
    /// This is the first answer again.
    Replayed,
    /// It still runs.
    InProgress,
    /// Same key, other request.
    Mismatch,
    /// Nobody knows.
    Unknown,
    /// It ran, and that is not written down (yet).
    Unrecorded,
    /// The store was bypassed.
    Unprotected,
    /// The upstream's answer was passed on and the key is free again.
    Released,
    /// This request caused no execution.
    NotExecuted,
}

impl Mark {
    /// The word itself.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Replayed => "replayed",
            Self::InProgress => "in-progress",
            Self::Mismatch => "mismatch",
            Self::Unknown => "unknown",
            Self::Unrecorded => "unrecorded",
            Self::Unprotected => "unprotected",
            Self::Released => "released",
            Self::NotExecuted => "not-executed",
        }
    }
}

/// Takes the two marker fields of the upstream's own away: they would speak in our name.
///
/// Builds the map anew, since removing from one disturbs the order of what stays.
pub(super) fn without_markers(headers: HeaderMap) -> HeaderMap {
    if !headers.contains_key(STATUS_FIELD) && !headers.contains_key(REPLAYED_FIELD) {
        return headers;
    }
    rebuilt(&headers, |name| !is_marker(name))
}

/// Whether a field speaks in our name, if the upstream sends it.
pub(super) fn is_marker(name: &str) -> bool {
    name == STATUS_FIELD || name == REPLAYED_FIELD
}

fn rebuilt(headers: &HeaderMap, keep: impl Fn(&str) -> bool) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.keys_len());
    for (name, value) in headers {
        if keep(name.as_str()) {
            let _ = kept.try_append(name.clone(), value.clone());
        }
    }
    kept
}

/// Puts the marker fields on an answer, and exposes them to scripts where the request came from one (`Origin`).
pub(super) fn stamp(headers: &mut HeaderMap, mark: Mark, cors: bool) {
    headers.insert(HeaderName::from_static(STATUS_FIELD), HeaderValue::from_static(mark.word()));
    if mark == Mark::Replayed {
        headers.insert(HeaderName::from_static(REPLAYED_FIELD), HeaderValue::from_static("true"));
    }
    if cors {
        headers.append(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Idempotency-Status, Idempotent-Replayed"),
        );
    }
}

/// The first answer, its body there as a whole.
///
/// Framing fields are left to the server: `Content-Length` is that of the bytes, as on a replay. A HEAD's is kept.
pub(super) fn first(
    parts: response::Parts,
    bytes: Bytes,
    trailers: &HeaderList,
    wants_trailers: bool,
    method: &Method,
) -> Response<Body> {
    let head = method == Method::HEAD;
    let headers = rebuilt(&parts.headers, |name| match name {
        "content-length" => head,
        "transfer-encoding" | "trailer" => false,
        _ => true,
    });
    assemble(parts.status, headers, bytes, trailers, wants_trailers)
}

/// The first answer again. `None` where the record holds none; `arbitrate` does not let such a record come here.
pub(super) fn replay(stored: StoredResponse, rules: &ReplayRules, wants_trailers: bool) -> Option<Response<Body>> {
    let StoredBody::Whole { bytes, trailers } = stored.body else { return None };
    let mut headers = HeaderMap::with_capacity(stored.headers.len());
    for (name, value) in stored.headers {
        // The rules may have changed since the answer was stored.
        if repeats(&name, rules) || name == header::CONTENT_LENGTH {
            let _ = headers.try_append(name, value);
        }
    }
    let trailers: HeaderList = trailers.into_iter().filter(|(name, _)| repeats(name, rules)).collect();
    Some(assemble(stored.status?, headers, bytes, &trailers, wants_trailers))
}

fn assemble(
    status: StatusCode,
    mut headers: HeaderMap,
    bytes: Bytes,
    trailers: &HeaderList,
    wants_trailers: bool,
) -> Response<Body> {
    let names = body::trailer_names(trailers).filter(|_| wants_trailers);
    let body = match names {
        Some(names) => {
            headers.insert(header::TRAILER, names);
            body::with_trailers(bytes, trailers)
        }
        None => body::whole(bytes),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Whether a client takes trailers (RFC 9110 §10.1.4).
pub(super) fn wants_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(header::TE).iter().any(|line| {
        line.as_bytes().split(|&byte| byte == b',').any(|coding| {
            let name = coding.split(|&byte| byte == b';').next().unwrap_or_default();
            name.trim_ascii().eq_ignore_ascii_case(b"trailers")
        })
    })
}

#[cfg(test)]
mod tests;
