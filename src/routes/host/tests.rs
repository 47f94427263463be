//! Tests of `routes::host`.

use super::*;

fn matches(pattern: &str, authority: &str) -> bool {
    HostPattern::parse(pattern).unwrap().matches(of_authority(authority))
}

#[test]
fn letter_case_port_and_the_final_dot_do_not_count() {
    for authority in
        ["api.example.com", "API.Example.COM", "api.example.com:8443", "api.example.com.", "api.example.com.:80"]
    {
        assert!(matches("api.example.com", authority), "{authority}");
        assert!(matches("Api.Example.com.", authority), "{authority}");
    }
    for authority in
        ["", "example.com", "api.example.com.evil", "xapi.example.com", "api.example.com:80:80", "api.example.com:x"]
    {
        assert!(!matches("api.example.com", authority), "{authority}");
    }
}

#[test]
fn a_star_stands_for_one_label_or_more() {
    for authority in ["a.example.com", "a.b.example.com:80", "A.EXAMPLE.COM."] {
        assert!(matches("*.example.com", authority), "{authority}");
    }
    for authority in ["example.com", ".example.com", "aexample.com", "a.example.org", "é.example.co"] {
        assert!(!matches("*.example.com", authority), "{authority}");
    }
}

#[test]
fn addresses_are_hosts_too() {
    assert!(matches("[::1]", "[::1]:8080"));
    assert!(matches("[::1]", "[::1]"));
    assert!(matches("10.0.0.1", "10.0.0.1:80"));
    assert!(!matches("[::1]", "[::2]:8080"));
}

#[test]
fn what_is_not_a_pattern_is_refused_with_a_reason() {
    let parse = |text: &str| HostPattern::parse(text).unwrap_err();
    assert_eq!(parse("api.example.com:80"), HostError::Port);
    assert_eq!(parse("[::1]:80"), HostError::Port);
    assert_eq!(parse("*"), HostError::Star);
    assert_eq!(parse("a.*.com"), HostError::Star);
    assert_eq!(parse("*example.com"), HostError::Star);
    for text in ["", "a..b", ".a", "*.", "*.[::1]", "[::x]", "a b", "a/b", "user@a"] {
        assert_eq!(parse(text), HostError::Malformed(text.to_owned()));
    }
    assert_eq!(parse("café.example"), HostError::NotAscii("café.example".to_owned()));
}

#[test]
fn one_pattern_covers_another_if_it_matches_all_its_hosts() {
    let covers = |one: &str, other: &str| HostPattern::parse(one).unwrap().covers(&HostPattern::parse(other).unwrap());
    assert!(covers("a.example.com", "A.example.com"));
    assert!(covers("*.example.com", "a.example.com"));
    assert!(covers("*.example.com", "*.example.com"));
    assert!(covers("*.example.com", "*.a.example.com"));
    assert!(!covers("*.a.example.com", "*.example.com"));
    assert!(!covers("a.example.com", "*.example.com"));
    assert!(!covers("*.example.com", "example.com"));
}
