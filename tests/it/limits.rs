//! Limits of size, time and number: refused with the right word, nothing claimed, nothing executed.

use std::time::{Duration, Instant};

use crate::harness::{
    client::{Req, parallel},
    gate::Gate,
    h2c::H2,
    sync::Latch,
    upstream::{Script, Upstream},
};

#[test]
fn a_body_over_the_limit_is_413_and_claims_nothing() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("max_request_body = \"1KiB\"").start();
    gate.send(&Req::pay("fits").body(vec![b'x'; 1024])).expect(201, "", "executed");
    gate.send(&Req::pay("fits chunked").body(vec![b'x'; 1024]).chunked()).expect(201, "", "executed");
    for request in [
        Req::pay("k1").body(vec![b'x'; 1025]),
        Req::pay("k1").body(vec![b'x'; 1025]).chunked(),
        Req::pay("k1").body(vec![b'x'; 300_000]),
    ] {
        gate.send(&request).expect(413, "request-too-large", "not-executed");
    }
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    // Unprotected bodies have no limit.
    gate.send(&Req::post("/pay").body(vec![b'x'; 300_000])).expect(201, "", "");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn an_upload_that_is_too_slow_is_408_and_claims_nothing() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("server", "body_timeout = \"300ms\"").start();
    let request = Req::pay("k1");
    let bytes = request.bytes();
    let mut client = gate.raw(&bytes[..bytes.len() - 1]);
    client.response().expect(408, "request-timeout", "not-executed");
    client.expect_closed();
    gate.send(&request).expect(201, "", "executed");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_head_that_is_too_slow_ends_the_connection() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .set("server", "header_timeout = \"300ms\"")
        .set("server", "idle_timeout = \"20s\"")
        .start();
    let began = Instant::now();
    let mut client = gate.raw("GET / HTTP/1.1\r\nHost: api");
    let answer = client.try_response_to("GET");
    assert!(answer.is_none_or(|answer| answer.status == 408));
    assert!(began.elapsed() < Duration::from_secs(5));
    // A new connection that says nothing.
    let mut client = gate.connect();
    let _ = client.try_response_to("GET");
    assert!(client.rest().1, "closed");
    // A kept one is none of its business: it starts at the first byte of the next head.
    let mut client = gate.connect();
    client.expect_usable(&Req::get("/"));
    assert!(client.is_silent_for(Duration::from_millis(700)), "a kept connection is ended only by idle_timeout");
    client.expect_usable(&Req::get("/"));
    client.send(b"GET / HT");
    let answer = client.try_response_to("GET");
    assert!(answer.is_none_or(|answer| answer.status == 408));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_kept_connection_ends_after_the_idle_timeout() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("server", "idle_timeout = \"300ms\"").start();
    let mut client = gate.connect();
    client.expect_usable(&Req::get("/"));
    let began = Instant::now();
    client.expect_closed();
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(5), "{took:?}");
    // A slow answer is not idleness.
    let latch = Latch::new();
    let held = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let mut client = Req::get("/slow").begin(gate.address());
    assert!(client.is_silent_for(Duration::from_millis(700)));
    latch.open();
    assert_eq!(client.response().status, 201);
}

#[test]
fn heads_over_the_limit_are_431_and_long_targets_414() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("server", "max_header_bytes = \"16KiB\"").start();
    let large = Req::pay("k1").header("X-Large", &"x".repeat(20_000));
    let mut client = large.begin(gate.address());
    assert_eq!(client.response().status, 431);
    let many = (0..600)
        .fold(Req::pay("k1"), |request, index| request.header(&format!("X-{index}"), "0123456789abcdef0123456789"));
    let mut client = many.begin(gate.address());
    assert_eq!(client.response().status, 431);
    let long = Req::get(&format!("/{}", "x".repeat(20_000)));
    let mut client = long.begin(gate.address());
    let status = client.response().status;
    assert!([414, 431].contains(&status), "{status}");
    gate.send(&Req::pay("k1").header("X-Fits", &"x".repeat(12_000))).expect(201, "", "executed");
    // Over h2 it is the header list.
    let mut h2 = H2::connect(gate.address());
    let answer = h2.try_send(H2::request("GET", "/").header("x-large", "x".repeat(20_000)), b"");
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 431));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_target_of_more_than_64_kib_is_414() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("server", "max_header_bytes = \"256KiB\"").start();
    let mut client = Req::get(&format!("/{}", "x".repeat(70_000))).begin(gate.address());
    assert_eq!(client.response().status, 414);
    assert_eq!(gate.send(&Req::get(&format!("/{}", "x".repeat(60_000)))).status, 201);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn bodies_beyond_the_memory_are_overload() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = Gate::before(&upstream)
        .set("limits", "body_memory = \"1MiB\"")
        .defaults("max_request_body = \"900KiB\"")
        .defaults("max_response_body = \"64KiB\"")
        .start();
    let request = |key: &str| Req::pay(key).body(vec![b'x'; 800_000]);
    let mut first = request("k1").begin(gate.address());
    upstream.wait_requests(1);
    let refused = gate.send(&request("k2"));
    refused.expect(503, "overloaded", "not-executed");
    assert!(refused.has("retry-after"));
    // A body without a length is no way around it.
    gate.send(&request("k3").chunked()).expect(503, "overloaded", "not-executed");
    // What is not protected holds no body.
    let mut unprotected = Req::post("/pay").body(vec![b'x'; 800_000]).begin(gate.address());
    upstream.wait_requests(2);
    latch.open();
    unprotected.response().expect(201, "", "");
    first.response().expect(201, "", "executed");
    gate.wait_until("the memory is given back", || gate.send(&request("k2")).status == 201);
    assert_eq!(upstream.executions("k2"), 1);
}

#[test]
fn exchanges_beyond_the_upstreams_connections_queue_and_are_then_refused() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = Gate::before(&upstream)
        .set("upstream", "max_connections = 2")
        .set("upstream", "connect_timeout = \"1s\"")
        .start();
    let mut running: Vec<_> = (0..2).map(|index| Req::pay(&format!("r{index}")).begin(gate.address())).collect();
    upstream.wait_requests(2);
    gate.send(&Req::pay("k1")).expect(503, "overloaded", "not-executed");
    // One that queues gets its turn.
    let mut queued = Req::pay("k2").begin(gate.address());
    assert!(queued.is_silent_for(Duration::from_millis(50)));
    latch.open();
    queued.response().expect(201, "", "executed");
    for client in &mut running {
        client.response().expect(201, "", "executed");
    }
    // The claim was released.
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn connections_beyond_the_limit_wait_to_be_accepted() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("server", "max_connections = 2").start();
    let mut first = gate.connect();
    first.expect_usable(&Req::get("/1"));
    let mut second = gate.connect();
    second.expect_usable(&Req::get("/2"));
    let mut third = Req::get("/3").begin(gate.address());
    assert!(third.is_silent_for(Duration::from_millis(150)));
    drop(first);
    assert_eq!(third.response().status, 201);
}

#[test]
fn many_requests_at_once_over_few_upstream_connections_all_execute_once() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .set("upstream", "max_connections = 4")
        .set("upstream", "connect_timeout = \"10s\"")
        .start();
    let verdicts = parallel(100, |index| gate.send(&Req::pay(&format!("k{index}"))).verdict());
    assert!(verdicts.iter().all(|verdict| verdict == &(201, String::new(), "executed".to_owned())), "{verdicts:?}");
    assert!(upstream.connections() <= 4, "{} connections", upstream.connections());
}

#[test]
fn over_h2_the_limits_of_a_body_are_the_same() {
    static LARGE: [u8; 2000] = [b'x'; 2000];
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .defaults("max_request_body = \"1KiB\"")
        .set("server", "body_timeout = \"300ms\"")
        .start();
    let mut h2 = H2::connect(gate.address());
    let large = h2.send(H2::pay("k1"), &LARGE);
    assert_eq!((large.status.as_u16(), large.slug().as_str()), (413, "request-too-large"));
    assert_eq!(large.header("idempotency-status"), Some("not-executed"));
    let mut slow = h2.start(H2::pay("k1"), false);
    slow.body.send_data(bytes::Bytes::from_static(b"{"), false).unwrap();
    let slow = h2.finish(slow).unwrap();
    assert_eq!((slow.status.as_u16(), slow.slug().as_str()), (408, "request-timeout"));
    // The connection serves its other streams on.
    let whole = h2.send(H2::pay("k1"), b"{}");
    assert_eq!(whole.header("idempotency-status"), Some("executed"));
    assert_eq!(upstream.executions("k1"), 1);
    assert_eq!(upstream.requests().len(), 1);
}
