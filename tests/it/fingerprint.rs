//! What counts as the same request, as a route's `fingerprint` says.

use crate::harness::{client::Req, gate::Gate, upstream::Upstream};

/// Starts a gate with this fingerprint.
fn gate(upstream: &Upstream, fingerprint: &str) -> Gate {
    Gate::before(upstream).defaults(&format!("fingerprint = {fingerprint}")).start()
}

fn with(content_type: &str, key: &str, body: &str) -> Req {
    Req::new("POST", "/pay").auth("a").key(key).header("Content-Type", content_type).body(body)
}

/// Sends `first` and then every other body under its key: `same` ones are replays, `different` ones are refused.
#[track_caller]
fn compare(fingerprint: &str, content_type: &str, first: &str, same: &[&str], different: &[&str]) {
    let upstream = Upstream::paying();
    let gate = gate(&upstream, fingerprint);
    gate.send(&with(content_type, "k", first)).expect(201, "", "executed");
    for body in same {
        let answer = gate.send(&with(content_type, "k", body));
        assert_eq!(answer.idempotency(), "replayed", "{body:?} is {first:?}");
    }
    for body in different {
        let answer = gate.send(&with(content_type, "k", body));
        assert_eq!((answer.status, answer.idempotency()), (422, "mismatch"), "{body:?} is not {first:?}");
    }
    assert_eq!(upstream.executions("k"), 1);
}

#[test]
fn json_ignores_order_and_white_space_and_nothing_else() {
    compare(
        r#"{ body = "json" }"#,
        "application/json",
        r#"{"amount":10.0,"to":{"iban":"DE1","name":"A"},"tags":["a","b"]}"#,
        &[
            r#"{ "to" : {"name":"A","iban":"DE1"}, "tags": [ "a", "b" ], "amount" : 10.0 }"#,
            "{\"tags\":[\"a\",\"b\"],\r\n\t\"amount\":10.0,\"to\":{\"iban\":\"DE1\",\"name\":\"A\"}}\n",
        ],
        &[
            r#"{"amount":10.00,"to":{"iban":"DE1","name":"A"},"tags":["a","b"]}"#,
            r#"{"amount":10,"to":{"iban":"DE1","name":"A"},"tags":["a","b"]}"#,
            r#"{"amount":1e1,"to":{"iban":"DE1","name":"A"},"tags":["a","b"]}"#,
            r#"{"amount":"10.0","to":{"iban":"DE1","name":"A"},"tags":["a","b"]}"#,
            r#"{"amount":10.0,"to":{"iban":"DE1","name":"A"},"tags":["b","a"]}"#,
            r#"{"amount":10.0,"to":{"iban":"DE1","name":"A"}}"#,
            r#"{"amount":10.0,"to":{"iban":"DE1","name":"A"},"tags":["a","b"],"x":null}"#,
        ],
    );
}

#[test]
fn json_compares_large_numbers_byte_for_byte() {
    compare(
        r#"{ body = "json" }"#,
        "application/json",
        r#"{"id":12345678901234567890123}"#,
        &[r#"{ "id": 12345678901234567890123 }"#],
        &[r#"{"id":12345678901234567890124}"#, r#"{"id":1.2345678901234567890123e22}"#],
    );
}

#[test]
fn json_leaves_out_the_ignored_pointers() {
    compare(
        r#"{ body = "json", ignore = ["/sent_at", "/meta/trace", "/items/0/nonce"] }"#,
        "application/json",
        r#"{"amount":1,"sent_at":"1","meta":{"trace":"a","k":1},"items":[{"nonce":1,"n":1}]}"#,
        &[
            r#"{"amount":1,"sent_at":"2","meta":{"trace":"b","k":1},"items":[{"nonce":2,"n":1}]}"#,
            r#"{"amount":1,"meta":{"k":1},"items":[{"n":1}]}"#,
        ],
        &[
            r#"{"amount":2,"sent_at":"1","meta":{"trace":"a","k":1},"items":[{"nonce":1,"n":1}]}"#,
            r#"{"amount":1,"sent_at":"1","meta":{"trace":"a","k":2},"items":[{"nonce":1,"n":1}]}"#,
        ],
    );
}

#[test]
fn json_that_does_not_parse_or_repeats_a_member_is_compared_raw() {
    compare(r#"{ body = "json" }"#, "application/json", "{not json", &[], &["{not  json", "{}"]);
    compare(r#"{ body = "json" }"#, "application/json", r#"{"a":1,"a":2}"#, &[], &[r#"{"a":2,"a":1}"#, r#"{"a":2}"#]);
    compare(r#"{ body = "json" }"#, "application/json", "", &[], &["{}", "null"]);
}

#[test]
fn a_form_ignores_the_order_of_its_names_and_how_they_are_encoded() {
    compare(
        r#"{ body = "form", ignore = ["ts"] }"#,
        "application/x-www-form-urlencoded",
        "to=a+b&amount=1&tag=x&tag=y&ts=1",
        &["amount=1&to=a%20b&tag=x&tag=y&ts=2", "tag=x&tag=y&%74o=a+b&amount=1"],
        &["amount=1&to=a+b&tag=y&tag=x", "amount=2&to=a+b&tag=x&tag=y", "amount=1&to=a+b&tag=x"],
    );
}

#[test]
fn multipart_ignores_its_boundary() {
    let upstream = Upstream::paying();
    let gate = gate(&upstream, r#"{ body = "multipart" }"#);
    let body = |boundary: &str, value: &str| {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{value}\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"f\"; filename=\"x\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--{boundary}--\r\n"
        )
    };
    let request = |boundary: &str, value: &str| {
        with(&format!("multipart/form-data; boundary={boundary}"), "k", &body(boundary, value))
    };
    gate.send(&request("one", "1")).expect(201, "", "executed");
    gate.send(&request("another-boundary", "1")).expect(201, "", "replayed");
    gate.send(&request("one", "2")).expect(422, "key-reused", "mismatch");
    assert_eq!(upstream.executions("k"), 1);
}

#[test]
fn none_compares_no_body_but_everything_else() {
    compare(r#"{ body = "none" }"#, "text/plain", "one", &["two", ""], &[]);
    let upstream = Upstream::paying();
    let gate = gate(&upstream, r#"{ body = "none" }"#);
    gate.send(&Req::pay("k")).expect(201, "", "executed");
    gate.send(&Req::post("/pay?x").auth("a").key("k")).expect(422, "key-reused", "mismatch");
}

#[test]
fn listed_headers_are_compared_with_all_their_lines() {
    let upstream = Upstream::paying();
    let gate = gate(&upstream, r#"{ headers = ["If-Match", "X-Tenant"] }"#);
    let request = || Req::pay("k").header("If-Match", "\"1\"").header("X-Tenant", "t");
    gate.send(&request()).expect(201, "", "executed");
    gate.send(&request()).expect(201, "", "replayed");
    gate.send(&request().header("X-Tenant", "u")).expect(422, "key-reused", "mismatch");
    gate.send(&Req::pay("k").header("If-Match", "\"1\"")).expect(422, "key-reused", "mismatch");
    gate.send(&Req::pay("k").header("If-Match", "\"2\"").header("X-Tenant", "t")).expect(422, "key-reused", "mismatch");
}

#[test]
fn moving_a_byte_from_one_field_to_the_next_is_another_request() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&Req::post("/pay").auth("a").key("k").body("xbody")).expect(201, "", "executed");
    gate.send(&Req::post("/payx").auth("a").key("k").body("body")).expect(422, "key-reused", "mismatch");
}
