//! Tests of `config::places`.

use proptest::prelude::*;

use super::*;

fn parse<T: Text>(text: &str) -> Result<T, String> {
    <T as Text>::parse(text).map_err(|complaint| complaint.message)
}

fn tcp(host: &str, port: u16) -> Target {
    Target::Tcp { host: host.to_owned(), port }
}

#[test]
fn listeners_are_host_and_port_or_a_socket() {
    for text in ["127.0.0.1:8080", "localhost:0", "[::1]:8080", "[::]:65535", "my-host_1.example:80"] {
        assert_eq!(parse::<Listen>(text), Ok(Listen::Tcp(text.to_owned())));
    }
    assert_eq!(parse::<Listen>("unix:/run/a.sock"), Ok(Listen::Unix("/run/a.sock".into())));
    assert_eq!(parse::<Listen>("unix:a.sock"), Ok(Listen::Unix("a.sock".into())));
    for text in [
        "",
        ":80",
        "host",
        "8080",
        "host:",
        "host:99999",
        "host:-1",
        "::1:80",
        "[::1]80",
        "[x]:80",
        "a b:80",
        "unix:",
        "http://a:80",
    ] {
        assert!(parse::<Listen>(text).is_err(), "{text}");
    }
    let long = format!("unix:/{}", "a".repeat(107));
    assert_eq!(parse::<Listen>(&long), Err("the path of a unix socket has at most 107 bytes".to_owned()));
}

#[test]
fn the_admin_listener_can_be_off() {
    assert!(parse::<AdminListen>("off").is_ok_and(|listen| listen.0.is_none()));
    assert!(parse::<AdminListen>("[::1]:9180").is_ok_and(|listen| listen.0.as_deref() == Some("[::1]:9180")));
    assert!(parse::<AdminListen>("none").is_err());
    assert!(parse::<AdminListen>("unix:/a").is_err());
}

#[test]
fn the_upstream_is_a_place_and_nothing_more() {
    for (text, target) in [
        ("http://127.0.0.1:9000", tcp("127.0.0.1", 9000)),
        ("http://api.internal", tcp("api.internal", 80)),
        ("HTTP://api.internal:81/", tcp("api.internal", 81)),
        ("http://[::1]:9000", tcp("::1", 9000)),
        ("http://[::1]", tcp("::1", 80)),
        ("unix:/run/app.sock", Target::Unix("/run/app.sock".into())),
        ("unix:///run/app.sock", Target::Unix("/run/app.sock".into())),
        ("unix:app.sock", Target::Unix("app.sock".into())),
    ] {
        assert_eq!(parse::<Target>(text), Ok(target), "{text}");
    }
    for (text, message) in [
        ("127.0.0.1:9000", "the URL has no scheme"),
        ("", "the URL has no scheme"),
        ("https://a", "`https` is not supported by this version"),
        ("ftp://a", "the scheme of the URL is not known here"),
        ("http://u:p@a", "a URL with a user or password is not accepted here"),
        ("http://a/b", "paths are not rewritten: the URL ends after host and port"),
        ("http://a?b", "paths are not rewritten: the URL ends after host and port"),
        ("http://a/#b", "paths are not rewritten: the URL ends after host and port"),
        ("http://", "`` has no host"),
        ("http://:80", "`:80` has no host"),
        ("http://a:0", "nothing listens on port 0"),
        ("http://a:x", "`x` is not a port"),
        ("http://a b", "`a b` is not a host name"),
        ("unix:", "there is no path after `unix:`"),
    ] {
        assert_eq!(parse::<Target>(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn a_scope_source_is_a_header_or_a_cookie() {
    let header = |name: &'static str| ScopeSource::Header(HeaderNameOrd(HeaderName::from_static(name)));
    assert_eq!(parse("header:X-API-Key"), Ok(header("x-api-key")));
    assert_eq!(parse("cookie:__Host-Session"), Ok(ScopeSource::Cookie("__Host-Session".to_owned())));
    for text in [
        "",
        "X-API-Key",
        "header:",
        "cookie:",
        "header:a b",
        "cookie:a=b",
        "header:Host",
        "header:TE",
        "header:cookie",
        "jwt:sub",
        "client-cert",
        "trusted-header:X",
        "Header:X",
    ] {
        assert!(parse::<ScopeSource>(text).is_err(), "{text}");
    }
}

#[test]
fn a_network_may_be_one_address() {
    for (text, network) in
        [("10.0.0.0/8", "10.0.0.0/8"), ("10.1.2.3", "10.1.2.3/32"), ("::1", "::1/128"), ("fd00::/8", "fd00::/8")]
    {
        assert_eq!(parse::<IpNet>(text).unwrap().to_string(), network);
    }
    for text in ["", "10.0.0.0/33", "10.0.0", "localhost", "10.0.0.0/"] {
        assert_eq!(parse::<IpNet>(text), Err(format!("`{text}` is not a network")));
    }
}

#[test]
fn names_keep_to_what_logs_and_stores_can_hold() {
    for text in ["create-payment", "POST /payments", &"a".repeat(100)] {
        assert!(parse::<Named>(text).is_ok(), "{text}");
    }
    for text in ["", " a", "a\n", "é", "_defaults", &"a".repeat(101)] {
        assert!(parse::<Named>(text).is_err(), "{text}");
    }
    for text in ["oncegate", "A.b_c-1", &"a".repeat(64)] {
        assert!(parse::<Namespace>(text).is_ok(), "{text}");
    }
    for text in ["", "a{b}", "a b", "a:b", "é", &"a".repeat(65)] {
        assert!(parse::<Namespace>(text).is_err(), "{text}");
    }
    assert!(parse::<ProblemBase>("https://a.example/problems/").is_ok());
    for text in ["", "a b", "é", "a\"b"] {
        assert!(parse::<ProblemBase>(text).is_err(), "{text}");
    }
}

#[test]
fn the_rest_of_the_texts_is_judged_by_who_knows() {
    assert!(parse::<AnyHost>("").is_ok_and(|host| host.0.is_none()));
    assert!(parse::<AnyHost>("a.example").is_ok_and(|host| host.0.is_some()));
    assert!(parse::<Pattern>("").is_ok_and(|pattern| pattern.0.is_none()));
    assert!(parse::<Pattern>("[a-f0-9]{32}").is_ok_and(|pattern| pattern.0.is_some()));
    assert!(
        parse::<Pattern>("(").is_err_and(|message| message == "the regular expression is not valid: unclosed group")
    );
    assert!(parse::<Token>("").is_ok_and(|token| token.0.is_none()));
    assert!(parse::<Token>("a.b_~+/=!").is_ok_and(|token| token.0.as_deref() == Some("a.b_~+/=!")));
    assert!(parse::<Token>("a b").is_err());
}

proptest! {
    #[test]
    fn any_text_is_a_place_or_a_complaint(text in any::<String>()) {
        let _ = (parse::<Listen>(&text), parse::<AdminListen>(&text), parse::<Target>(&text));
        let _ = (parse::<IpNet>(&text), parse::<ScopeSource>(&text), parse::<Pattern>(&text).is_ok());
    }
}
