//! Requests that are not valid HTTP never reach the upstream, and nobody smuggles a second one inside a first.

use std::time::Duration;

use crate::harness::{
    client::{Client, Req},
    gate::Gate,
    h2c::H2,
    upstream::{Script, Upstream},
    wire::find,
};

/// Not a key: a byte beyond ASCII.
const BAD_KEY: &str = "\u{e9}";

/// A gate before an upstream that answers 200 to everything.
fn start() -> (Upstream, Gate) {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.answer(200, &[], b"ok")));
    let gate = Gate::before(&upstream).start();
    (upstream, gate)
}

/// Sends each case on a connection of its own; it must be refused with one of these statuses and the connection
/// must be closed. The upstream must see nothing.
fn all_refused(cases: &[(&str, &[u8])], statuses: &[u16]) {
    let (upstream, gate) = start();
    for (name, bytes) in cases {
        let mut client = gate.raw(bytes);
        let answer = client.try_response_to("GET").unwrap_or_else(|| panic!("{name}: no answer"));
        assert!(statuses.contains(&answer.status), "{name}: {answer:?}");
        let (rest, closed) = client.rest();
        assert!(closed, "{name}: the connection stays open");
        assert!(rest.is_empty(), "{name}: a second answer {:?}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(String::from_utf8_lossy(&upstream.bytes()), "", "nothing reaches the upstream");
}

#[test]
fn chunked_wins_over_a_length_and_the_connection_closes() {
    let (upstream, gate) = start();
    let mut client = gate.raw(
        "POST /front HTTP/1.1\r\nHost: api.test\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\nGET /smug HTTP/1.1\r\nHost: api.test\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    client.expect_closed();
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].target, "/front");
    let framing = [requests[0].values("content-length"), requests[0].values("transfer-encoding")].concat();
    assert!(framing.len() <= 1, "{framing:?}");
    assert!(find(&upstream.bytes(), b"smug").is_none());
}

#[test]
fn chunked_wins_over_a_length_under_a_key_too() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let mut client = gate.raw(
        "POST /pay HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer a\r\nIdempotency-Key: k1\r\nContent-Length: 3\r\n\
         Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /smug HTTP/1.1\r\nHost: api.test\r\n\r\n",
    );
    client.response().expect(201, "", "executed");
    client.expect_closed();
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    assert_eq!(upstream.last_request().values("content-length"), ["5"]);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn transfer_codings_that_are_not_exactly_chunked_are_refused() {
    let request = |lines: &str| format!("POST / HTTP/1.1\r\nHost: api.test\r\n{lines}\r\n\r\n0\r\n\r\n").into_bytes();
    let mut odd = request("Transfer-Encoding: Zchunked");
    let at = find(&odd, b"Zchunked").unwrap();
    odd[at] = 0xa0;
    let cases = [
        ("another word", request("Transfer-Encoding: xchunked")),
        ("space before the colon", request("Transfer-Encoding : chunked")),
        ("a space before the line", request(" Transfer-Encoding: chunked")),
        ("identity in a second line", request("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")),
        ("a no-break space", odd),
        ("a vertical tab", request("Transfer-Encoding:\x0bchunked")),
        ("chunked first", request("Transfer-Encoding: chunked, gzip")),
        ("quoted", request("Transfer-Encoding: \"chunked\"")),
        ("empty", request("Transfer-Encoding: ")),
        ("with a length", request("Transfer-Encoding: xchunked\r\nContent-Length: 5")),
    ];
    let cases: Vec<(&str, &[u8])> = cases.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    all_refused(&cases, &[400]);
}

#[test]
fn unknown_codings_before_chunked_are_not_implemented() {
    let request = |lines: &str| format!("POST / HTTP/1.1\r\nHost: api.test\r\n{lines}\r\n\r\n0\r\n\r\n").into_bytes();
    let cases = [
        ("gzip before", request("Transfer-Encoding: gzip, chunked")),
        ("chunked twice", request("Transfer-Encoding: chunked, chunked")),
        ("in two lines", request("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked")),
        ("twice in two lines", request("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")),
    ];
    let cases: Vec<(&str, &[u8])> = cases.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    all_refused(&cases, &[501, 400]);
}

#[test]
fn lengths_that_are_none_are_refused_and_two_equal_ones_are_one() {
    let request = |value: &str| {
        format!("POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: {value}\r\n\r\n1234567").into_bytes()
    };
    let values = [
        "+7",
        "7, 7",
        "7 7",
        "",
        "0x7",
        "-1",
        "7\r\nContent-Length: 6",
        "999999999999999999999999999999",
        "7;x",
        "7,8",
    ];
    let cases: Vec<(&str, Vec<u8>)> = values.iter().map(|value| (*value, request(value))).collect();
    let cases: Vec<(&str, &[u8])> = cases.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    all_refused(&cases, &[400]);

    let (upstream, gate) = start();
    let mut client = gate.raw(request("7\r\nContent-Length: 7"));
    assert_eq!(client.response().status, 200);
    assert_eq!(upstream.last_request().values("content-length"), ["7"]);
    assert_eq!(upstream.last_request().body.bytes, b"1234567");
}

#[test]
fn header_lines_that_are_none_are_refused() {
    let request = |line: &[u8]| [b"GET / HTTP/1.1\r\nHost: api.test\r\n", line, b"\r\n\r\n"].concat();
    let cases = [
        ("a NUL in a value", request(b"X: a\0b")),
        ("a bare CR", request(b"X: a\rb")),
        ("a folded line", request(b"X: a\r\n b")),
        ("a folded line by tab", request(b"X: a\r\n\tb")),
        ("no name", request(b": x")),
        ("no colon", request(b"hello")),
        ("a space in the name", request(b"X Y: 1")),
        ("a space before the colon", request(b"X : 1")),
        ("a byte beyond ASCII in the name", request(b"X\xff: 1")),
        ("a parenthesis in the name", request(b"X(: 1")),
        ("a NUL in the name", request(b"X\0: 1")),
        ("a folded first line", b"GET / HTTP/1.1\r\n Host: api.test\r\n\r\n".to_vec()),
    ];
    let cases: Vec<(&str, &[u8])> = cases.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    all_refused(&cases, &[400]);
}

#[test]
fn a_host_that_is_missing_doubled_or_no_host_is_refused() {
    let request = |lines: &str| format!("GET / HTTP/1.1\r\n{lines}\r\n").into_bytes();
    let cases = [
        ("missing", request("")),
        ("two lines", request("Host: api.test\r\nHost: api.test\r\n")),
        ("two different lines", request("Host: api.test\r\nHost: evil.test\r\n")),
        ("a list", request("Host: a,b\r\n")),
        ("user information", request("Host: user@api.test\r\n")),
        ("a space", request("Host: a b\r\n")),
        ("a path", request("Host: api.test/x\r\n")),
        ("a port that is none", request("Host: api.test:8x\r\n")),
        ("a large port", request("Host: api.test:99999\r\n")),
        ("a question mark", request("Host: api.test?x\r\n")),
        ("a scheme", request("Host: http://api.test\r\n")),
        ("an open bracket", request("Host: [::1\r\n")),
    ];
    let (upstream, gate) = start();
    for (name, bytes) in &cases {
        let mut client = gate.raw(bytes);
        assert_eq!(client.response().status, 400, "{name}");
    }
    assert_eq!(upstream.requests().len(), 0);
    for host in ["api.test", "api.test:8080", "127.0.0.1:1", "[::1]:8080", "[::1]", "API.Test", "a_b.test"] {
        let answer = gate.send(&Req::get("/").host(host));
        assert_eq!(answer.status, 200, "{host}");
        assert_eq!(upstream.last_request().values("host"), [host]);
    }
}

#[test]
fn http_1_0_needs_no_host_and_its_connection_closes() {
    let (upstream, gate) = start();
    let mut client = gate.raw("GET /old HTTP/1.0\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    client.expect_closed();
    let request = upstream.last_request();
    assert!(request.head.start.ends_with(" HTTP/1.1"), "our own version goes out: {}", request.head.start);
    assert_eq!(request.values("host").len(), 1);
    // A transfer coding under HTTP/1.0 is faulty framing.
    let mut client = gate.raw("POST / HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(client.response().status, 400);
    client.expect_closed();
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn targets_in_their_four_forms() {
    let (upstream, gate) = start();
    let line = |line: &str| {
        let mut client = gate.raw(format!("{line} HTTP/1.1\r\nHost: api.test\r\n\r\n"));
        client.response()
    };
    // An absolute target replaces Host.
    assert_eq!(line("GET http://other.test/p?q").status, 200);
    let request = upstream.last_request();
    assert_eq!((request.target.as_str(), request.values("host")), ("/p?q", vec!["other.test"]));
    assert_eq!(line("GET http://other.test:8080").status, 200);
    let request = upstream.last_request();
    assert_eq!((request.target.as_str(), request.values("host")), ("/", vec!["other.test:8080"]));
    assert_eq!(line("GET https://other.test/s").status, 200);
    assert_eq!(upstream.last_request().target, "/s");
    // The asterisk belongs to OPTIONS.
    assert_eq!(line("OPTIONS *").status, 200);
    assert_eq!(upstream.last_request().target, "*");
    let before = upstream.requests().len();
    for refused in [
        "GET ftp://x/",
        "GET api.test:80",
        "GET *",
        "POST *",
        "GET http://user@other.test/",
        "GET http:///p",
        "GET p",
        "GET ",
    ] {
        assert_eq!(line(refused).status, 400, "{refused}");
    }
    assert_eq!(upstream.requests().len(), before);
}

#[test]
fn a_target_goes_on_byte_for_byte() {
    let (upstream, gate) = start();
    for target in
        ["//evil.test/x", "/a//b", "/a/../b", "/%2f%2F", "/a?", "/?", "/%zz", "/a;b=c", "/~%7E", "/a?x=/../y", "/\\"]
    {
        let mut client = gate.raw(format!("GET {target} HTTP/1.1\r\nHost: api.test\r\n\r\n"));
        assert_eq!(client.response().status, 200, "{target}");
        assert_eq!(upstream.last_request().target, target);
    }
}

#[test]
fn connect_is_refused_and_what_follows_it_is_never_a_request() {
    let (upstream, gate) = start();
    let mut client =
        gate.raw("CONNECT internal:22 HTTP/1.1\r\nHost: internal:22\r\n\r\nGET /x HTTP/1.1\r\nHost: api.test\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.status, answer.slug().as_str()), (405, "method-not-allowed"));
    assert!(answer.has("allow"));
    assert_eq!(answer.header("connection"), Some("close"));
    client.expect_closed();
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn trace_is_refused() {
    let (upstream, gate) = start();
    let mut client = gate.connect();
    let answer = client.expect_usable(&Req::new("TRACE", "/").auth("canary"));
    assert_eq!((answer.status, answer.slug().as_str()), (405, "method-not-allowed"));
    assert!(answer.has("allow"));
    assert!(!answer.text().contains("canary"));
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn max_forwards_counts_down_on_options() {
    let (upstream, gate) = start();
    let options = |value: &str| Req::new("OPTIONS", "/p").header("Max-Forwards", value);
    let answer = gate.send(&options("0"));
    assert!((200..300).contains(&answer.status), "the gate answers itself: {answer:?}");
    assert_eq!(upstream.requests().len(), 0);
    gate.send(&options("5"));
    assert_eq!(upstream.last_request().values("max-forwards"), ["4"]);
    // Elsewhere it means nothing.
    gate.send(&Req::get("/p").header("Max-Forwards", "0"));
    assert_eq!(upstream.last_request().values("max-forwards"), ["0"]);
}

#[test]
fn a_loop_is_detected_by_our_own_via() {
    let (upstream, gate) = start();
    gate.send(&Req::get("/"));
    let via = upstream.last_request().values("via").join(", ");
    assert!(via.starts_with("1.1 "), "{via}");
    let looped = gate.send(&Req::get("/").header("Via", &format!("1.1 other, {via}")));
    assert_eq!((looped.status, looped.slug().as_str()), (508, "loop-detected"));
    gate.send(&Req::get("/").header("Via", "1.0 other"));
    assert_eq!(upstream.last_request().values("via").join(", "), format!("1.0 other, {via}"));
    assert_eq!(upstream.requests().len(), 2);
    // The name is drawn per process: another gate is no loop.
    let other = Gate::before(&upstream).start();
    assert_eq!(other.send(&Req::get("/").header("Via", &via)).status, 200);
    assert!(!via.contains(&gate.port().to_string()));
}

#[test]
fn a_chunked_body_of_a_get_arrives() {
    let (upstream, gate) = start();
    let mut client = gate.connect();
    client.expect_usable(&Req::get("/").body("hello").chunked());
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    client.expect_usable(&Req::new("HEAD", "/").body("hello").chunked());
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    client.expect_usable(&Req::new("DELETE", "/").body("hello"));
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    client.expect_usable(&Req::new("POST", "/").body(""));
    assert_eq!(upstream.last_request().body.bytes, b"");
    client.expect_usable(&Req::new("QUERY", "/").body("select"));
    assert_eq!(upstream.last_request().body.bytes, b"select");
}

#[test]
fn expect_100_continue_is_answered_once_the_body_will_be_read() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let request = Req::pay("k1").header("Expect", "100-continue");
    let mut client = gate.raw(request.head_bytes());
    let head = client.next_head().unwrap();
    assert_eq!(head.start, "HTTP/1.1 100 Continue");
    assert_eq!(upstream.connections(), 0, "the gate answers itself");
    client.send(br#"{"amount":1}"#);
    client.response().expect(201, "", "executed");
    assert!(upstream.last_request().values("expect").is_empty());

    // Never before a refusal.
    let refused = [
        Req::pay(BAD_KEY).header("Expect", "100-continue"),
        Req::pay("k2").header("Expect", "100-continue").header("Content-Length", "10737418240"),
        Req::post("/pay").key("k1").header("Expect", "100-continue"),
    ];
    for request in refused {
        let mut client = gate.raw(request.head_bytes());
        let answer = client.response();
        assert!([400, 413].contains(&answer.status), "{answer:?}");
        assert!(answer.interim.is_empty(), "no 100 before a refusal");
    }
    // A replay needs no body in hand, but its request is only the same with it.
    let mut client = gate.raw(Req::pay("k1").header("Expect", "100-continue").bytes());
    client.response().expect(201, "", "replayed");
    assert_eq!(upstream.executions_total(), 1);

    // Never to HTTP/1.0.
    let mut client = gate.raw(
        "POST /pay HTTP/1.0\r\nHost: api.test\r\nAuthorization: Bearer a\r\nIdempotency-Key: k3\r\nExpect: 100-continue\r\n\
         Content-Length: 2\r\n\r\n{}",
    );
    let answer = client.response();
    answer.expect(201, "", "executed");
    assert!(answer.interim.is_empty());
}

#[test]
fn expect_100_continue_of_an_unprotected_upload_is_answered() {
    let (upstream, gate) = start();
    let mut client =
        gate.raw(Req::new("PUT", "/up").header("Expect", "100-continue").header("Content-Length", "2").head_bytes());
    assert_eq!(client.next_head().unwrap().start, "HTTP/1.1 100 Continue");
    client.send(b"{}");
    assert_eq!(client.response().status, 200);
    assert_eq!(upstream.last_request().body.bytes, b"{}");
}

#[test]
fn chunks_that_are_none_never_claim_and_never_end_properly_upstream() {
    let bad_chunks: &[(&str, &[u8])] = &[
        ("a sign", b"+5\r\nhello\r\n0\r\n\r\n"),
        ("a prefix", b"0x5\r\nhello\r\n0\r\n\r\n"),
        ("no size", b"\r\nhello\r\n0\r\n\r\n"),
        ("a huge size", b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        ("no hex", b"zz\r\nhello\r\n0\r\n\r\n"),
        ("too long", b"5\r\nhello!\r\n0\r\n\r\n"),
        ("an underscore", b"5_\r\nhello\r\n0\r\n\r\n"),
        ("a bare LF", b"5\nhello\n0\n\n"),
    ];
    let upstream = Upstream::start(Script::on_head(|exchange| {
        exchange.read_body();
        if exchange.request.body.complete {
            exchange.execute();
        }
        exchange.answer(200, &[], b"");
    }));
    let gate = Gate::before(&upstream).start();
    for (name, body) in bad_chunks {
        let head = Req::new("POST", "/pay").auth("a").key("k1").header("Transfer-Encoding", "chunked").head_bytes();
        let mut client = gate.raw([head.as_slice(), body].concat());
        let answer = client.response();
        assert_eq!(answer.status, 400, "{name}");
        client.expect_closed();
        assert!(upstream.requests().iter().all(|request| request.method != "POST"), "{name}");
        // Unprotected: streamed, so the upstream may have seen its beginning, but never an end.
        let head = Req::new("PUT", "/up").header("Transfer-Encoding", "chunked").head_bytes();
        let mut client = gate.raw([head.as_slice(), body].concat());
        let _ = client.try_response_to("PUT");
    }
    assert_eq!(upstream.executions_total(), 0);
    let upstream_after = Upstream::paying();
    let gate = Gate::before(&upstream_after).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
}

#[test]
fn an_upload_that_breaks_off_is_blamed_on_its_client() {
    // An upstream that waits for the end of what it is sent.
    let upstream = Upstream::start(Script::on_head(|exchange| {
        exchange.read_body();
        if exchange.request.body.complete {
            exchange.answer(200, &[], b"");
        } else {
            exchange.close();
        }
    }));
    let gate = Gate::before(&upstream).start();
    let head = Req::new("PUT", "/up").header("Transfer-Encoding", "chunked").head_bytes();
    let mut client = gate.raw([head.as_slice(), b"5\r\nhello\r\nzz\r\n"].concat());
    let answer = client.response_to("PUT");
    answer.expect(400, "request-invalid", "");
    client.expect_closed();
}

#[test]
fn an_http_1_0_client_is_told_that_an_answer_of_unknown_length_ends_with_the_connection() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.chunked(200, &[]);
        exchange.chunk(b"hello");
        exchange.last_chunk(&[]);
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = gate.raw(b"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.response_to("GET");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    // hyper adds what an HTTP/1.0 client asked for; `close` outranks it (RFC 9112 §9.3).
    assert_eq!(answer.header("connection"), Some("close, keep-alive"));
    client.expect_closed();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        let target = exchange.request.target.clone();
        exchange.answer(200, &[], target.as_bytes());
    }));
    let gate = Gate::before(&upstream).start();
    let mut bytes = Vec::new();
    for index in 0..10 {
        bytes.extend(Req::get(&format!("/{index}")).bytes());
    }
    bytes.extend(Req::pay("k1").bytes());
    bytes.extend(Req::pay("k1").bytes());
    let mut client = gate.raw(bytes);
    for index in 0..10 {
        assert_eq!(client.response().text(), format!("/{index}"));
    }
    client.response().expect(200, "", "executed");
    client.response().expect(200, "", "replayed");
}

#[test]
fn bare_line_feeds_and_leading_empty_lines_are_tolerated() {
    let (upstream, gate) = start();
    let mut client = gate.raw("\r\nGET /a HTTP/1.1\r\nHost: api.test\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let mut client = gate.raw("GET /b HTTP/1.1\nHost: api.test\n\n");
    let answer = client.response();
    assert!([200, 400].contains(&answer.status));
    if answer.status == 200 {
        assert!(find(&upstream.bytes(), b"\n\n").is_none(), "what goes on has proper line ends");
    }
}

#[test]
fn other_versions_are_refused() {
    let (upstream, gate) = start();
    for version in ["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTPS/1.1", "http/1.1"] {
        let mut client = gate.raw(format!("GET / {version}\r\nHost: api.test\r\n\r\n"));
        let answer = client.try_response_to("GET");
        assert!(answer.is_none_or(|answer| [400, 505].contains(&answer.status)), "{version}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn refusals_and_replays_consume_the_body_or_close() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1").body(vec![b'x'; 200_000])).expect(201, "", "executed");
    let smuggled = b"GET /smug HTTP/1.1\r\nHost: api.test\r\n\r\n";
    let body: Vec<u8> = smuggled.iter().copied().cycle().take(200_000).collect();
    let requests = [
        Req::pay("k1").body(vec![b'x'; 200_000]),
        Req::pay("k1").body(body.clone()),
        Req::pay(BAD_KEY).body(body.clone()),
        Req::post("/pay").key("k1").body(body.clone()),
        Req::pay("k2").header("Connection", "Idempotency-Key").body(body),
    ];
    for request in requests {
        let mut client = gate.raw(request.bytes());
        let answer = client.response();
        assert_ne!(answer.status, 200);
        client.send(&Req::get("/next").bytes());
        if let Some(next) = client.try_response_to("GET") {
            assert_eq!(next.text(), "{\"paid\":1}".replace('1', &upstream.executions("/next").to_string()));
        }
    }
    assert!(find(&upstream.bytes(), b"GET /smug").is_none());
}

#[test]
fn over_h2_a_host_that_differs_from_the_authority_is_refused() {
    let (upstream, gate) = start();
    let mut h2 = H2::connect(gate.address());
    let answer = h2.send(H2::request("GET", "/").header("host", "evil.test"), b"");
    assert_eq!((answer.status.as_u16(), answer.slug().as_str()), (400, "request-invalid"));
    assert_eq!(upstream.requests().len(), 0);
    let answer = h2.send(H2::request("GET", "/p?q").header("host", "api.test"), b"");
    assert_eq!(answer.status, 200);
    let request = upstream.last_request();
    assert_eq!((request.target.as_str(), request.values("host")), ("/p?q", vec!["api.test"]));
}

#[test]
fn over_h2_cookies_are_joined_and_bodies_get_a_framing() {
    let (upstream, gate) = start();
    let mut h2 = H2::connect(gate.address());
    h2.send(H2::request("GET", "/").header("cookie", "a=1").header("cookie", "b=2"), b"");
    assert_eq!(upstream.last_request().values("cookie"), ["a=1; b=2"]);
    h2.send(H2::request("PUT", "/").header("content-length", "5"), b"hello");
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    h2.send(H2::request("PUT", "/"), b"hello");
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    h2.send(H2::pay("k1"), b"{}");
    let request = upstream.last_request();
    assert_eq!((request.values("content-length"), request.values("transfer-encoding")), (vec!["2"], vec![]));
    assert_eq!(request.values("via").join("").split(' ').next(), Some("2.0"));
}

#[test]
fn h2_and_http_1_share_keys() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let mut h2 = H2::connect(gate.address());
    let first = h2.send(H2::pay("k1"), br#"{"amount":1}"#);
    assert_eq!(first.header("idempotency-status"), Some("executed"));
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
    let mismatch = h2.send(H2::pay("k1"), b"{}");
    assert_eq!((mismatch.status.as_u16(), mismatch.slug().as_str()), (422, "key-reused"));
    let streams: Vec<_> = (0..20).map(|index| h2.start(H2::request("GET", &format!("/{index}")), true)).collect();
    for stream in streams {
        assert_eq!(h2.finish(stream).unwrap().status, 201);
    }
}

#[test]
fn a_thousand_rapid_resets_do_not_stop_the_gate() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    for _ in 0..4 {
        let mut h2 = H2::connect(gate.address());
        for index in 0..250 {
            // The gate may end the connection: it has every right to.
            if h2.rapid_reset(H2::pay(&format!("k{index}")), b"{}").is_err() {
                break;
            }
        }
    }
    gate.send(&Req::pay("after")).expect(201, "", "executed");
    for index in 0..250 {
        assert!(upstream.executions(&format!("k{index}")) <= 1);
    }
}

#[test]
fn an_error_answer_does_not_spoil_a_kept_connection() {
    let (_upstream, gate) = start();
    let mut client: Client = gate.connect();
    for request in [Req::new("TRACE", "/"), Req::pay(BAD_KEY), Req::get("/"), Req::post("/").key("anonymous")] {
        client.expect_usable(&request);
    }
    assert_eq!(client.expect_usable(&Req::get("/last")).status, 200);
    assert!(client.is_silent_for(Duration::from_millis(10)));
}

#[test]
fn over_h2_connect_is_refused_and_two_keys_are_none() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let mut h2 = H2::connect(gate.address());
    let twice = h2.send(H2::pay("k1").header("idempotency-key", "\"k2\""), b"{}");
    assert_eq!((twice.status.as_u16(), twice.slug().as_str()), (400, "key-invalid"));
    assert_eq!(twice.header("idempotency-status"), Some("not-executed"));
    let mut other = H2::connect(gate.address());
    let connect = http::Request::builder().method("CONNECT").uri("internal:22");
    assert!(other.try_send(connect, b"").is_ok_and(|answer| answer.status == 405));
    assert_eq!(upstream.requests().len(), 0);
    h2.send(H2::pay("k3"), b"{}");
    assert_eq!(upstream.executions("k3"), 1);
}

#[test]
fn http_1_0_clients_are_protected_and_their_connection_closes() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.chunked(201, &[]);
        exchange.chunk(b"paid");
        exchange.last_chunk(&[]);
    }));
    let gate = Gate::before(&upstream).start();
    let request = "POST /pay HTTP/1.0\r\nHost: api.test\r\nAuthorization: Bearer a\r\nIdempotency-Key: k1\r\nTE: trailers\r\n\
         Content-Length: 2\r\n\r\n{}";
    for status in ["executed", "replayed"] {
        let mut client = gate.raw(request);
        let answer = client.response();
        answer.expect(201, "", status);
        assert_eq!(answer.text(), "paid");
        assert!(!answer.has("transfer-encoding"), "no chunks to HTTP/1.0");
        client.expect_closed();
    }
    // The same over 1.1, and unprotected without a length to 1.0.
    gate.send(&Req::new("POST", "/pay").auth("a").key("k1").body("{}")).expect(201, "", "replayed");
    let mut client = gate.raw("GET / HTTP/1.0\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.text().as_str(), answer.has("transfer-encoding")), ("paid", false));
    assert_eq!(upstream.executions("k1"), 1);
}

/// Requests with a few bytes changed, cut or doubled at places that a fixed sequence draws: whatever they are, the
/// gate answers or closes, and lives. What reaches the upstream is always valid.
#[test]
fn mutilated_requests_never_harm_the_gate() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .set("server", "header_timeout = \"200ms\"")
        .set("server", "body_timeout = \"200ms\"")
        .set("server", "idle_timeout = \"200ms\"")
        .start();
    let seeds = [
        Req::pay("k1").header("Connection", "keep-alive").bytes(),
        Req::pay("k2").chunked().bytes(),
        Req::get("/x?y").header("TE", "trailers").bytes(),
        Req::post("http://api.test/pay").auth("a").key("k3").header("Expect", "100-continue").bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
    ];
    let answers = crate::harness::client::parallel(8, |worker| {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ (worker as u64 + 1);
        let mut draw = |below: usize| {
            // xorshift64: the same sequence in every run.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below as u64).unwrap()
        };
        let interesting = b"\0\r\n :;,\"\\\xff\x7f09az/?#%{";
        let mut answered = 0;
        for round in 0..60 {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..=draw(3) {
                let at = draw(bytes.len());
                match draw(4) {
                    0 => bytes[at] = interesting[draw(interesting.len())],
                    1 => bytes.truncate(at + 1),
                    2 => bytes.insert(at, interesting[draw(interesting.len())]),
                    _ => {
                        let piece = bytes[at..].to_vec();
                        bytes.extend(piece);
                    }
                }
            }
            let mut client = gate.raw(&bytes);
            client.half_close();
            answered += usize::from(!client.rest().0.is_empty());
        }
        answered
    });
    assert!(answers.iter().sum::<usize>() > 100, "{answers:?}");
    gate.send(&Req::pay("after")).expect(201, "", "executed");
    for request in upstream.requests() {
        assert_eq!(request.values("host").len(), 1, "{request:?}");
        assert!(request.values("content-length").len() + request.values("transfer-encoding").len() <= 1, "{request:?}");
    }
}
