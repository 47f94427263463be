//! The same key with a different request is refused, whatever became of the first.

use crate::harness::{
    backend::{Backend, each_store},
    client::Req,
    gate::Gate,
    sync::Latch,
    upstream::{Script, Upstream},
};

each_store! {
    another_request_under_the_key_is_refused_in_every_state => every_state;
}

/// Every way in which a request can be another one.
fn others(key: &str) -> Vec<(&'static str, Req)> {
    let same = || Req::new("POST", "/pay").auth("a").key(key).header("Content-Type", "application/json");
    let body = r#"{"amount":1}"#;
    vec![
        ("body", Req::pay(key).body(r#"{"amount":2}"#)),
        ("one byte of white space", Req::pay(key).body(r#"{"amount": 1}"#)),
        ("empty body", Req::pay(key).body("")),
        ("path", Req::post("/pay2").auth("a").key(key)),
        ("look-alike path", Req::post("/pay/").auth("a").key(key)),
        ("query", Req::post("/pay?x=1").auth("a").key(key)),
        ("empty query", Req::post("/pay?").auth("a").key(key)),
        ("method", Req::new("PATCH", "/pay").auth("a").key(key).header("Content-Type", "application/json").body(body)),
        ("authority", Req::pay(key).host("other.test")),
        ("content type", Req::new("POST", "/pay").auth("a").key(key).header("Content-Type", "text/json").body(body)),
        ("no content type", Req::new("POST", "/pay").auth("a").key(key).body(body)),
        ("content coding", same().header("Content-Encoding", "br").body(body)),
        ("X-HTTP-Method-Override", same().header("X-HTTP-Method-Override", "DELETE").body(body)),
        ("X-HTTP-Method", same().header("X-HTTP-Method", "DELETE").body(body)),
        ("X-Method-Override", same().header("X-Method-Override", "DELETE").body(body)),
    ]
}

fn every_state(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = backend.gate(&upstream).start();

    // In flight.
    let mut client = Req::pay("k1").begin(gate.address());
    upstream.wait_requests(1);
    for (name, other) in others("k1") {
        let answer = gate.send(&other);
        assert_eq!(answer.verdict(), (422, "key-reused".to_owned(), "mismatch".to_owned()), "{name}, in flight");
    }
    gate.send(&Req::pay("k1")).expect(409, "in-progress", "in-progress");

    // Completed.
    latch.open();
    client.response().expect(201, "", "executed");
    for (name, other) in others("k1") {
        let answer = gate.send(&other);
        assert_eq!(answer.verdict(), (422, "key-reused".to_owned(), "mismatch".to_owned()), "{name}, completed");
    }
    gate.send(&Req::pay("k1")).expect(201, "", "replayed");

    // Unknown.
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.close();
    }));
    gate.send(&Req::pay("k2")).expect(502, "outcome-unknown", "unknown");
    for (name, other) in others("k2") {
        let answer = gate.send(&other);
        assert_eq!(answer.verdict(), (422, "key-reused".to_owned(), "mismatch".to_owned()), "{name}, unknown");
    }
    assert_eq!(upstream.executions_total(), 2);
}

#[test]
fn what_is_not_part_of_the_operation_may_differ() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    let same = [
        Req::pay("k1").header("User-Agent", "other"),
        Req::pay("k1").header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        Req::pay("k1").header("Accept", "text/html"),
        Req::pay("k1").header("Cookie", "a=b"),
        Req::pay("k1").header("X-Forwarded-For", "1.2.3.4"),
        Req::pay("k1").chunked(),
        Req::pay("k1").host("API.test"),
        Req::pay("k1").host("api.test:80"),
        Req::post("http://api.test/pay").auth("a").key("k1"),
        Req::post("http://API.test:80/pay").auth("a").key("k1").host("ignored.test"),
    ];
    for request in same {
        gate.send(&request).expect(201, "", "replayed");
    }
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn an_api_that_documented_409_for_it_gets_409() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("mismatch_status = 409").start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    gate.send(&Req::pay("k1").body("{}")).expect(409, "key-reused", "mismatch");
}

#[test]
fn a_refused_request_never_shows_the_first_one() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1").body("canary-of-the-first")).expect(201, "", "executed");
    let answer = gate.send(&Req::pay("k1").body("{}"));
    assert!(!answer.text().contains("canary"), "{answer:?}");
    assert!(!answer.text().contains("paid"), "{answer:?}");
}
