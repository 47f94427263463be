//! The scripted upstream and the raw client against each other: a harness that lies proves nothing.

use std::time::Duration;

use super::{
    chaos::Chaos,
    client::{Client, Req, parallel},
    h2c::H2,
    redis::RedisServer,
    sync::Latch,
    upstream::{BlackHole, Script, Upstream, pairs, refused_port},
    wire::Address,
};

fn at(upstream: &Upstream) -> Address {
    Address::Tcp(upstream.address())
}

#[test]
fn the_upstream_counts_executions_by_key_and_keeps_its_connections() {
    let upstream = Upstream::paying();
    let mut client = Client::connect(&at(&upstream));
    let first = client.expect_usable(&Req::pay("k1"));
    assert_eq!((first.status, first.text().as_str(), first.complete), (201, "{\"paid\":1}", true));
    let second = client.expect_usable(&Req::pay("k1").chunked());
    assert_eq!(second.text(), "{\"paid\":2}");
    assert_eq!(upstream.executions("k1"), 2);
    assert_eq!(upstream.executions("k2"), 0);
    assert_eq!(upstream.connections(), 1);
    let requests = upstream.requests();
    assert_eq!(requests[0].body.bytes, br#"{"amount":1}"#);
    assert_eq!(requests[1].body.bytes, br#"{"amount":1}"#);
    assert_eq!(requests[1].names().last(), Some(&"Transfer-Encoding"));
    let mut expected = Req::pay("k1").bytes();
    expected.extend(Req::pay("k1").chunked().bytes());
    assert_eq!(upstream.bytes(), expected);
}

#[test]
fn an_answer_is_held_back_until_the_latch_opens() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let mut client = Req::pay("k1").begin(&at(&upstream));
    upstream.wait_requests(1);
    latch.wait_for_waiting(1);
    assert!(client.is_silent_for(Duration::from_millis(20)));
    latch.open();
    assert_eq!(client.response().status, 201);
}

#[test]
fn chunks_trailers_and_interim_answers_are_read() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        exchange.chunked(200, &[("Trailer", "X-Sum")]);
        exchange.chunk(b"hello ");
        exchange.chunk(b"world");
        exchange.last_chunk(&[("X-Sum", "11")]);
    }));
    let answer = Req::get("/").send(&at(&upstream));
    assert_eq!(answer.interim.len(), 1);
    assert_eq!(answer.text(), "hello world");
    assert_eq!(pairs(&answer.trailers), [("X-Sum", "11")]);
    assert!(answer.complete);
}

#[test]
fn a_broken_body_is_seen_as_broken() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        exchange.close();
    }));
    let answer = Req::get("/").send(&at(&upstream));
    assert_eq!((answer.text().as_str(), answer.complete), ("half", false));
    upstream.set(Script::on_request(|exchange| {
        exchange.chunked(200, &[]);
        exchange.chunk(b"half");
        exchange.reset();
    }));
    let answer = Req::get("/").send(&at(&upstream));
    assert!(!answer.complete);
    upstream.wait_closed(1);
}

#[test]
fn a_stopped_upstream_refuses_and_a_restarted_one_serves() {
    let upstream = Upstream::paying();
    upstream.stop();
    assert!(at(&upstream).connect().is_err());
    upstream.restart();
    assert_eq!(Req::pay("k1").send(&at(&upstream)).status, 201);
    assert!(Address::Tcp(([127, 0, 0, 1], refused_port()).into()).connect().is_err());
}

#[test]
fn a_black_hole_neither_accepts_nor_refuses() {
    let hole = BlackHole::open();
    let address = hole.url().strip_prefix("http://").unwrap().parse().unwrap();
    let error = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn a_unix_upstream_serves_and_an_echo_ends_after_half_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("up.sock");
    let _upstream = Upstream::start_unix(
        path.clone(),
        Script::on_request(|exchange| {
            exchange.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
            exchange.echo();
        }),
    );
    let mut client = Req::get("/").begin(&Address::Unix(path));
    assert_eq!(client.next_head().unwrap().start, "HTTP/1.1 101 Switching Protocols");
    client.send(b"ping");
    assert_eq!(client.exactly(4), b"ping");
    client.half_close();
    client.expect_closed();
}

#[test]
fn parallel_runs_all_at_once() {
    let upstream = Upstream::paying();
    let answers = parallel(50, |index| Req::pay(&format!("k{index}")).send(&at(&upstream)).status);
    assert_eq!(answers, vec![201; 50]);
    assert_eq!(upstream.executions_total(), 50);
}

#[test]
fn redis_comes_back_with_its_data_and_chaos_loses_exactly_one_reply() {
    let mut redis = RedisServer::start();
    assert_eq!(redis.command(&["SET", "a", "1"]), "+OK\r\n");
    redis.kill();
    redis.restart();
    let chaos = Chaos::before(redis.address());
    let through = Address::Tcp(chaos.address());
    let get = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    let mut client = Client::connect(&through);
    client.send(get);
    assert_eq!(client.exactly(7), b"$1\r\n1\r\n");
    chaos.lose_reply_to(b"INCR");
    client.send(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n");
    client.expect_closed();
    chaos.wait_lost_replies(1);
    let mut client = Client::connect(&through);
    client.send(get);
    assert_eq!(client.exactly(7), b"$1\r\n2\r\n");
    chaos.stall_replies();
    client.send(get);
    assert!(client.is_silent_for(Duration::from_millis(20)));
    chaos.restore();
    assert_eq!(client.exactly(7), b"$1\r\n2\r\n");
    chaos.cut();
    client.expect_closed();
}

#[test]
fn an_h2_client_is_refused_by_a_server_that_speaks_http_1() {
    let upstream = Upstream::start(Script::on_accept(|exchange| {
        exchange.read_head();
        exchange.send(b"HTTP/1.1 505 No\r\n\r\n");
    }));
    let mut client = H2::connect(&at(&upstream));
    assert!(client.try_send(H2::request("GET", "/"), b"").is_err());
}
