//! Clients that leave: an upload that ends early never claims, an execution never ends early.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;

use crate::harness::{
    backend::{Backend, each_store},
    client::Req,
    gate::Gate,
    h2c::H2,
    sync::Latch,
    upstream::{Script, Upstream},
};

each_store! {
    an_upload_that_ends_early_never_claims => early_end;
    a_client_that_leaves_does_not_stop_its_execution => leaves;
}

fn early_end(backend: &Backend) {
    let upstream = Upstream::paying();
    let gate = backend.gate(&upstream).start();
    let whole = Req::pay("k1").body(vec![b'x'; 1000]);
    let head = whole.head_bytes().len();
    // With an end, with a reset, and in the middle of a chunk.
    for how in ["end", "reset", "half-closed"] {
        let mut client = gate.connect();
        client.send(&whole.bytes()[..head + 500]);
        match how {
            "end" => drop(client),
            "reset" => client.reset(),
            _ => {
                client.half_close();
                let answer = client.try_response_to("POST");
                assert!(answer.is_none_or(|answer| answer.status == 400), "at most a 400");
            }
        }
    }
    let mut chunked = gate.connect();
    let bytes = Req::pay("k1").body(vec![b'x'; 1000]).chunked().bytes();
    // Everything but the last chunk: complete for anyone who does not look.
    chunked.send(&bytes[..bytes.len() - 5]);
    chunked.half_close();
    assert!(chunked.try_response_to("POST").is_none_or(|answer| answer.status == 400));
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    assert_eq!(upstream.requests().len(), 1);
}

fn leaves(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = backend.gate(&upstream).start();
    let first = Req::pay("reset").begin(gate.address());
    upstream.wait_requests(1);
    first.reset();
    let mut h2 = H2::connect(gate.address());
    let mut stream = h2.start(H2::pay("h2"), false);
    stream.body.send_data(Bytes::from_static(br#"{"amount":1}"#), true).unwrap();
    upstream.wait_requests(2);
    H2::reset(&mut stream, Reason::CANCEL);
    h2.settle();
    for key in ["reset", "h2"] {
        gate.send(&Req::pay(key)).expect(409, "in-progress", "in-progress");
    }
    assert!((0..upstream.connections()).all(|index| !upstream.is_closed(index)), "no exchange was cut");
    latch.open();
    for key in ["reset", "h2"] {
        gate.send_until_not(&Req::pay(key), "in-progress").expect(201, "", "replayed");
        assert_eq!(upstream.executions(key), 1);
    }
}

#[test]
fn an_h2_stream_reset_in_mid_body_is_a_broken_request_whatever_its_code() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let mut h2 = H2::connect(gate.address());
    for reason in [Reason::NO_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR] {
        let mut stream = h2.start(H2::pay("k1"), false);
        stream.body.send_data(Bytes::from_static(b"half of it"), false).unwrap();
        H2::reset(&mut stream, reason);
        h2.settle();
    }
    // Nothing of it was claimed: the key is free, and the whole request is the first.
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn an_unprotected_h2_upload_reset_in_mid_body_never_ends_properly_upstream() {
    let upstream = Upstream::start(Script::on_head(|exchange| {
        exchange.read_body();
        if exchange.request.body.complete {
            exchange.execute();
        }
        exchange.answer(200, &[], b"");
        exchange.close();
    }));
    let gate = Gate::before(&upstream).start();
    let mut h2 = H2::connect(gate.address());
    for (index, reason) in [Reason::NO_ERROR, Reason::CANCEL].into_iter().enumerate() {
        let mut stream = h2.start(H2::request("POST", "/upload"), false);
        stream.body.send_data(Bytes::from_static(b"half of it"), false).unwrap();
        upstream.wait_requests(index + 1);
        H2::reset(&mut stream, reason);
        upstream.wait_closed(index);
    }
    assert_eq!(upstream.executions_total(), 0, "no body without its end was taken for a whole one");
}

#[test]
fn a_half_closed_client_still_gets_its_answer() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = Gate::before(&upstream).start();
    for (index, request) in [Req::pay("k1"), Req::get("/plain")].iter().enumerate() {
        let mut client = request.begin(gate.address());
        upstream.wait_requests(index + 1);
        client.half_close();
        assert!(client.is_silent_for(Duration::from_millis(30)));
        latch.pass_one();
        assert_eq!(client.response().status, 201);
    }
}

#[test]
fn an_unprotected_exchange_is_cancelled_when_its_client_leaves() {
    let upstream = Upstream::start(Script::on_request(|exchange| exchange.read_to_end()));
    let gate = Gate::before(&upstream).start();
    let client = Req::get("/slow").begin(gate.address());
    upstream.wait_requests(1);
    client.reset();
    upstream.wait_closed(0);
    // In the middle of an answer as well.
    upstream.set(Script::on_request(|exchange| {
        exchange.chunked(200, &[]);
        exchange.chunk(b"begin");
        exchange.read_to_end();
    }));
    let mut client = Req::get("/stream").begin(gate.address());
    client.until(b"begin");
    drop(client);
    upstream.wait_closed(1);
    // And over h2.
    let mut h2 = H2::connect(gate.address());
    let mut stream = h2.start(H2::request("GET", "/slow"), true);
    upstream.wait_requests(3);
    H2::reset(&mut stream, Reason::CANCEL);
    upstream.wait_closed(2);
}

#[test]
fn a_protected_stream_is_read_to_its_end_though_its_client_left() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        exchange.execute();
        exchange.chunked(200, &[]);
        exchange.chunk(b"begin");
        held.wait();
        exchange.chunk(b" end");
        exchange.last_chunk(&[]);
    }));
    let gate = Gate::before(&upstream).start();
    let client = Req::pay("k1").begin(gate.address());
    upstream.wait_executions(1);
    client.reset();
    latch.open();
    let replay = gate.send_until_not(&Req::pay("k1"), "in-progress");
    replay.expect(200, "", "replayed");
    assert_eq!(replay.text(), "begin end");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_pipelined_follower_does_not_change_what_becomes_of_the_first() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = Gate::before(&upstream).start();
    let mut client = gate.raw([Req::pay("first").bytes(), Req::pay("second").bytes()].concat());
    upstream.wait_requests(1);
    client.half_close();
    latch.open();
    client.response().expect(201, "", "executed");
    client.response().expect(201, "", "executed");
    client.expect_closed();
    // The same, but the client leaves: the first runs to its end, the second may never begin.
    let latch = Latch::new();
    let held = latch.clone();
    upstream.set(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let client = gate.raw([Req::pay("third").bytes(), Req::pay("fourth").bytes()].concat());
    upstream.wait_requests(3);
    client.reset();
    latch.open();
    gate.send_until_not(&Req::pay("third"), "in-progress").expect(201, "", "replayed");
    let fourth = gate.send_until_not(&Req::pay("fourth"), "in-progress");
    assert_eq!(fourth.status, 201);
    for key in ["first", "second", "third", "fourth"] {
        assert_eq!(upstream.executions(key), 1, "{key}");
    }
}
