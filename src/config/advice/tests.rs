//! Tests of `config::advice`.

use std::path::Path;

use crate::config::{Severity, parse};

const UPSTREAM: &str =
    "[upstream]\nurl = \"http://127.0.0.1:9000\"\nresponse_timeout = \"1s\"\nmax_execution = \"1s\"\n";

/// What is said about a valid configuration, but for the note on opaque credentials.
fn said(rest: &str, env: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let text = format!("{UPSTREAM}{rest}");
    let loaded = parse(&text, "a", Path::new(""), env).unwrap_or_else(|problems| panic!("{problems}"));
    let warnings = loaded.warnings.iter().filter(|problem| problem.severity == Severity::Warning);
    warnings.map(|problem| format!("{}:{}: {}", problem.line, problem.column, problem.message)).collect()
}

fn warned(rest: &str) -> Vec<String> {
    said(rest, &|_| None)
}

const NOTHING: Vec<String> = Vec::new();

#[test]
fn a_plain_configuration_is_not_warned_about() {
    assert_eq!(warned(""), NOTHING);
    assert_eq!(warned("[defaults]\nscope = []"), NOTHING);
    assert_eq!(warned("[defaults]\nanonymous = \"share\""), NOTHING);
    assert_eq!(warned("[defaults]\nmethods = [\"PUT\"]\nunknown = \"retry\""), NOTHING);
    assert_eq!(warned("[store]\nurl = \"redis://redis\""), NOTHING);
}

#[test]
fn a_lease_longer_than_the_retention_is_unwise() {
    let expected = "`lease` (30s) is longer than `retention` (20s)";
    assert_eq!(warned("[defaults]\nretention = \"20s\""), [format!("6:13: {expected}")]);
    let route = "[[route]]\nname = \"a\"\npath = \"/a\"\n";
    assert_eq!(warned(&format!("{route}retention = \"20s\"")), [format!("8:13: {expected}")]);
    // A route that takes it over is not told again.
    assert_eq!(warned(&format!("[defaults]\nretention = \"20s\"\n{route}")).len(), 1);
}

#[test]
fn an_anonymous_rule_without_a_scope_is_unwise() {
    let expected = "`anonymous` means nothing here: with `scope = []` all callers are one";
    assert_eq!(warned("[defaults]\nscope = []\nanonymous = \"share\""), [format!("7:13: {expected}")]);
    let route = "[[route]]\nname = \"a\"\npath = \"/a\"\n";
    assert_eq!(warned(&format!("{route}scope = []\nanonymous = \"reject\"")), [format!("9:13: {expected}")]);
    assert_eq!(warned(&format!("[defaults]\nanonymous = \"share\"\n{route}scope = []")), NOTHING);
}

#[test]
fn executing_a_doubtful_post_again_is_unwise() {
    let expected = "`unknown = \"retry\"` executes a POST again whose outcome nobody knows";
    assert_eq!(warned("[defaults]\nunknown = \"retry\""), [format!("6:11: {expected}")]);
    let route = "[[route]]\nname = \"a\"\npath = \"/a\"\n";
    assert_eq!(
        warned(&format!("[defaults]\nmethods = [\"PUT\"]\nunknown = \"retry\"\n{route}methods = [\"PUT\", \"POST\"]")),
        [format!("11:19: {expected}")]
    );
    assert_eq!(warned(&format!("{route}methods = [\"PUT\"]\nunknown = \"retry\"")), NOTHING);
}

#[test]
fn a_store_that_forgets_is_unwise() {
    assert_eq!(warned("[store]\nurl = \"memory:\""), ["6:7: `memory:` is for tries and tests"]);
    let kubernetes = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.0.0.1".to_owned());
    assert_eq!(said("", &kubernetes), ["1:1: an embedded store under Kubernetes"]);
    assert_eq!(said("[store]\nurl = \"file:/a\"", &kubernetes), ["6:7: an embedded store under Kubernetes"]);
    assert_eq!(said("[store]\nurl = \"redis://redis\"", &kubernetes), NOTHING);
}

#[test]
fn a_body_that_never_fits_is_unwise() {
    let limit = "[limits]\nbody_memory = \"2MiB\"\n";
    assert_eq!(
        warned(&format!("{limit}[defaults]\nmax_request_body = \"3MiB\"")),
        ["8:20: a body of 3MiB does not fit into `limits.body_memory` (2MiB)"]
    );
    assert_eq!(warned(&format!("{limit}[defaults]\nmax_request_body = \"2MiB\"")), NOTHING);
}

#[test]
fn a_route_that_can_never_match_is_unwise() {
    let routes = "[[route]]\nname = \"a\"\npath = \"/a/{x}\"\n[[route]]\nname = \"b\"\npath = \"/a/{y}\"\n";
    assert_eq!(warned(routes), ["10:8: this route can never match"]);
}

#[test]
fn opaque_credentials_are_worth_one_note() {
    let notes = |rest: &str| {
        let text = format!("{UPSTREAM}{rest}");
        let loaded = parse(&text, "a", Path::new(""), &|_| None).unwrap();
        let notes = loaded.warnings.into_iter().filter(|problem| problem.severity == Severity::Note);
        notes.map(|note| (note.line, note.column)).collect::<Vec<_>>()
    };
    let route = |name: &str, rest: &str| format!("[[route]]\nname = \"{name}\"\npath = \"/{name}\"\n{rest}\n");
    assert_eq!(notes(""), [(1, 1)]);
    assert_eq!(notes(&(route("a", "") + &route("b", ""))), [(1, 1)]);
    let keys = "[defaults]\nscope = [\"header:X-API-Key\"]\n";
    assert_eq!(notes(keys), []);
    assert_eq!(notes(&format!("{keys}{}", route("a", "scope = [\"header:authorization\"]"))), [(10, 10)]);
    assert_eq!(notes("[defaults]\nmode = \"off\""), []);
}
