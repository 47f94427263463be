//! Browsers: preflights pass, and a page may read what the gate adds.

use crate::harness::{
    client::Req,
    gate::Gate,
    upstream::{Script, Upstream},
};

#[test]
fn a_preflight_always_passes() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.answer(204, &[("Access-Control-Allow-Origin", "https://shop.test")], b"");
    }));
    let gate = Gate::before(&upstream)
        .defaults("methods = [\"OPTIONS\", \"POST\"]")
        .defaults("key = { required = true }")
        .start();
    let preflight = Req::new("OPTIONS", "/pay")
        .header("Origin", "https://shop.test")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "idempotency-key");
    let answer = gate.send(&preflight);
    assert_eq!((answer.status, answer.idempotency()), (204, ""));
    assert_eq!(upstream.last_request().method, "OPTIONS");
    // An OPTIONS that is none is a listed method like any other.
    gate.send(&Req::new("OPTIONS", "/pay").auth("a")).expect(400, "key-missing", "not-executed");
}

/// The names an answer exposes, in lower case.
fn exposed(answer: &crate::harness::client::Response) -> Vec<String> {
    let lines = answer.headers("access-control-expose-headers");
    lines.iter().flat_map(|line| line.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[test]
fn with_an_origin_both_names_are_exposed_beside_the_upstreams() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        exchange.answer(
            201,
            &[("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", "X-Total")],
            b"ok",
        );
    }));
    let gate = Gate::before(&upstream).start();
    let request = Req::pay("k1").header("Origin", "https://shop.test");
    for status in ["executed", "replayed", "replayed"] {
        let answer = gate.send(&request);
        answer.expect(201, "", status);
        let mut names = exposed(&answer);
        names.sort();
        assert_eq!(names, ["idempotency-status", "idempotent-replayed", "x-total"]);
    }
    // Refusals too.
    let answer = gate.send(&request.clone().body("{}"));
    answer.expect(422, "key-reused", "mismatch");
    assert!(exposed(&answer).contains(&"idempotency-status".to_owned()));
    // Without an origin there is nothing to expose it to.
    let answer = gate.send(&Req::pay("k1"));
    assert_eq!(exposed(&answer), ["x-total"]);
    let answer = gate.send(&Req::pay("k2"));
    assert_eq!(exposed(&answer), ["x-total"]);
    // Unprotected answers stay as they are.
    let answer = gate.send(&Req::get("/").header("Origin", "https://shop.test"));
    assert_eq!(exposed(&answer), ["x-total"]);
}
