//! Tests of `idempotency::policy`.

use http::HeaderName;

use super::{HeaderNameOrd, KeyPattern, ScopeSource};

fn matches(pattern: &str, key: &str) -> bool {
    KeyPattern::new(pattern).unwrap().matches(key)
}

#[test]
fn a_pattern_must_match_the_whole_key() {
    assert!(matches("[0-9]+", "123"));
    assert!(!matches("[0-9]+", "123x"));
    assert!(!matches("[0-9]+", "x123"));
    assert!(!matches("[0-9]+", ""));
}

#[test]
fn each_branch_of_an_alternation_must_match_the_whole_key() {
    assert!(matches("a|ab", "a"));
    assert!(matches("a|ab", "ab"));
    assert!(!matches("a|ab", "abc"));
    assert!(!matches("a|ab", "xab"));
    assert!(matches("a|", ""));
    assert!(!matches("a|", "b"));
}

#[test]
fn a_pattern_may_bring_its_own_anchors() {
    assert!(matches("^a$", "a"));
    assert!(matches("^a$|^b$", "b"));
    assert!(!matches("^a$|^b$", "ab"));
    assert!(matches(r"\Aa\z", "a"));
}

#[test]
fn a_line_end_is_not_the_end() {
    assert!(!matches("a$", "a\n"));
    assert!(!matches("a", "a\n"));
    assert!(!matches("(?m)^a$", "a\nb"));
    assert!(!matches("(?m)^a$", "b\na"));
}

#[test]
fn a_comment_of_verbose_mode_does_not_swallow_the_anchor() {
    assert!(matches("(?x) a b # a comment", "ab"));
    assert!(!matches("(?x) a b # a comment", "abc"));
    assert!(!matches("(?x) a b # a comment", "xab"));
    assert!(matches("(?x) a # one\n b # two )(", "ab"));
    assert!(!matches("(?x) a # one\n b # two )(", "abc"));
    assert!(matches("(?x: a # one\n) b", "a b"));
}

#[test]
fn flags_of_a_pattern_do_not_loosen_the_anchors() {
    assert!(matches("(?i)abc", "ABC"));
    assert!(!matches("(?i)abc", "ABCD"));
    assert!(matches("(?s).+", "ab"));
    assert!(matches("(?U)a+", "aaa"));
    assert!(!matches("(?i-u:k)", "kk"));
}

#[test]
fn usual_patterns_compile() {
    let uuid = r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";
    assert!(matches(uuid, "8e03978e-40d5-43dd-bc93-6894A57F9324"));
    assert!(!matches(uuid, "8e03978e-40d5-43dd-bc93-6894A57F9324 "));
    assert!(matches(r"\w[\w.-]{7,}", "order_17.retry-2"));
    assert!(matches(r"[\p{L}\p{N}]+", "order17"));
}

#[test]
fn what_is_only_valid_within_the_anchoring_group_is_an_error() {
    for pattern in ["a)(b", ")", "(", "(?:a", "a|b)|(c", "[a", "(?x) a # )\n)(", "a\\"] {
        assert!(KeyPattern::new(pattern).is_err(), "{pattern:?}");
    }
}

#[test]
fn a_pattern_shows_its_source_and_is_compared_by_it() {
    let pattern = KeyPattern::new("a|b").unwrap();
    assert_eq!(pattern.source(), "a|b");
    assert_eq!(pattern, KeyPattern::new("a|b").unwrap());
    assert_ne!(pattern, KeyPattern::new("b|a").unwrap());
}

#[test]
fn a_scope_source_is_spelled_as_in_the_configuration() {
    let header = ScopeSource::Header(HeaderNameOrd(HeaderName::from_static("x-api-key")));
    assert_eq!(header.to_string(), "header:x-api-key");
    assert_eq!(ScopeSource::Cookie("Session".into()).to_string(), "cookie:Session");
}
