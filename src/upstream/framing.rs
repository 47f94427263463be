//! How the body of a request is delimited on the wire (RFC 9112 §6): written from what the body is, never copied.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request,
    header::{CONTENT_LENGTH, MaxSizeReached, TRANSFER_ENCODING},
};
use http_body::Body;

use super::RequestBody;

/// Replaces `Content-Length` and `Transfer-Encoding` by the one line that fits the body, in place of the first of them.
/// Without this hyper would drop the body of a GET of unknown length.
///
/// # Errors
/// When the head has no room for the line.
pub(super) fn frame(request: &mut Request<RequestBody>) -> Result<(), MaxSizeReached> {
    let length = if request.body().is_end_stream() { Some(0) } else { request.body().size_hint().exact() };
    // An empty body needs no length, unless its sender gave one, or the method is one that usually has a body (RFC 9110
    // §8.6).
    let usual = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    let headers = request.headers_mut();
    let said = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
    let (name, value) = match length {
        Some(0) if !said && !usual => return Ok(()),
        Some(length) => (CONTENT_LENGTH, HeaderValue::from(length)),
        None => (TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
    };
    if said {
        *headers = reframed(headers, &name, &value);
    } else {
        headers.try_insert(name, value)?;
    }
    Ok(())
}

/// Rebuilt rather than edited: a removal would disturb the order.
fn reframed(received: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> HeaderMap {
    let mut framed = HeaderMap::with_capacity(received.keys_len());
    for field in received.keys() {
        if field == CONTENT_LENGTH || field == TRANSFER_ENCODING {
            // The second of the two finds the line in its place already.
            framed.insert(name, value.clone());
        } else {
            for value in received.get_all(field) {
                framed.append(field, value.clone());
            }
        }
    }
    framed
}

#[cfg(test)]
mod tests;
