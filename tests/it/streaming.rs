//! What streams through: events, tunnels, trailers. Nothing waits for an end that may never come.

use std::time::Duration;

use crate::harness::{
    client::{Req, trailer},
    gate::{Gate, GateBuilder},
    h2c::H2,
    sync::Latch,
    upstream::{Script, Upstream, pairs},
    wire::Address,
};

#[test]
fn the_first_event_arrives_before_the_upstream_has_finished() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.chunked(200, &[("Content-Type", "text/event-stream")]);
        for index in 0..3 {
            exchange.chunk(format!("data: {index}\n\n").as_bytes());
            held.wait();
        }
        exchange.last_chunk(&[]);
    }));
    let gate = Gate::before(&upstream).start();
    for request in [Req::get("/events"), Req::post("/events"), Req::pay("k1")] {
        let mut client = request.begin(gate.address());
        for index in 0..3 {
            client.until(format!("data: {index}\n\n").as_bytes());
            latch.pass_one();
        }
        client.until(b"0\r\n\r\n");
    }
}

#[test]
fn an_upload_reaches_the_upstream_before_its_end() {
    let latch = Latch::new();
    let seen = latch.clone();
    let upstream = Upstream::start(Script::on_head(move |exchange| {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"first") && !String::from_utf8_lossy(&bytes).contains("first") {
            let more = exchange.read_some();
            assert!(!more.is_empty());
            bytes.extend(more);
        }
        seen.open();
        exchange.close();
        exchange.answer(200, &[], b"early");
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = gate.raw("PUT /up HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    latch.wait();
    assert_eq!(client.response().text(), "early", "an early answer is passed on");
}

/// A WebSocket handshake; the key is the one of RFC 6455.
fn websocket() -> Req {
    Req::get("/chat")
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Protocol", "chat")
}

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n";

#[test]
fn a_websocket_is_a_tunnel_that_closes_one_direction_at_a_time() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(SWITCHING);
        exchange.echo();
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = websocket().begin(gate.address());
    let head = client.next_head().unwrap();
    assert!(head.start.starts_with("HTTP/1.1 101 "), "{}", head.start);
    assert_eq!(head.value("upgrade").map(str::to_ascii_lowercase).as_deref(), Some("websocket"));
    assert_eq!(head.value("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(head.value("sec-websocket-protocol"), Some("chat"));
    let seen = upstream.last_request();
    assert_eq!(seen.value("upgrade").map(str::to_ascii_lowercase).as_deref(), Some("websocket"));
    assert!(seen.values("connection").concat().to_ascii_lowercase().contains("upgrade"));
    assert_eq!(seen.values("sec-websocket-key"), ["dGhlIHNhbXBsZSBub25jZQ=="]);
    for text in ["one", "two", "three"] {
        client.send(text.as_bytes());
        assert_eq!(client.exactly(text.len()), text.as_bytes());
    }
    client.half_close();
    client.expect_closed();
    upstream.wait_closed(0);

    // The other direction first: what we still send arrives.
    let latch = Latch::new();
    let arrived = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        exchange.send(SWITCHING);
        exchange.send(b"bye");
        exchange.half_close();
        if exchange.read_exactly(4) == b"late" {
            arrived.open();
        }
        exchange.close();
    }));
    let mut client = websocket().begin(gate.address());
    client.next_head().unwrap();
    assert_eq!(client.exactly(3), b"bye");
    assert_eq!(client.rest(), (Vec::new(), true));
    client.send(b"late");
    latch.wait();
    client.half_close();
}

#[test]
fn a_tunnel_outlives_the_idle_and_response_timeouts() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(SWITCHING);
        exchange.echo();
    }));
    let gate = Gate::before(&upstream)
        .set("server", "idle_timeout = \"200ms\"")
        .set("upstream", "response_timeout = \"200ms\"")
        .start();
    let mut client = websocket().begin(gate.address());
    client.next_head().unwrap();
    assert!(client.is_silent_for(Duration::from_millis(500)));
    client.send(b"still here");
    assert_eq!(client.exactly(10), b"still here");
}

#[test]
fn without_a_101_nothing_behind_the_head_reaches_the_upstream() {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.answer(200, &[], b"no upgrade")));
    let gate = Gate::before(&upstream).start();
    let mut bytes = websocket().bytes();
    bytes.extend_from_slice(b"\x81\x05smuggled-frame");
    let mut client = gate.raw(bytes);
    assert_eq!(client.response().text(), "no upgrade");
    assert!(!String::from_utf8_lossy(&upstream.bytes()).contains("smuggled"));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_101_to_another_protocol_is_refused() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n");
        exchange.read_to_end();
    }));
    let gate = Gate::before(&upstream).start();
    assert_eq!(gate.send(&websocket()).status, 502);
    upstream.set(Script::on_request(|exchange| {
        exchange.send(SWITCHING);
        exchange.read_to_end();
    }));
    assert_eq!(gate.send(&Req::get("/")).status, 502, "an unasked 101");
}

#[test]
fn an_upgrade_of_a_protected_request_is_not_forwarded() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let request = Req::pay("k1").header("Connection", "Upgrade").header("Upgrade", "websocket");
    gate.send(&request).expect(201, "", "executed");
    let seen = upstream.last_request();
    assert!(seen.values("upgrade").is_empty());
    assert!(!seen.values("connection").concat().to_ascii_lowercase().contains("upgrade"));
    // Nor is h2c by upgrade, protected or not.
    let request = Req::get("/")
        .header("Connection", "Upgrade, HTTP2-Settings")
        .header("Upgrade", "h2c")
        .header("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA");
    assert_eq!(gate.send(&request).status, 201);
    assert!(upstream.last_request().values("upgrade").is_empty());
}

#[test]
fn answer_trailers_go_to_clients_that_take_them() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.chunked(200, &[("Content-Type", "application/grpc"), ("Trailer", "grpc-status, grpc-message")]);
        exchange.chunk(b"\0\0\0\0\x02hi");
        exchange.last_chunk(&[("grpc-status", "0"), ("grpc-message", "fine")]);
    }));
    let gate = Gate::before(&upstream).start();
    let mut h2 = H2::connect(gate.address());
    let call = H2::request("POST", "/svc/Method").header("content-type", "application/grpc").header("te", "trailers");
    let answer = h2.send(call, b"\0\0\0\0\x02hi");
    assert_eq!(answer.body, b"\0\0\0\0\x02hi");
    assert_eq!(answer.trailers.get("grpc-status").unwrap(), "0");
    assert_eq!(answer.trailers.get("grpc-message").unwrap(), "fine");
    assert_eq!(upstream.last_request().values("te"), ["trailers"]);
    let answer = gate.send(&Req::get("/").header("TE", "trailers").header("Connection", "TE"));
    assert_eq!(trailer(&answer, "grpc-status"), ["0"]);
    let answer = gate.send(&Req::get("/"));
    assert_eq!((pairs(&answer.trailers), answer.complete), (vec![], true));
}

#[test]
fn request_trailers_of_an_unprotected_request_go_on() {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.answer(200, &[], b"")));
    let gate = Gate::before(&upstream).start();
    let mut client = gate.raw(
        "PUT / HTTP/1.1\r\nHost: api.test\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    let seen = upstream.last_request();
    assert_eq!(seen.body.bytes, b"hello");
    let trailers: Vec<(String, &str)> =
        pairs(&seen.body.trailers).into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    assert_eq!(trailers, [("x-sum".to_owned(), "5")]);
}

#[test]
fn a_broken_answer_of_an_unprotected_request_never_ends_properly() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.chunked(200, &[]);
        exchange.chunk(b"half");
        exchange.close();
    }));
    let gate = Gate::before(&upstream).start();
    let answer = gate.send(&Req::get("/"));
    assert_eq!((answer.status, answer.complete), (200, false));
    let mut h2 = H2::connect(gate.address());
    assert!(h2.try_send(H2::request("GET", "/"), b"").is_err(), "the stream is reset");
    upstream.set(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        exchange.reset();
    }));
    assert!(!gate.send(&Req::get("/")).complete);
}

#[test]
fn unix_sockets_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let upstream = Upstream::start_unix(dir.path().join("up.sock"), Script::pay());
    let listen = dir.path().join("gate.sock");
    let gate = GateBuilder::new(&upstream.url())
        .set("server", &format!("listen = {:?}", format!("unix:{}", listen.display())))
        .start();
    assert_eq!(gate.address(), &Address::Unix(listen.clone()));
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
    // A socket file left by a dead gate is no obstacle, one of a living gate is.
    let config = gate.config.clone();
    let mut gate = gate;
    gate.kill_9();
    let gate = config.start();
    gate.send(&Req::get("/")).expect(201, "", "");
    let (code, log) = config.start_expecting_exit();
    assert_eq!(code, 71, "{log}");
    gate.send(&Req::get("/")).expect(201, "", "");
}

#[test]
fn a_stream_may_be_silent_for_longer_than_the_response_timeout() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.chunked(200, &[("Content-Type", "text/event-stream")]);
        exchange.chunk(b"data: 1\n\n");
        held.wait();
        exchange.chunk(b"data: 2\n\n");
        exchange.last_chunk(&[]);
    }));
    let gate = Gate::before(&upstream).set("upstream", "response_timeout = \"200ms\"").start();
    for request in [Req::get("/events"), Req::pay("k1")] {
        let mut client = request.begin(gate.address());
        client.until(b"data: 1\n\n");
        assert!(client.is_silent_for(Duration::from_millis(500)));
        latch.pass_one();
        client.until(b"data: 2\n\n");
    }
}
