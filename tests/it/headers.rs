//! What the upstream sees of a request's header lines, and a client of an answer's.

use crate::harness::{
    client::Req,
    gate::Gate,
    h2c::H2,
    upstream::{Script, Upstream, pairs},
};

fn start() -> (Upstream, Gate) {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.answer(200, &[], b"ok")));
    let gate = Gate::before(&upstream).start();
    (upstream, gate)
}

#[test]
fn letters_and_order_of_header_names_are_kept_towards_the_upstream() {
    let (upstream, gate) = start();
    let lines = [
        ("X-ODD-Case", "1"),
        ("accept", "*/*"),
        ("SOAPAction", "\"urn:x\""),
        ("X-Repeated", "1"),
        ("X-Repeated", "2"),
        ("user-AGENT", "t"),
        ("aUtHoRiZaTiOn", "Bearer a"),
    ];
    for key in [None, Some("\"k1\"")] {
        let mut request = lines.iter().fold(Req::post("/x"), |request, (name, value)| request.header(name, value));
        if let Some(key) = key {
            request = request.header("IDEMPOTENCY-Key", key);
        }
        assert_eq!(gate.send(&request).status, 200);
        let seen = upstream.last_request();
        let mut sent: Vec<&str> =
            ["Host", "Content-Type"].into_iter().chain(lines.iter().map(|(name, _)| *name)).collect();
        if key.is_some() {
            sent.push("IDEMPOTENCY-Key");
        }
        let added = ["via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "content-length"];
        let names: Vec<&str> =
            seen.names().into_iter().filter(|name| !added.contains(&name.to_ascii_lowercase().as_str())).collect();
        assert_eq!(names, sent);
        assert_eq!(seen.values("x-repeated"), ["1", "2"]);
    }
}

#[test]
fn hop_by_hop_fields_end_here_in_both_directions() {
    let (upstream, gate) = start();
    let request = Req::get("/")
        .header("Connection", "X-Foo, keep-alive")
        .header("Connection", "x-bar")
        .header("X-Foo", "1")
        .header("X-Bar", "1")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Connection", "keep-alive")
        .header("Proxy-Authorization", "Basic canary")
        .header("TE", "gzip, trailers")
        .header("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")
        .header("Upgrade", "h2c")
        .header("X-Kept", "1");
    gate.send(&request);
    let seen = upstream.last_request();
    for name in ["x-foo", "x-bar", "keep-alive", "proxy-connection", "proxy-authorization", "http2-settings", "upgrade"]
    {
        assert!(seen.values(name).is_empty(), "{name} reached the upstream");
    }
    assert_eq!(seen.values("x-kept"), ["1"]);
    let te = seen.values("te");
    assert!(te.is_empty() || te == ["trailers"], "{te:?}");

    upstream.set(Script::on_request(|exchange| {
        let lines = [
            ("Connection", "X-Foo"),
            ("Connection", "x-bar"),
            ("X-Foo", "1"),
            ("X-Bar", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "x"),
            ("Upgrade", "h2c"),
            ("X-Kept", "1"),
        ];
        exchange.answer(200, &lines, b"ok");
    }));
    for request in [Req::get("/"), Req::pay("k1"), Req::pay("k1")] {
        let answer = gate.send(&request);
        for name in ["x-foo", "x-bar", "keep-alive", "proxy-connection", "upgrade"] {
            assert!(!answer.has(name), "{name} reached the client: {answer:?}");
        }
        assert_eq!(answer.header("x-kept"), Some("1"));
        assert!(!answer.headers("connection").concat().to_lowercase().contains("x-foo"));
    }
}

#[test]
fn a_nominated_field_is_no_trailer_either() {
    let (upstream, gate) = start();
    let mut client = gate.raw(
        "PUT / HTTP/1.1\r\nHost: api.test\r\nConnection: X-Foo\r\nTrailer: X-Foo, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Foo: 1\r\nX-Sum: 5\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    assert_eq!(upstream.last_request().body.bytes, b"hello");
    let trailers = upstream.last_request().body.trailers;
    assert!(pairs(&trailers).iter().all(|(name, _)| !name.eq_ignore_ascii_case("x-foo")), "{trailers:?}");
}

#[test]
fn request_trailers_never_become_headers_key_or_caller() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let request = |trailers: &str| {
        format!(
            "POST /pay HTTP/1.1\r\nHost: api.test\r\nTrailer: Idempotency-Key, Authorization, X-Sum\r\n\
             Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{trailers}\r\n"
        )
    };
    // Unprotected: the key in a trailer is no key.
    let mut client =
        gate.raw(request("Idempotency-Key: k1\r\nAuthorization: Bearer a\r\nX-Forwarded-For: 6.6.6.6\r\nX-Sum: 1\r\n"));
    client.response().expect(201, "", "");
    let seen = upstream.last_request();
    assert!(seen.values("idempotency-key").is_empty() && seen.values("authorization").is_empty());
    let names: Vec<String> = seen.body.trailers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    for name in ["authorization", "x-forwarded-for", "content-length", "transfer-encoding", "host"] {
        assert!(!names.iter().any(|seen| seen == name), "{name} is not forwarded as a trailer: {names:?}");
    }
    // Protected: they are dropped.
    let mut client = gate.raw(
        "POST /pay HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer a\r\nIdempotency-Key: k2\r\nTrailer: X-Sum\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    client.response().expect(201, "", "executed");
    let seen = upstream.last_request();
    assert!(seen.body.trailers.is_empty() && seen.values("transfer-encoding").is_empty());
    assert_eq!(seen.values("content-length"), ["2"]);
}

#[test]
fn forwarding_fields_of_an_untrusted_peer_are_replaced_with_their_twins() {
    let (upstream, gate) = start();
    let request = Req::get("/")
        .header("Forwarded", "for=6.6.6.6")
        .header("X-Forwarded-For", "6.6.6.6")
        .header("X-Forwarded-Host", "evil.test")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Port", "443")
        .header("X_Forwarded_For", "6.6.6.6")
        .header("X_FORWARDED_HOST", "evil.test");
    gate.send(&request);
    let seen = upstream.last_request();
    assert_eq!(seen.values("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(seen.values("x-forwarded-host"), ["api.test"]);
    assert_eq!(seen.values("x-forwarded-proto"), ["http"]);
    let raw = String::from_utf8_lossy(&seen.head.raw).into_owned();
    assert!(!raw.contains("6.6.6.6") && !raw.contains("evil.test") && !raw.contains("443"), "{raw}");
}

#[test]
fn a_trusted_peer_is_believed_and_appended_to() {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.answer(200, &[], b"ok")));
    let gate = Gate::before(&upstream).set("server", "trusted_proxies = [\"127.0.0.0/8\"]").start();
    let request = Req::get("/")
        .header("X-Forwarded-For", "9.9.9.9")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "public.test");
    gate.send(&request);
    let seen = upstream.last_request();
    assert_eq!(seen.values("x-forwarded-for").join(", "), "9.9.9.9, 127.0.0.1");
    assert_eq!(seen.values("x-forwarded-proto"), ["https"]);
    assert_eq!(seen.values("x-forwarded-host"), ["public.test"]);
}

#[test]
fn forwarding_styles_are_a_choice() {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.answer(200, &[], b"ok")));
    for (style, forwarded, x_forwarded) in
        [("forwarded", true, false), ("both", true, true), ("none", false, false), ("x-forwarded", false, true)]
    {
        let gate = Gate::before(&upstream).set("upstream", &format!("forwarded = {style:?}")).start();
        gate.send(&Req::get("/").header("Forwarded", "for=6.6.6.6").header("X-Forwarded-For", "6.6.6.6"));
        let seen = upstream.last_request();
        assert_eq!(seen.values("forwarded").len(), usize::from(forwarded), "{style}");
        assert_eq!(seen.values("x-forwarded-for").len(), usize::from(x_forwarded), "{style}");
        if forwarded {
            let value = seen.value("forwarded").unwrap().to_ascii_lowercase();
            assert!(
                value.contains("for=127.0.0.1") && value.contains("host=api.test") && value.contains("proto=http"),
                "{value}"
            );
        }
    }
}

#[test]
fn the_host_is_kept_or_replaced() {
    let (upstream, gate) = start();
    gate.send(&Req::get("/").host("public.test:81"));
    assert_eq!(upstream.last_request().values("host"), ["public.test:81"]);
    let gate = Gate::before(&upstream).set("upstream", "host = \"upstream\"").start();
    gate.send(&Req::get("/").host("public.test"));
    assert_eq!(upstream.last_request().values("host"), [upstream.address().to_string()]);
    assert_eq!(upstream.last_request().values("x-forwarded-host"), ["public.test"]);
}

#[test]
fn odd_answers_of_the_upstream_come_out_well_framed() {
    let (upstream, gate) = start();
    let raw = |bytes: &'static [u8]| {
        Script::on_request(move |exchange| {
            exchange.send(bytes);
            exchange.close();
        })
    };
    // A length beside chunked: chunked wins.
    upstream.set(raw(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
    ));
    let mut client = gate.connect();
    let answer = client.expect_usable(&Req::get("/"));
    assert_eq!((answer.text().as_str(), answer.complete), ("0123456789", true));
    upstream.set(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    assert_eq!(client.expect_usable(&Req::get("/")).text(), "ok");
    // Not HTTP: 502, and nothing of it.
    let broken: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\n folded\r\nContent-Length: 0\r\n\r\n",
        b"hello\r\n\r\n",
        b"",
    ];
    for bytes in broken {
        upstream.set(raw(bytes));
        let answer = gate.send(&Req::get("/"));
        assert_eq!((answer.status, answer.idempotency()), (502, ""), "{:?}", String::from_utf8_lossy(bytes));
    }
    // Bytes behind an answer are never the next one.
    upstream.set(Script::on_request(|exchange| {
        exchange.answer(200, &[], b"mine");
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
    }));
    for _ in 0..3 {
        let answer = gate.send(&Req::get("/"));
        assert_ne!(answer.text(), "forged");
    }
}

#[test]
fn answers_without_a_body_keep_the_connection_usable() {
    let (upstream, gate) = start();
    let mut client = gate.connect();
    upstream.set(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 123\r\nETag: \"x\"\r\n\r\n");
    }));
    let answer = client.expect_usable(&Req::new("HEAD", "/"));
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("123")));
    for head in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"] {
        upstream.set(Script::on_request(move |exchange| {
            exchange.send(head.as_bytes());
        }));
        let answer = client.expect_usable(&Req::get("/"));
        assert_eq!(answer.body, b"");
    }
    upstream.set(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        exchange.answer(200, &[], b"final");
    }));
    assert_eq!(client.expect_usable(&Req::get("/")).text(), "final");
    client.expect_usable(&Req::pay("k1")).expect(200, "", "executed");
    client.expect_usable(&Req::pay("k1")).expect(200, "", "replayed");
}

#[test]
fn many_and_large_answer_headers_pass() {
    let (upstream, gate) = start();
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        let names: Vec<String> = (0..400).map(|index| format!("X-{index}")).collect();
        let mut lines: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        let large = "x".repeat(20_000);
        lines.push(("X-Large", &large));
        exchange.answer(200, &lines, b"ok");
    }));
    for request in [Req::get("/"), Req::pay("k1"), Req::pay("k1")] {
        let answer = gate.send(&request);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-399"), Some("v"));
        assert_eq!(answer.header("x-large").map(str::len), Some(20_000));
    }
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn the_connection_to_the_client_is_not_the_upstreams_business() {
    let (upstream, gate) = start();
    upstream.set(Script::on_request(|exchange| {
        exchange.answer(200, &[("Connection", "close")], b"ok");
        exchange.close();
    }));
    let mut client = gate.connect();
    for _ in 0..3 {
        assert_eq!(client.expect_usable(&Req::get("/")).status, 200);
    }
    // And the client's wish to close is not forwarded.
    upstream.set(Script::on_request(|exchange| exchange.answer(200, &[], b"ok")));
    let mut client = Req::get("/").header("Connection", "close").begin(gate.address());
    let answer = client.response();
    assert_eq!(answer.status, 200);
    client.expect_closed();
    assert!(upstream.last_request().values("connection").iter().all(|value| !value.contains("close")));
}

#[test]
fn h2_answers_carry_no_connection_fields() {
    let (upstream, gate) = start();
    upstream.set(Script::on_request(|exchange| {
        exchange.answer(200, &[("Connection", "X-Foo"), ("X-Foo", "1"), ("Keep-Alive", "x"), ("X-Kept", "1")], b"ok");
    }));
    let mut h2 = H2::connect(gate.address());
    let answer = h2.send(H2::request("GET", "/"), b"");
    assert_eq!(answer.body, b"ok");
    assert!(
        answer.header("connection").is_none()
            && answer.header("x-foo").is_none()
            && answer.header("keep-alive").is_none()
    );
    assert_eq!(answer.header("x-kept"), Some("1"));
}
