//! A retry gets the first answer: status, header lines in order, bytes, and nothing that belonged to the first
//! exchange only.

use crate::harness::{
    backend::{Backend, each_durable_store, each_store},
    client::{Req, Response, trailer},
    gate::Gate,
    h2c::H2,
    upstream::{Script, Upstream},
};

each_store! {
    a_retry_gets_the_status_the_lines_and_the_bytes_of_the_first_answer => same_answer;
    an_answer_without_a_body_is_replayed_without_one => bodyless;
    trailers_are_replayed_to_clients_that_take_them => trailers;
    trailers_obey_the_rules_of_header_lines => trailer_rules;
    a_replay_over_h2_is_the_same_answer => over_h2;
}

each_durable_store! {
    a_replay_outlives_the_gate => outlives;
}

/// The lines of the first answer, and whether a replay repeats them.
const LINES: &[(&str, &str, bool)] = &[
    ("Content-Type", "application/vnd.api+json; charset=utf-8", true),
    ("Location", "/payments/17", true),
    ("ETag", "\"v1\"", true),
    ("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT", true),
    ("Cache-Control", "private, max-age=60", true),
    ("Vary", "Accept", true),
    ("Vary", "Accept-Language", true),
    ("Link", "</a>; rel=next", true),
    ("Link", "</b>; rel=prev", true),
    ("Content-Language", "de", true),
    ("Content-Encoding", "gzip", true),
    ("Access-Control-Allow-Origin", "*", true),
    ("X-Request-Cost", "3", true),
    ("X-Latin", "caf\u{e9}", true),
    ("X-Empty", "", true),
    ("Server", "legacy/1.0", true),
    ("Date", "Mon, 01 Jan 2001 00:00:00 GMT", false),
    ("Age", "7", false),
    ("Retry-After", "5", false),
    ("RateLimit", "\"default\";r=50;t=30", false),
    ("RateLimit-Policy", "\"default\";q=100;w=10", false),
    ("RateLimit-Remaining", "9", false),
    ("X-RateLimit-Limit", "100", false),
    ("X-RateLimit-Reset", "1", false),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
    ("tracestate", "a=b", false),
    ("Server-Timing", "db;dur=53", false),
    ("X-Request-Id", "r-1", false),
    ("Request-Id", "r-2", false),
    ("X-Correlation-Id", "r-3", false),
    ("X-Amzn-RequestId", "r-4", false),
    ("X-Amzn-Trace-Id", "r-5", false),
    ("CF-Ray", "r-6", false),
    ("Set-Cookie", "session=1; HttpOnly", false),
    ("Set-Cookie", "theme=dark", false),
];

/// Fields of the connection between gate and upstream: no client ever sees them.
const HOP_BY_HOP: &[(&str, &str)] = &[
    ("Connection", "X-Hop, keep-alive"),
    ("X-Hop", "1"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Connection", "keep-alive"),
    ("Idempotency-Status", "forged"),
    ("Idempotent-Replayed", "true"),
];

/// Every byte there is, so that nothing in between may think it is text.
fn all_bytes() -> Vec<u8> {
    (0..=255).cycle().take(5000).collect()
}

fn rich() -> Script {
    Script::on_request(|exchange| {
        exchange.execute();
        let lines: Vec<(&str, &str)> = LINES.iter().map(|&(name, value, _)| (name, value)).collect();
        let mut head = b"HTTP/1.1 201 Created\r\n".to_vec();
        for (name, value) in lines.iter().chain(HOP_BY_HOP) {
            head.extend_from_slice(format!("{name}: ").as_bytes());
            head.extend(value.chars().map(|c| u8::try_from(u32::from(c)).unwrap()));
            head.extend_from_slice(b"\r\n");
        }
        let body = all_bytes();
        head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        head.extend_from_slice(&body);
        exchange.send(&head);
    })
}

/// Names in lower case and values, in order, without those that the gate itself adds.
fn lines(answer: &Response) -> Vec<(String, String)> {
    let own = ["date", "content-length", "idempotency-status", "idempotent-replayed"];
    let lines = answer.head.lines.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    lines.filter(|(name, _)| !own.contains(&name.as_str())).collect()
}

fn expected(replay: bool) -> Vec<(String, String)> {
    let kept = LINES.iter().filter(|&&(name, _, kept)| name != "Date" && (kept || !replay));
    kept.map(|&(name, value, _)| (name.to_ascii_lowercase(), value.to_owned())).collect()
}

fn same_answer(backend: &Backend) {
    let upstream = Upstream::start(rich());
    let gate = backend.gate(&upstream).start();
    let mut client = gate.connect();
    let first = client.expect_usable(&Req::pay("k1"));
    first.expect(201, "", "executed");
    assert!(!first.has("idempotent-replayed"), "what the upstream says under this name is dropped");
    assert_eq!(first.headers("idempotency-status"), ["executed"]);
    assert_eq!(lines(&first), expected(false));
    assert_eq!(first.headers("date"), ["Mon, 01 Jan 2001 00:00:00 GMT"]);
    assert_eq!(first.body, all_bytes());

    for _ in 0..3 {
        let replay = client.expect_usable(&Req::pay("k1"));
        replay.expect(201, "", "replayed");
        assert_eq!(replay.headers("idempotent-replayed"), ["true"]);
        assert_eq!(replay.headers("idempotency-status"), ["replayed"]);
        assert_eq!(lines(&replay), expected(true));
        assert_eq!(replay.headers("content-length"), ["5000"]);
        let date = replay.headers("date");
        assert_eq!(date.len(), 1);
        assert_ne!(date, ["Mon, 01 Jan 2001 00:00:00 GMT"], "a replay has a fresh date");
        assert_eq!(replay.body, all_bytes());
    }
    assert_eq!(upstream.executions("k1"), 1);
}

fn bodyless(backend: &Backend) {
    let upstream = Upstream::paying();
    let gate = backend.gate(&upstream).start();
    for status in [200, 204, 304] {
        upstream.set(Script::on_request(move |exchange| {
            exchange.execute();
            exchange.answer(status, &[("ETag", "\"1\"")], b"");
        }));
        let key = status.to_string();
        let mut client = gate.connect();
        client.expect_usable(&Req::pay(&key)).expect(status, "", "executed");
        let replay = client.expect_usable(&Req::pay(&key));
        replay.expect(status, "", "replayed");
        assert_eq!((replay.body.len(), replay.header("etag")), (0, Some("\"1\"")));
        // A body where none belongs would be read as the next answer.
        client.expect_usable(&Req::pay(&key)).expect(status, "", "replayed");
        assert_eq!(upstream.executions(&key), 1);
    }
}

fn trailers(backend: &Backend) {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.chunked(200, &[("Trailer", "X-Sum")]);
        exchange.chunk(b"hello ");
        exchange.chunk(b"world");
        exchange.last_chunk(&[("X-Sum", "11")]);
    }));
    let gate = backend.gate(&upstream).start();
    let request = Req::pay("k1").header("TE", "trailers").header("Connection", "TE");
    for status in ["executed", "replayed", "replayed"] {
        let answer = gate.send(&request);
        answer.expect(200, "", status);
        assert_eq!(answer.text(), "hello world");
        assert_eq!(trailer(&answer, "x-sum"), ["11"]);
    }
    let answer = gate.send(&Req::pay("k1"));
    assert_eq!((answer.text().as_str(), answer.trailers.len(), answer.complete), ("hello world", 0, true));
    assert_eq!(upstream.executions("k1"), 1);
}

fn trailer_rules(backend: &Backend) {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        let names = "X-Sum, Idempotency-Status, Idempotent-Replayed, X-Request-Id";
        exchange.chunked(200, &[("Trailer", names)]);
        exchange.chunk(b"hello");
        exchange.last_chunk(&[
            ("X-Sum", "5"),
            ("Idempotency-Status", "forged"),
            ("Idempotent-Replayed", "true"),
            ("X-Request-Id", "r-1"),
        ]);
    }));
    let gate = backend.gate(&upstream).start();
    let request = Req::pay("k1").header("TE", "trailers").header("Connection", "TE");
    for (status, request_ids) in [("executed", &["r-1"][..]), ("replayed", &[])] {
        let answer = gate.send(&request);
        answer.expect(200, "", status);
        assert_eq!(trailer(&answer, "x-sum"), ["5"]);
        assert_eq!(trailer(&answer, "x-request-id"), request_ids);
        assert!(trailer(&answer, "idempotency-status").is_empty(), "{answer:?}");
        assert!(trailer(&answer, "idempotent-replayed").is_empty(), "{answer:?}");
    }
}

fn over_h2(backend: &Backend) {
    let upstream = Upstream::start(rich());
    let gate = backend.gate(&upstream).start();
    let body = br#"{"amount":1}"#;
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let mut h2 = H2::connect(gate.address());
    let replay = h2.send(H2::pay("k1"), body);
    assert_eq!(replay.status, 201);
    assert_eq!(replay.header("idempotency-status"), Some("replayed"));
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(replay.header("location"), Some("/payments/17"));
    assert_eq!(replay.headers.get_all("link").iter().count(), 2);
    assert!(!replay.headers.contains_key("connection"));
    assert!(!replay.headers.contains_key("set-cookie"));
    assert_eq!(replay.body, all_bytes());
    let first = h2.send(H2::pay("k2"), body);
    assert_eq!(first.header("idempotency-status"), Some("executed"));
    gate.send(&Req::pay("k2")).expect(201, "", "replayed");
    assert_eq!(upstream.executions_total(), 2);
}

fn outlives(backend: &Backend) {
    let upstream = Upstream::start(rich());
    let mut gate = backend.gate(&upstream).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    // The answer was seen: from then on even a crash cannot lose it.
    gate.kill_9();
    gate.restart();
    let replay = gate.send(&Req::pay("k1"));
    replay.expect(201, "", "replayed");
    assert_eq!(lines(&replay), expected(true));
    assert_eq!(replay.body, all_bytes());
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_route_keeps_and_drops_the_lines_it_names() {
    let upstream = Upstream::start(rich());
    let gate = Gate::before(&upstream)
        .defaults(
            "replay = { keep_headers = [\"set-cookie\", \"X-Request-Id\"], drop_headers = [\"Server\", \"etag\"] }",
        )
        .start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let replay = gate.send(&Req::pay("k1"));
    assert_eq!(replay.headers("set-cookie"), ["session=1; HttpOnly", "theme=dark"]);
    assert_eq!(replay.headers("x-request-id"), ["r-1"]);
    assert!(!replay.has("server") && !replay.has("etag"));
    assert!(!replay.has("cf-ray"), "what is not named stays as it was");
}

#[test]
fn conditions_and_ranges_of_a_retry_do_not_change_its_replay() {
    let upstream = Upstream::start(rich());
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let retry = Req::pay("k1").header("If-None-Match", "\"v1\"").header("Range", "bytes=0-1");
    let replay = gate.send(&retry);
    replay.expect(201, "", "replayed");
    assert_eq!(replay.body, all_bytes());
}

#[test]
fn a_key_is_free_again_when_its_retention_ends() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .set("upstream", "response_timeout = \"1s\"")
        .set("upstream", "max_execution = \"1s\"")
        .defaults("lease = \"1s\"")
        .defaults("retention = \"1500ms\"")
        .start();
    let first = gate.send(&Req::pay("k1"));
    first.expect(201, "", "executed");
    let mut answer = gate.send(&Req::pay("k1"));
    answer.expect(201, "", "replayed");
    gate.wait_until("the retention ends", || {
        answer = gate.send(&Req::pay("k1"));
        answer.idempotency() != "replayed"
    });
    answer.expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 2);
}

#[test]
fn a_close_delimited_answer_is_replayed_with_a_length() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.send(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end");
        exchange.close();
    }));
    let gate = Gate::before(&upstream).start();
    assert_eq!(gate.send(&Req::pay("k1")).expect(200, "", "executed").text(), "until the end");
    let mut client = gate.connect();
    let replay = client.expect_usable(&Req::pay("k1"));
    replay.expect(200, "", "replayed");
    assert_eq!((replay.text().as_str(), replay.header("content-length")), ("until the end", Some("13")));
    client.expect_usable(&Req::pay("k1")).expect(200, "", "replayed");
}

#[test]
fn the_original_reason_does_not_decide_and_an_unusual_status_is_kept() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.send(b"HTTP/1.1 299 Warmly Accepted\r\nContent-Length: 2\r\n\r\nok");
    }));
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1")).expect(299, "", "executed");
    gate.send(&Req::pay("k1")).expect(299, "", "replayed");
}
