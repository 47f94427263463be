//! What is not protected passes untouched.

use crate::harness::{
    client::Req,
    gate::Gate,
    upstream::{Script, Upstream},
};

#[test]
fn methods_that_are_not_listed_pass_with_their_key() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "QUERY", "PROPFIND"] {
        let request = Req::new(method, "/x").auth("a").key(method);
        for _ in 0..2 {
            let answer = gate.send(&request);
            assert_eq!((answer.status, answer.idempotency()), (201, ""), "{method}");
            assert!(!answer.has("idempotent-replayed"));
        }
        assert_eq!(upstream.executions(method), 2, "{method}");
    }
}

#[test]
fn without_a_key_every_post_runs() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    for _ in 0..3 {
        gate.send(&Req::post("/pay").auth("a")).expect(201, "", "");
    }
    assert_eq!(upstream.executions("/pay"), 3);
}

#[test]
fn a_listed_method_is_protected() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("methods = [\"PUT\", \"DELETE\"]").start();
    for method in ["PUT", "DELETE"] {
        let request = Req::new(method, "/x").auth("a").key(method).body("x");
        gate.send(&request).expect(201, "", "executed");
        gate.send(&request).expect(201, "", "replayed");
    }
    gate.send(&Req::pay("post")).expect(201, "", "");
}

#[test]
fn mode_off_adds_and_removes_nothing() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        let lines = [("Idempotency-Status", "mine"), ("Idempotent-Replayed", "true")];
        exchange.answer(201, &lines, b"x");
    }));
    let gate = Gate::before(&upstream).defaults("mode = \"off\"").start();
    for _ in 0..2 {
        let answer = gate.send(&Req::pay("k1"));
        assert_eq!(answer.headers("idempotency-status"), ["mine"]);
        assert_eq!(answer.headers("idempotent-replayed"), ["true"]);
    }
    gate.send(&Req::pay("\u{e9}")).expect(201, "", "mine");
    assert_eq!(upstream.executions("k1"), 2);
}

#[test]
fn grpc_is_never_protected_and_refused_where_a_key_is_required() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).route("name = \"pay\"\npath = \"/required\"\nkey = { required = true }").start();
    for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC-Web", "application/grpc-web+proto"] {
        let request = |path: &str| Req::new("POST", path).auth("a").key("k1").header("Content-Type", kind).body("x");
        gate.send(&request("/svc/Method")).expect(201, "", "");
        gate.send(&request("/svc/Method")).expect(201, "", "");
        let refused = gate.send(&request("/required"));
        assert_eq!((refused.status, refused.slug().as_str()), (400, "request-invalid"), "{kind}");
    }
    assert_eq!(upstream.executions("k1"), 8);
}
