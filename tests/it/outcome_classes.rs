//! A route says what an answer's status proves.

use crate::harness::{
    client::Req,
    gate::{Gate, GateBuilder},
    upstream::{Script, Upstream},
};

fn upstream() -> Upstream {
    Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        let (status, option) = exchange.request.target.trim_start_matches('/').split_once('?').unwrap();
        let lines: &[(&str, &str)] = if option == "retry-after" { &[("Retry-After", "1")] } else { &[] };
        exchange.answer(status.parse().unwrap(), lines, b"");
    }))
}

/// Asserts the class of each status by what the first caller is told.
#[track_caller]
fn classes(builder: GateBuilder, expected: &[(u16, &str)]) {
    let gate = builder.start();
    for (status, class) in expected {
        let request = Req::post(&format!("/{status}?")).auth("a").key(&status.to_string());
        let answer = gate.send(&request);
        assert_eq!((answer.status, answer.idempotency()), (*status, *class));
        let retry = gate.send(&request);
        let expected = match *class {
            "executed" => (*status, "replayed"),
            "released" => (*status, "released"),
            _ => (409, "unknown"),
        };
        assert_eq!((retry.status, retry.idempotency()), expected, "the retry after {status}");
    }
}

#[test]
fn stripe_stores_everything_but_four() {
    let upstream = upstream();
    classes(
        Gate::before(&upstream).defaults("outcome = \"stripe\""),
        &[
            (200, "executed"),
            (307, "executed"),
            (400, "executed"),
            (401, "released"),
            (403, "released"),
            (408, "executed"),
            (409, "released"),
            (429, "released"),
            (500, "executed"),
            (502, "executed"),
            (503, "executed"),
            (504, "executed"),
        ],
    );
}

#[test]
fn success_only_stores_success_releases_4xx_and_holds_5xx() {
    let upstream = upstream();
    classes(
        Gate::before(&upstream).defaults("outcome = \"success-only\""),
        &[
            (200, "executed"),
            (303, "executed"),
            (307, "executed"),
            (400, "released"),
            (404, "released"),
            (422, "released"),
            (500, "unknown"),
            (501, "unknown"),
            (503, "unknown"),
            (521, "unknown"),
        ],
    );
}

#[test]
fn an_integer_beats_a_range_beats_a_class_beats_the_default() {
    let upstream = upstream();
    classes(
        Gate::before(&upstream).defaults(
            "outcome = { store = [\"5xx\", 409], release = [\"4xx\", \"500-510\"], unknown = [\"410-419\", 500] }",
        ),
        &[
            (201, "executed"),
            (404, "released"),
            (409, "executed"),
            (410, "unknown"),
            (422, "released"),
            (500, "unknown"),
            (505, "released"),
            (511, "executed"),
            (599, "executed"),
        ],
    );
}

#[test]
fn a_503_named_by_the_route_is_no_longer_judged_by_retry_after() {
    let upstream = upstream();
    let gate = Gate::before(&upstream).start();
    let request = |key: &str| Req::post("/503?retry-after").auth("a").key(key);
    gate.send(&request("k1")).expect(503, "", "released");
    assert_eq!(gate.send(&request("k1")).header("retry-after"), Some("1"));
    let gate = Gate::before(&upstream).defaults("outcome = { unknown = [503] }").start();
    gate.send(&request("k1")).expect(503, "", "unknown");
    let gate = Gate::before(&upstream).defaults("outcome = { store = [503] }").start();
    gate.send(&request("k1")).expect(503, "", "executed");
}

#[test]
fn a_status_in_two_lists_is_an_error() {
    let upstream = upstream();
    let gate = Gate::before(&upstream).defaults("outcome = { store = [500], release = [500] }");
    let (code, log) = gate.start_expecting_exit();
    assert_eq!(code, 78, "{log}");
    assert!(log.contains("500"), "{log}");
}

#[test]
fn a_route_lays_single_lists_over_the_defaults() {
    let upstream = upstream();
    let gate = Gate::before(&upstream)
        .defaults("outcome = { release = [404], unknown = [500] }")
        .route("name = \"r\"\npath = \"/404\"\noutcome = { release = [] }")
        .start();
    let request = |path: &str| Req::post(path).auth("a").key(path);
    gate.send(&request("/404?")).expect(404, "", "executed");
    gate.send(&request("/500?")).expect(500, "", "unknown");
}
