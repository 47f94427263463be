//! What a first answer and a replay carry.

use http::HeaderName;
use http_body_util::BodyExt;

use super::*;

fn list(fields: &[(&'static str, &'static str)]) -> HeaderList {
    fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in list(fields) {
        map.append(name, value);
    }
    map
}

fn lines(headers: &HeaderMap) -> Vec<String> {
    headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

fn parts(headers: HeaderMap) -> response::Parts {
    let mut response = Response::new(());
    *response.headers_mut() = headers;
    response.into_parts().0
}

#[test]
fn the_upstreams_own_markers_are_dropped_and_the_order_of_the_rest_stays() {
    let headers =
        map(&[("b", "1"), ("idempotency-status", "executed"), ("a", "2"), ("idempotent-replayed", "true"), ("b", "3")]);
    assert_eq!(lines(&without_markers(headers)), ["b: 1", "b: 3", "a: 2"]);
}

#[test]
fn markers_are_exposed_to_scripts_beside_what_the_upstream_exposes() {
    let mut headers = map(&[("access-control-expose-headers", "ETag")]);
    stamp(&mut headers, Mark::Replayed, true);
    assert_eq!(
        lines(&headers),
        [
            "access-control-expose-headers: ETag",
            "access-control-expose-headers: Idempotency-Status, Idempotent-Replayed",
            "idempotency-status: replayed",
            "idempotent-replayed: true",
        ]
    );
}

#[test]
fn only_replays_say_replayed() {
    for mark in [
        Mark::Executed,
        Mark::InProgress,
        Mark::Mismatch,
        Mark::Unknown,
        Mark::Unrecorded,
        Mark::Unprotected,
        Mark::Released,
        Mark::NotExecuted,
    ] {
        let mut headers = HeaderMap::new();
        stamp(&mut headers, mark, false);
        assert_eq!(lines(&headers), [format!("idempotency-status: {}", mark.word())]);
    }
}

#[tokio::test]
async fn trailers_go_to_clients_that_take_them() {
    let trailers = list(&[("grpc-status", "0"), ("x-sum", "1"), ("x-sum", "2")]);
    let with = first(parts(HeaderMap::new()), Bytes::from_static(b"hi"), &trailers, true, &Method::POST);
    assert_eq!(lines(with.headers()), ["trailer: grpc-status, x-sum"]);
    let collected = with.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().map(lines).unwrap(), ["grpc-status: 0", "x-sum: 1", "x-sum: 2"]);
    let without = first(parts(HeaderMap::new()), Bytes::from_static(b"hi"), &trailers, false, &Method::POST);
    assert_eq!(lines(without.headers()), Vec::<String>::new());
    assert!(without.into_body().collect().await.unwrap().trailers().is_none());
}

#[test]
fn framing_is_that_of_the_bytes_but_for_head() {
    let headers = map(&[("content-length", "9"), ("transfer-encoding", "chunked"), ("trailer", "x"), ("etag", "1")]);
    let post = first(parts(headers.clone()), Bytes::new(), &Vec::new(), false, &Method::POST);
    assert_eq!(lines(post.headers()), ["etag: 1"]);
    let head = first(parts(headers), Bytes::new(), &Vec::new(), false, &Method::HEAD);
    assert_eq!(lines(head.headers()), ["content-length: 9", "etag: 1"]);
}

#[test]
fn a_replay_repeats_what_the_rules_of_today_let_through() {
    let stored = StoredResponse {
        status: Some(StatusCode::CREATED),
        headers: list(&[("x-b", "1"), ("etag", "e"), ("x-b", "2")]),
        body: StoredBody::Whole { bytes: Bytes::from_static(b"x"), trailers: Vec::new() },
    };
    let rules = ReplayRules { drop_headers: vec![HeaderName::from_static("etag")], keep_headers: Vec::new() };
    let replayed = replay(stored, &rules, false).unwrap();
    assert_eq!(replayed.status(), 201);
    assert_eq!(lines(replayed.headers()), ["x-b: 1", "x-b: 2"]);
}

#[test]
fn te_is_a_list() {
    assert!(wants_trailers(&map(&[("te", "gzip;q=0.5, Trailers")])));
    assert!(wants_trailers(&map(&[("te", "gzip"), ("te", "trailers;q=1")])));
    assert!(!wants_trailers(&map(&[("te", "xtrailers")])));
}
