//! Tests of `idempotency::response`.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{NotKept, StoredBody, StoredResponse, repeats, replayable};
use crate::idempotency::policy::ReplayRules;

fn name(name: &str) -> HeaderName {
    name.parse().unwrap()
}

fn names(list: &[&str]) -> Vec<HeaderName> {
    list.iter().map(|text| name(text)).collect()
}

fn built_in(field: &str) -> bool {
    repeats(&name(field), &ReplayRules::default())
}

#[test]
fn what_speaks_of_one_exchange_only_is_not_repeated() {
    for field in [
        "Age",
        "Date",
        "Retry-After",
        "RateLimit",
        "RateLimit-Limit",
        "RateLimit-Policy",
        "RateLimit-Remaining",
        "RateLimit-Reset",
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset-Requests",
        "traceparent",
        "tracestate",
        "Server-Timing",
        "X-Request-Id",
        "Request-Id",
        "X-Correlation-Id",
        "X-Amzn-Trace-Id",
        "X-Amzn-RequestId",
        "CF-Ray",
        "Set-Cookie",
    ] {
        assert!(!built_in(field), "{field}");
    }
}

#[test]
fn hop_by_hop_fields_and_framing_are_never_repeated_whatever_the_route_says() {
    for field in [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Content-Length",
        "Idempotency-Status",
        "Idempotent-Replayed",
    ] {
        assert!(!built_in(field), "{field}");
        let keep = ReplayRules { keep_headers: names(&[field]), drop_headers: Vec::new() };
        assert!(!repeats(&name(field), &keep), "{field}");
    }
}

#[test]
fn everything_else_is_repeated() {
    for field in [
        "Content-Type",
        "Content-Encoding",
        "Content-Language",
        "Location",
        "ETag",
        "Last-Modified",
        "Cache-Control",
        "Vary",
        "Link",
        "WWW-Authenticate",
        "Access-Control-Allow-Origin",
        "Server",
        "Via",
        "X-Amz-Id-2",
        "X-RateLimited",
        "X-Rate",
        "Aged",
        "X-Request-Id-Hash",
        "Set-Cookie2",
        "CF-Cache-Status",
        "Traceparent-Like",
    ] {
        assert!(built_in(field), "{field}");
    }
}

#[test]
fn a_route_keeps_what_the_built_in_rules_drop() {
    let rules = ReplayRules { keep_headers: names(&["Set-Cookie", "X-RateLimit-Limit"]), drop_headers: Vec::new() };
    assert!(repeats(&name("set-cookie"), &rules));
    assert!(repeats(&name("x-ratelimit-limit"), &rules));
    assert!(!repeats(&name("x-ratelimit-remaining"), &rules));
}

#[test]
fn a_route_drops_what_the_built_in_rules_keep() {
    let rules = ReplayRules { keep_headers: Vec::new(), drop_headers: names(&["ETag"]) };
    assert!(!repeats(&name("etag"), &rules));
    assert!(repeats(&name("location"), &rules));
}

#[test]
fn what_a_route_both_keeps_and_drops_is_dropped() {
    let rules =
        ReplayRules { keep_headers: names(&["Set-Cookie", "ETag"]), drop_headers: names(&["Set-Cookie", "ETag"]) };
    assert!(!repeats(&name("set-cookie"), &rules));
    assert!(!repeats(&name("etag"), &rules));
}

#[test]
fn the_order_of_lines_is_kept_and_so_are_repeated_ones() {
    let mut headers = HeaderMap::new();
    for (field, value) in [
        ("content-type", "text/plain"),
        ("link", "<1>"),
        ("set-cookie", "a=1"),
        ("x-b", "\u{e9}"),
        ("link", "<2>"),
        ("x-request-id", "7"),
        ("link", "<1>"),
        ("x-a", ""),
    ] {
        headers.append(name(field), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let kept = replayable(&headers, &ReplayRules::default());
    let kept: Vec<(&str, &[u8])> = kept.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(
        kept,
        [
            ("content-type", &b"text/plain"[..]),
            ("link", b"<1>"),
            ("link", b"<2>"),
            ("link", b"<1>"),
            ("x-b", "\u{e9}".as_bytes()),
            ("x-a", b""),
        ]
    );
}

#[test]
fn an_answer_is_not_shown_in_debug_output() {
    let stored = StoredResponse {
        status: None,
        headers: vec![(name("location"), HeaderValue::from_static("/secret"))],
        body: StoredBody::Whole { bytes: Bytes::from_static(b"secret"), trailers: Vec::new() },
    };
    assert_eq!(format!("{stored:?}"), "StoredResponse { status: None, headers: 1 lines, body: 6 bytes, 0 trailers }");
    assert_eq!(format!("{:?}", StoredBody::NotKept(NotKept::Streamed)), "NotKept(streamed)");
}
