//! Tests of `cli::explain::report`.

use std::path::Path;

use super::*;
use crate::config;

const FILE: &str = r#"
[upstream]
url = "http://127.0.0.1:9000"

[[route]]
name = "pay"
path = "/api/payments/{id}"
host = "*.example.com"
methods = ["POST"]
key = { required = true, pattern = "[a-z0-9-]+" }
scope = ["header:Authorization", "cookie:sid"]
fingerprint = { body = "json", ignore = ["/at"], headers = ["X-Tenant"] }
unknown = "retry"
in_flight = "wait"
retention = "7d"
max_request_body = "10B"
"#;

fn told(method: &str, target: &str, lines: &[&str], data: Option<&str>) -> String {
    let loaded = config::parse(FILE, "oncegate.toml", Path::new(""), &|_| None).expect("a valid file");
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let described = Described::parse(method, target, &lines, data).expect("a request");
    explain(&loaded.settings, &described)
}

#[track_caller]
fn has(report: &str, label: &str, text: &str) {
    let line = format!("{label:<12} {text}");
    assert!(report.lines().any(|have| have == line), "no line {line:?} in\n{report}");
}

const AUTH: &str = "Authorization: Bearer hunter2";
const HOST: &str = "Host: api.example.com";

#[test]
fn a_protected_request_is_told_in_full_and_without_its_secrets() {
    let report = told("POST", "/api/payments/7?x=1", &[HOST, AUTH, "Idempotency-Key: s3cret-1"], Some("{}"));
    has(&report, "request", "POST /api/payments/7?x=1");
    has(&report, "host", "api.example.com");
    has(&report, "route", "pay (*.example.com/api/payments/{id})");
    has(&report, "policy", "mode enforce, methods POST");
    has(&report, "", "key idempotency-key required, at most 255 bytes");
    has(&report, "", "scope header:authorization cookie:sid, anonymous reject");
    has(&report, "", "in_flight wait 10s, unknown retry, store_down reject");
    has(&report, "", "lease 30s, retention 7d");
    has(&report, "protected", "yes: idempotency-key carries a key of 8 bytes");
    has(&report, "caller", "by header:authorization");
    assert!(report.contains("x-tenant, body (2 bytes, as json without /at; raw if it is none)"), "{report}");
    for secret in ["hunter2", "s3cret"] {
        assert!(!report.contains(secret), "{report}");
    }
    let hex = |label: &str| {
        let line = report.lines().find_map(|line| line.strip_prefix(label)).expect("the line").trim().to_owned();
        assert!(line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
        line
    };
    assert_ne!(hex("fingerprint"), hex("cell"));
}

#[test]
fn refusals_and_bypasses_say_why() {
    let key = "Idempotency-Key: k";
    let cases: [(&str, &[&str], Option<&str>, &str); 7] = [
        (
            "POST",
            &[HOST, AUTH],
            None,
            "refused: 400 key-missing (the route has key.required = true, and there is no key)",
        ),
        (
            "POST",
            &[HOST, AUTH, "Idempotency-Key: K!"],
            None,
            "refused: 400 key-invalid (the key does not match key.pattern)",
        ),
        (
            "POST",
            &[HOST, key],
            None,
            "refused: 400 caller-unknown (none of the scope sources names the caller; see scope and anonymous)",
        ),
        (
            "POST",
            &[HOST, AUTH, key],
            Some("12345678901"),
            "refused: 413 request-too-large (the body is larger than max_request_body = 10B)",
        ),
        (
            "PUT",
            &[HOST, AUTH, "X-HTTP-Method-Override: post"],
            None,
            "refused: 400 request-invalid (a method override asks for a method that requires a key)",
        ),
        ("GET", &[HOST], None, "no: the method is not one of POST PATCH"),
        ("POST", &[AUTH], None, "no: it carries no idempotency-key, and none is required"),
    ];
    for (method, lines, data, text) in cases {
        has(&told(method, "/api/payments/7", lines, data), "protected", text);
    }
}

#[test]
fn a_url_names_the_host_and_controls_do_not_reach_the_terminal() {
    let report = told("POST", "http://a.example.com/api/payments/7", &[AUTH, "Idempotency-Key: k"], None);
    has(&report, "host", "a.example.com");
    let report = told("POST", "/", &["Host: \u{9b}31m"], None);
    assert!(report.chars().all(|c| c == '\n' || !c.is_control()), "{report:?}");
}

#[test]
fn what_is_no_request_is_refused_without_repeating_a_header() {
    let line = ["Authorization hunter2".to_owned()];
    let error = Described::parse("POST", "/", &line, None).expect_err("not a header");
    assert_eq!(error.to_string(), "header 1 is not of the form 'Name: value'");
    for (method, target) in [("PO ST", "/"), ("POST", "payments"), ("POST", "example.com:80"), ("POST", "*")] {
        assert!(Described::parse(method, target, &[], None).expect_err("refused").is_usage(), "{method} {target}");
    }
}
