//! Whose key it is: callers never meet each other's operations, and a caller that cannot be named is refused.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::harness::{
    backend::{Backend, each_store},
    client::Req,
    gate::Gate,
    sync::Latch,
    upstream::{Script, Upstream},
};

each_store! {
    two_callers_with_one_key_are_two_operations => two_callers;
    another_token_of_the_subject_is_refused_in_every_state => caller_changed;
}

fn two_callers(backend: &Backend) {
    let upstream = Upstream::start(Script::on_request(|exchange| {
        exchange.execute();
        let caller = exchange.request.value("authorization").unwrap().to_owned();
        exchange.answer(201, &[], caller.as_bytes());
    }));
    let gate = backend.gate(&upstream).start();
    for _ in 0..2 {
        for caller in ["a", "b", "A"] {
            let answer = gate.send(&Req::pay("k1").auth(caller));
            assert_eq!((answer.status, answer.text()), (201, format!("Bearer {caller}")));
        }
    }
    // Not even another body shows that the key is in use elsewhere.
    gate.send(&Req::pay("k1").auth("c").body("{}")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 4);
}

/// An unsigned token of this form; the gate does not look at the signature.
fn jwt(claims: &str, signature: &str) -> String {
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    format!("{}.{}.{signature}", part(r#"{"alg":"RS256"}"#), part(claims))
}

fn caller_changed(backend: &Backend) {
    let latch = Latch::new();
    let held = latch.clone();
    let upstream = Upstream::start(Script::on_request(move |exchange| {
        held.wait();
        exchange.pay();
    }));
    let gate = backend.gate(&upstream).start();
    let old = jwt(r#"{"iss":"https://idp","sub":"alice","exp":1}"#, "c2ln");
    let new = jwt(r#"{"iss":"https://idp","sub":"alice","exp":2}"#, "c2ln");
    let mut first = Req::pay("k1").auth(&old).begin(gate.address());
    upstream.wait_requests(1);
    let refused = gate.send(&Req::pay("k1").auth(&new));
    refused.expect(409, "caller-changed", "not-executed");
    assert!(refused.json()["detail"].as_str().unwrap().contains("jwt:sub"), "{}", refused.text());
    latch.open();
    first.response().expect(201, "", "executed");
    gate.send(&Req::pay("k1").auth(&new)).expect(409, "caller-changed", "not-executed");
    // Before the fingerprint: nothing is said about the request of another credential.
    gate.send(&Req::pay("k1").auth(&new).body("{}")).expect(409, "caller-changed", "not-executed");
    gate.send(&Req::pay("k1").auth(&old)).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
    // Unknown.
    upstream.set(Script::on_request(|exchange| {
        exchange.execute();
        exchange.close();
    }));
    gate.send(&Req::pay("k2").auth(&old)).expect(502, "outcome-unknown", "unknown");
    gate.send(&Req::pay("k2").auth(&new)).expect(409, "caller-changed", "not-executed");
    // A new key is a new operation, also under the new token.
    upstream.set(Script::pay());
    gate.send(&Req::pay("k3").auth(&new)).expect(201, "", "executed");
}

#[test]
fn issuer_and_subject_name_the_caller_of_a_jwt() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let token = |claims: &str| jwt(claims, "c2ln");
    gate.send(&Req::pay("k1").auth(&token(r#"{"iss":"x","sub":"alice"}"#))).expect(201, "", "executed");
    // Another issuer or subject is another caller.
    gate.send(&Req::pay("k1").auth(&token(r#"{"iss":"y","sub":"alice"}"#))).expect(201, "", "executed");
    gate.send(&Req::pay("k1").auth(&token(r#"{"iss":"x","sub":"bob"}"#))).expect(201, "", "executed");
    gate.send(&Req::pay("k1").auth(&token(r#"{"sub":"alice"}"#))).expect(201, "", "executed");
    // Another credential of the first.
    let refreshed = token(r#"{"sub":"alice","iss":"x","exp":9}"#);
    gate.send(&Req::pay("k1").auth(&refreshed)).expect(409, "caller-changed", "not-executed");
    // The scheme has no letter case, and belongs to the credential all the same.
    let lower = Req::pay("k1").without("authorization").header("Authorization", &format!("bearer {refreshed}"));
    gate.send(&lower).expect(409, "caller-changed", "not-executed");
    // No issuer counts as the empty one.
    let empty = token(r#"{"iss":"","sub":"alice"}"#);
    gate.send(&Req::pay("k1").auth(&empty)).expect(409, "caller-changed", "not-executed");
    assert_eq!(upstream.executions("k1"), 4);
}

#[test]
fn what_has_not_the_form_of_a_jwt_is_the_credential_itself() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let object = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let subject = URL_SAFE_NO_PAD.encode(r#"{"sub":"alice"}"#);
    let no_subject = URL_SAFE_NO_PAD.encode(r#"{"sub":""}"#);
    let number = URL_SAFE_NO_PAD.encode(r#"{"sub":7}"#);
    let tokens = [
        "opaque".to_owned(),
        "opaque2".to_owned(),
        format!("{object}.{no_subject}.a"),
        format!("{object}.{no_subject}.b"),
        format!("{object}.{number}.a"),
        format!("{object}.{subject}"),
        format!("{object}.{subject}.a.b"),
        format!("bm90anNvbg.{subject}.a"),
        format!("{object}.{subject}.!"),
    ];
    for token in &tokens {
        let answer = gate.send(&Req::pay("k1").auth(token));
        assert_eq!((answer.status, answer.idempotency()), (201, "executed"), "{token}");
    }
    assert_eq!(upstream.executions("k1"), tokens.len());
}

#[test]
fn the_first_jwt_is_logged_once_with_the_cure() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    for sub in ["alice", "bob"] {
        let token = jwt(&format!(r#"{{"sub":"{sub}"}}"#), "c2ln");
        gate.send(&Req::pay("k1").auth(&token)).expect(201, "", "executed");
    }
    gate.wait_log_text("jwt:sub");
    assert_eq!(gate.log_count("jwt:sub"), 1);
    assert!(!gate.log_text().contains("alice"));
}

#[test]
fn an_anonymous_request_with_a_key_is_refused_with_the_two_remedies() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let answer = gate.send(&Req::post("/pay").key("k1"));
    answer.expect(400, "caller-unknown", "not-executed");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("scope") && detail.contains("anonymous"), "{detail}");
    // Without a key nothing is protected, and nobody need be known.
    gate.send(&Req::post("/pay")).expect(201, "", "");
    gate.send(&Req::post("/pay").key("k1").header("X-API-Key", "a")).expect(201, "", "executed");
    assert_eq!(upstream.executions_total(), 2);
}

#[test]
fn anonymous_callers_can_share_but_never_with_a_cookie() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("anonymous = \"share\"").start();
    let request = Req::post("/pay").key("k1");
    gate.send(&request).expect(201, "", "executed");
    gate.send(&request).expect(201, "", "replayed");
    gate.send(&request.clone().header("Cookie", "session=1")).expect(400, "caller-unknown", "not-executed");
    gate.send(&request.clone().auth("a").header("Cookie", "session=1")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 2);
}

#[test]
fn one_scope_for_all_has_no_anonymous_callers() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("scope = []").start();
    gate.send(&Req::post("/pay").key("k1")).expect(201, "", "executed");
    gate.send(&Req::pay("k1").header("Cookie", "a=b")).expect(201, "", "replayed");
    gate.send(&Req::pay("k1").auth("b")).expect(201, "", "replayed");
    assert_eq!(upstream.executions("k1"), 1);
}

#[test]
fn a_source_that_occurs_twice_is_refused() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .defaults("scope = [\"header:Authorization\", \"header:X-API-Key\", \"cookie:sid\"]")
        .start();
    let twice = [
        Req::pay("k1").header("Authorization", "Bearer b"),
        Req::pay("k1").header("Authorization", "Bearer a"),
        Req::pay("k1").header("X-API-Key", "1").header("x-api-key", "1"),
        Req::pay("k1").header("Cookie", "sid=1; sid=2"),
        Req::pay("k1").header("Cookie", "sid=1").header("Cookie", "sid=1"),
    ];
    for request in twice {
        gate.send(&request).expect(400, "request-invalid", "not-executed");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_cookie_can_be_the_caller() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("scope = [\"cookie:sid\"]").start();
    let request = |cookie: &str| Req::post("/pay").key("k1").header("Cookie", cookie);
    gate.send(&request("sid=1; theme=dark")).expect(201, "", "executed");
    gate.send(&request("theme=light; sid=1")).expect(201, "", "replayed");
    gate.send(&request("sid=2")).expect(201, "", "executed");
    gate.send(&request("SID=1")).expect(400, "caller-unknown", "not-executed");
    gate.send(&request("xsid=1")).expect(400, "caller-unknown", "not-executed");
    gate.send(&Req::post("/pay").key("k1").auth("a")).expect(400, "caller-unknown", "not-executed");
    assert_eq!(upstream.executions("k1"), 2);
}

#[test]
fn all_present_sources_together_name_the_caller() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    gate.send(&Req::pay("k1").header("X-API-Key", "1")).expect(201, "", "executed");
    gate.send(&Req::pay("k1").header("X-API-Key", "2")).expect(201, "", "executed");
    gate.send(&Req::pay("k1").header("X-API-Key", "2")).expect(201, "", "replayed");
    // The same value in another source is another caller.
    gate.send(&Req::post("/pay").key("k1").header("X-API-Key", "Bearer a")).expect(201, "", "executed");
    assert_eq!(upstream.executions("k1"), 4);
}

#[test]
fn basic_credentials_name_a_caller_too() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let request = |value: &str| Req::post("/pay").key("k1").header("Authorization", value);
    gate.send(&request("Basic YTpi")).expect(201, "", "executed");
    gate.send(&request("Basic YTpi")).expect(201, "", "replayed");
    gate.send(&request("Basic YTpj")).expect(201, "", "executed");
}
