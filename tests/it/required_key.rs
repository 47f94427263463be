//! Which header values are keys, which are the same key, and what a request without one meets.

use crate::harness::{client::Req, gate::Gate, upstream::Upstream};

/// A POST with these raw key lines.
fn with_lines(lines: &[&str]) -> Req {
    lines.iter().fold(Req::post("/pay").auth("a"), |request, line| request.header("Idempotency-Key", line))
}

#[test]
fn quoted_and_bare_are_the_same_key_and_letters_count() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&with_lines(&["\"k1\""])).expect(201, "", "executed");
    gate.send(&with_lines(&["k1"])).expect(201, "", "replayed");
    gate.send(&with_lines(&["  \"k1\"  "])).expect(201, "", "replayed");
    gate.send(&with_lines(&["K1"])).expect(201, "", "executed");
    gate.send(&with_lines(&[r#""a\"b\\c""#])).expect(201, "", "executed");
    gate.send(&with_lines(&[r#""a\"b\\c""#])).expect(201, "", "replayed");
    assert_eq!(upstream.executions_total(), 3);
}

#[test]
fn the_upstream_gets_the_key_as_it_was_sent() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    gate.send(&with_lines(&[r#""a\"b c""#])).expect(201, "", "executed");
    assert_eq!(upstream.last_request().values("idempotency-key"), [r#""a\"b c""#]);
}

#[test]
fn unusual_keys_that_are_keys() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let longest = "x".repeat(255);
    let quoted_longest = format!("\"{}\"", "y".repeat(255));
    let keys = [
        "8e03978e-40d5-43e8-bc93-6894a57f9324",
        ":a/b?c=d&e",
        "?1",
        "17",
        "!#$%&'()*+-./:<=>?@[]^_`{|}~",
        "\"a, b; c\"",
        &longest,
        &quoted_longest,
    ];
    for key in keys {
        let answer = gate.send(&with_lines(&[key]));
        assert_eq!((answer.status, answer.idempotency()), (201, "executed"), "{key:?}");
        assert_eq!(gate.send(&with_lines(&[key])).idempotency(), "replayed", "{key:?}");
    }
    assert_eq!(upstream.executions_total(), keys.len());
}

#[test]
fn a_bad_key_is_never_no_key() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let too_long = "x".repeat(256);
    let too_long_quoted = format!("\"{}\"", "x".repeat(256));
    let cases: &[(&str, &[&str])] = &[
        ("two lines", &["k1", "k2"]),
        ("two equal lines", &["\"k1\"", "\"k1\""]),
        ("a string over two lines", &["\"foo", "bar\""]),
        ("a list", &["\"a\", \"b\""]),
        ("a bare list", &["a, b"]),
        ("an empty line", &[""]),
        ("an empty string", &["\"\""]),
        ("white space", &["   "]),
        ("256 characters", &[&too_long]),
        ("256 quoted characters", &[&too_long_quoted]),
        ("a byte beyond ASCII", &["\u{ff}"]),
        ("a byte beyond ASCII, quoted", &["\"\u{e9}\""]),
        ("an open quote", &["\"abc"]),
        ("a closing quote", &["abc\""]),
        ("parameters", &["\"abc\";v=1"]),
        ("bare parameters", &["abc;v=1"]),
        ("a quote inside", &["a\"b"]),
        ("a backslash", &["a\\b"]),
        ("a wrong escape", &[r#""a\b""#]),
        ("a space inside", &["a b"]),
        ("a tab inside", &["\"a\tb\""]),
        ("something behind the string", &["\"a\" b"]),
    ];
    for (name, lines) in cases {
        let mut client = gate.connect();
        let answer = client.expect_usable(&with_lines(lines));
        assert_eq!(answer.verdict(), (400, "key-invalid".to_owned(), "not-executed".to_owned()), "{name}");
        // The body was consumed: what follows is the next request, not the rest of this one.
        client.expect_usable(&Req::get("/after"));
    }
    assert_eq!(upstream.executions("/after"), cases.len());
    assert_eq!(upstream.requests().len(), cases.len(), "nothing but what came after");
}

#[test]
fn a_route_that_requires_a_key_refuses_without_one() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .route("name = \"pay\"\npath = \"/pay\"\nmethods = [\"POST\"]\nkey = { required = true }")
        .start();
    let answer = gate.send(&Req::post("/pay").auth("a"));
    answer.expect(400, "key-missing", "not-executed");
    gate.send(&Req::pay("k1")).expect(201, "", "executed");
    // Elsewhere, and under other methods, nothing is required.
    gate.send(&Req::post("/other").auth("a")).expect(201, "", "");
    gate.send(&Req::get("/pay").auth("a")).expect(201, "", "");
    assert_eq!(upstream.executions_total(), 3);
}

#[test]
fn no_look_alike_of_a_path_walks_around_its_required_key() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .route("name = \"pay\"\npath = \"/api/pay\"\nmethods = [\"POST\"]\nkey = { required = true }")
        .start();
    let look_alikes = [
        "/api/pay",
        "/api/pay/",
        "//api//pay",
        "/api/./pay",
        "/api/x/../pay",
        "/%61pi/p%61y",
        "/api%2Fpay",
        "/api%2fpay",
        "/api/pay;v=1",
        "/api;x/pay;y/",
        "/api/%2e/pay",
        "/api/x/%2E%2E/pay",
        "/api/pay?key=1",
        "/api/pay/.",
        "http://api.test/api/pay",
    ];
    for path in look_alikes {
        let answer = gate.send(&Req::post(path).auth("a"));
        assert_eq!(answer.verdict(), (400, "key-missing".to_owned(), "not-executed".to_owned()), "{path}");
    }
    assert_eq!(upstream.executions_total(), 0);
    // The upstream gets the bytes that were sent.
    gate.send(&Req::post("//api/./p%61y;v=1").auth("a").key("k")).expect(201, "", "executed");
    assert_eq!(upstream.last_request().target, "//api/./p%61y;v=1");
}

#[test]
fn letter_case_is_another_path_unless_the_route_ignores_it() {
    let upstream = Upstream::paying();
    let route = "name = \"pay\"\npath = \"/pay\"\nkey = { required = true }";
    let gate = Gate::before(&upstream).route(route).start();
    gate.send(&Req::post("/PAY").auth("a")).expect(201, "", "");
    let gate = Gate::before(&upstream).route(&format!("{route}\nignore_case = true")).start();
    gate.send(&Req::post("/PAY").auth("a")).expect(400, "key-missing", "not-executed");
}

#[test]
fn a_method_override_does_not_walk_around_a_required_key() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream)
        .route("name = \"pay\"\npath = \"/pay\"\nmethods = [\"POST\"]\nkey = { required = true }")
        .start();
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        for value in ["POST", "post", " POST "] {
            let answer = gate.send(&Req::get("/pay").auth("a").header(name, value));
            assert_eq!((answer.status, answer.slug().as_str()), (400, "request-invalid"), "{name}: {value}");
        }
        let answer = gate.send(&Req::get("/pay").auth("a").header(name, "DELETE"));
        assert_eq!(answer.status, 201, "{name}: DELETE");
    }
    assert_eq!(upstream.executions_total(), 3);
}

#[test]
fn a_connection_header_that_names_the_key_or_the_caller_is_refused() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).start();
    let options = [
        "close, Idempotency-Key",
        "idempotency-key",
        "keep-alive, AUTHORIZATION",
        "X-API-Key",
        "Host",
        "Content-Length",
        "x, \u{ff}, content-length",
        "Transfer-Encoding",
    ];
    for value in options {
        let answer = gate.send(&Req::pay("k1").header("Connection", value));
        assert_eq!(answer.verdict(), (400, "request-invalid".to_owned(), "not-executed".to_owned()), "{value}");
    }
    let two_lines = Req::pay("k1").header("Connection", "keep-alive").header("Connection", "Idempotency-Key");
    gate.send(&two_lines).expect(400, "request-invalid", "not-executed");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn another_header_can_be_the_key() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("key = { header = \"X-Request-Key\" }").start();
    let request = Req::post("/pay").auth("a").header("x-request-key", "k1");
    gate.send(&request).expect(201, "", "executed");
    gate.send(&request).expect(201, "", "replayed");
    // The usual name means nothing then.
    gate.send(&Req::pay("k9")).expect(201, "", "");
    gate.send(&Req::pay("k9")).expect(201, "", "");
    assert_eq!(upstream.executions("k9"), 2);
}

#[test]
fn length_and_pattern_are_the_routes() {
    let upstream = Upstream::paying();
    let gate = Gate::before(&upstream).defaults("key = { max_length = 8, pattern = \"[0-9a-f]+\" }").start();
    gate.send(&with_lines(&["\"00ff\""])).expect(201, "", "executed");
    gate.send(&with_lines(&["12345678"])).expect(201, "", "executed");
    for key in ["123456789", "xyz", "00ffx", "x00ff", "00FF"] {
        let answer = gate.send(&with_lines(&[key]));
        assert_eq!(answer.verdict(), (400, "key-invalid".to_owned(), "not-executed".to_owned()), "{key}");
    }
}
