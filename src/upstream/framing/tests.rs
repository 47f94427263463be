//! One framing line, in its place.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, StreamBody};

use super::*;
use crate::upstream::BoxError;

fn none() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn five() -> RequestBody {
    Full::new(Bytes::from_static(b"hello")).map_err(|never| match never {}).boxed_unsync()
}

fn unknown() -> RequestBody {
    StreamBody::new(futures_util::stream::pending::<Result<http_body::Frame<Bytes>, BoxError>>()).boxed_unsync()
}

fn framed(method: &str, lines: &[(&str, &str)], body: RequestBody) -> Vec<String> {
    let mut request = Request::builder().method(method).uri("/").body(body).unwrap();
    for (name, value) in lines {
        request.headers_mut().append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    frame(&mut request).unwrap();
    request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

#[test]
fn a_known_length_is_written_down() {
    assert_eq!(framed("POST", &[("a", "1")], five()), ["a: 1", "content-length: 5"]);
    assert_eq!(framed("GET", &[], five()), ["content-length: 5"]);
}

#[test]
fn an_unknown_length_is_chunked() {
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "QUERY"] {
        assert_eq!(framed(method, &[], unknown()), ["transfer-encoding: chunked"], "{method}");
    }
}

#[test]
fn what_was_said_is_replaced_in_its_place() {
    let lines = [("a", "1"), ("transfer-encoding", "chunked"), ("content-length", "7"), ("b", "2"), ("b", "3")];
    assert_eq!(framed("POST", &lines, five()), ["a: 1", "content-length: 5", "b: 2", "b: 3"]);
    assert_eq!(framed("POST", &lines, unknown()), ["a: 1", "transfer-encoding: chunked", "b: 2", "b: 3"]);
    assert_eq!(framed("GET", &[("content-length", "0"), ("b", "2")], none()), ["content-length: 0", "b: 2"]);
    assert_eq!(framed("GET", &[("content-length", "5"), ("content-length", "5")], five()), ["content-length: 5"]);
}

#[test]
fn no_body_needs_a_length_only_where_one_is_usual() {
    for (method, lines) in [("GET", &[][..]), ("HEAD", &[]), ("DELETE", &[]), ("POST", &["content-length: 0"])] {
        assert_eq!(framed(method, &[], none()), lines, "{method}");
    }
}
