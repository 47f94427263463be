//! The gate's own answers: documents a program can read, that tell no secrets.

use std::collections::BTreeMap;

use crate::harness::{
    client::{Req, Response},
    gate::Gate,
    sync::Latch,
    upstream::{Script, Upstream},
};

/// Asserts the whole document but for its words.
#[track_caller]
fn document(answer: &Response, slug: &str, more: &[&str]) -> BTreeMap<String, serde_json::Value> {
    assert_eq!(answer.headers("content-type"), ["application/problem+json"]);
    assert_eq!(answer.headers("content-language"), ["en"]);
    assert_eq!(answer.headers("cache-control"), ["no-store"]);
    let document: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&answer.body).unwrap();
    let mut members = vec!["detail", "status", "title", "type"];
    members.extend(more);
    members.sort_unstable();
    assert_eq!(document.keys().collect::<Vec<_>>(), members, "{}", answer.text());
    assert_eq!(document["type"], format!("urn:oncegate:problem:{slug}"));
    assert_eq!(document["status"], answer.status);
    for member in ["title", "detail"] {
        let text = document[member].as_str().unwrap();
        assert!(!text.is_empty() && !text.contains("canary"), "{member}: {text}");
    }
    document
}

#[test]
fn every_refusal_is_a_problem_document() {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| match exchange.request.target.as_str() {
        "/slow" => {
            held.wait();
            exchange.pay();
        }
        "/lost" => exchange.close(),
        "/large" => exchange.answer(201, &[], &[b'x'; 5000]),
        _ => exchange.pay(),
    }));
    let gate = Gate::before(&upstream)
        .defaults("max_request_body = \"1KiB\"")
        .defaults("max_response_body = \"1KiB\"")
        .route("name = \"required\"\npath = \"/required\"\nkey = { required = true }")
        .start();
    let post = |path: &str, key: &str| Req::post(path).auth("canary").key(key).body("canary");

    document(&gate.send(&Req::post("/required").auth("canary")), "key-missing", &[]);
    document(&gate.send(&post("/pay", "\u{e9}canary")), "key-invalid", &[]);
    document(&gate.send(&Req::post("/pay").key("canary")), "caller-unknown", &[]);
    document(&gate.send(&post("/pay", "canary").header("Authorization", "canary")), "request-invalid", &[]);
    document(&gate.send(&post("/pay", "canary").body(vec![b'x'; 2000])), "request-too-large", &[]);
    document(&gate.send(&Req::new("TRACE", "/")), "method-not-allowed", &[]);

    gate.send(&post("/pay", "canary")).expect(201, "", "executed");
    document(&gate.send(&post("/pay?", "canary")), "key-reused", &[]);

    let mut slow = post("/slow", "canary-slow").begin(gate.address());
    upstream.wait_requests(2);
    document(&gate.send(&post("/slow", "canary-slow")), "in-progress", &[]);
    latch.open();
    slow.response().expect(201, "", "executed");

    document(&gate.send(&post("/lost", "canary-lost")), "outcome-unknown", &[]);
    let held = document(&gate.send(&post("/lost", "canary-lost")), "outcome-unknown", &["since"]);
    assert!(held["since"].is_string());

    gate.send(&post("/large", "canary-large")).expect(201, "", "executed");
    let gone = document(&gate.send(&post("/large", "canary-large")), "answer-not-kept", &["original_status"]);
    assert_eq!(gone["original_status"], 201);

    upstream.stop();
    document(&gate.send(&post("/pay", "canary-refused")), "upstream-unreachable", &[]);
}

#[test]
fn the_base_of_the_types_is_a_setting() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).set("server", "problem_base = \"https://errors.example/\"").start();
    let answer = gate.send(&Req::pay("bad key\u{e9}"));
    assert_eq!(answer.json()["type"], "https://errors.example/key-invalid");
}

#[test]
fn a_problem_for_a_head_request_has_no_body() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    upstream.stop();
    let mut client = gate.connect();
    let answer = client.expect_usable(&Req::new("HEAD", "/"));
    assert_eq!(answer.status, 502);
    client.expect_usable(&Req::new("HEAD", "/"));
}

#[test]
fn neither_key_nor_credential_nor_body_nor_answer_is_logged() {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        if exchange.request.target.starts_with("/lost") {
            exchange.close();
        } else {
            exchange.answer(201, &[("X-Secret", "canary-answer-header")], b"canary-answer-body");
        }
    }));
    let gate = Gate::before(&upstream).set("log", "level = \"trace\"").store("file:cells.redb").start();
    let request = |path: &str, key: &str| {
        Req::post(path)
            .auth("canary-credential")
            .header("Cookie", "sid=canary-cookie")
            .header("X-API-Key", "canary-api-key")
            .key(key)
            .body("canary-body")
    };
    for (path, key) in [("/pay", "canary-key"), ("/lost", "canary-lost"), ("/pay", "canary-\u{e9}")] {
        gate.send(&request(path, key));
        gate.send(&request(path, key));
        gate.send(&request(path, key).body("canary-other"));
    }
    gate.send(&request("/pay", "canary-key").header("Connection", "Idempotency-Key"));
    gate.send(&request("/pay", "canary-key").header("X-API-Key", "canary-second"));
    gate.raw("POST /pay HTTP/1.1\r\nHost: canary host\r\nIdempotency-Key: canary\r\n\r\n").response();
    upstream.stop();
    gate.send(&request("/pay", "canary-refused"));
    let mut gate = gate;
    gate.sigterm();
    gate.wait_exit(std::time::Duration::from_secs(10));
    let log = gate.log_text();
    assert!(log.lines().count() > 2, "there is a log");
    for line in log.lines() {
        assert!(!line.contains("canary"), "{line}");
    }
    // And it is JSON, line by line, on standard error.
    for line in log.lines().filter(|line| !line.is_empty()) {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "not JSON: {line}");
    }
}
