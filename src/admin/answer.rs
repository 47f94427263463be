//! What the control plane answers with: text, JSON, or a problem document (RFC 9457).

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

/// An answer before it is put on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Further header lines.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Plain text.
    pub(super) fn text(status: StatusCode, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", headers: Vec::new(), body: body.to_owned() }
    }

    /// A JSON document.
    pub(super) fn json(status: StatusCode, body: &Value) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body: format!("{body}\n") }
    }

    /// A problem that its status names; `detail` says what to do about it.
    pub(super) fn problem(status: StatusCode, detail: &str) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        let body = json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail });
        Self { content_type: "application/problem+json", ..Self::json(status, &body) }
    }

    /// The same answer with one more header line.
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// As a message; hyper leaves the body out where the method was HEAD.
    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers {
            if let Ok(name) = HeaderName::try_from(name) {
                headers.append(name, HeaderValue::from_static(value));
            }
        }
        response
    }
}
