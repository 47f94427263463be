//! Lines in, lines out.

use std::path::PathBuf;

use http::{Request, Response};

use super::*;
use crate::upstream::{ForwardedStyle, tests::settings};

const STREAMED: Kind = Kind::Streamed { upgrade: false };
const UPGRADING: Kind = Kind::Streamed { upgrade: true };

/// One crossing: what is usual, to be adjusted.
#[derive(Clone)]
struct Case {
    method: Method,
    uri: &'static str,
    peer: Option<&'static str>,
    trusted: bool,
    authority: &'static str,
    version: Version,
    kind: Kind,
    settings: Settings,
}

impl Case {
    fn new() -> Self {
        Self {
            method: Method::GET,
            uri: "/",
            peer: Some("192.0.2.1"),
            trusted: false,
            authority: "api.test",
            version: Version::HTTP_11,
            kind: STREAMED,
            settings: settings(Target::Tcp { host: "app".to_owned(), port: 9000 }),
        }
    }

    fn style(style: ForwardedStyle, trusted: bool) -> Self {
        let mut case = Self { trusted, ..Self::new() };
        case.settings.forwarded = style;
        case
    }

    fn parts(&self, lines: &[&str]) -> request::Parts {
        let mut request = Request::builder().method(&self.method).uri(self.uri).version(self.version).body(()).unwrap();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            // One character, one byte.
            let value: Vec<u8> = value.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect();
            request
                .headers_mut()
                .append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(&value).unwrap());
        }
        request.into_parts().0
    }

    fn sent(&self, lines: &[&str]) -> request::Parts {
        let hop = Hop {
            peer: self.peer.map(|peer| peer.parse().unwrap()),
            trusted: self.trusted,
            scheme: "http",
            authority: self.authority,
            pseudonym: "gate",
            version: self.version,
        };
        outbound(self.parts(lines), &hop, self.kind, &self.settings).unwrap()
    }

    /// The lines that the upstream gets, but for the two that are always there.
    fn lines(&self, lines: &[&str]) -> Vec<String> {
        let mut sent = print(&self.sent(lines).headers);
        sent.retain(|line| line != "host: api.test" && line != "via: 1.1 gate");
        sent
    }
}

fn print(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>();
    headers.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect()
}

fn answered(status: u16, lines: &[&str]) -> Vec<String> {
    let mut response = Response::builder().status(status).body(()).unwrap();
    *response.headers_mut() = Case::new().parts(lines).headers;
    print(&inbound(response.into_parts().0).headers)
}

#[test]
fn the_target_is_in_origin_form_byte_for_byte() {
    for (uri, expected) in [
        ("/", "/"),
        ("//evil/x", "//evil/x"),
        ("/a/%2F/../b;p?q=%20&&", "/a/%2F/../b;p?q=%20&&"),
        ("/a?", "/a?"),
        ("http://other.test/p?q", "/p?q"),
        ("http://other.test", "/"),
        ("http://other.test?q", "/?q"),
        ("*", "*"),
    ] {
        assert_eq!(Case { uri, ..Case::new() }.sent(&[]).uri.to_string(), expected);
    }
}

#[test]
fn options_about_the_server_stay_about_the_server() {
    for (uri, expected) in [
        ("*", "*"),
        ("http://other.test", "*"),
        ("http://other.test/a", "/a"),
        ("http://other.test?q", "/?q"),
        ("/", "/"),
    ] {
        let case = Case { method: Method::OPTIONS, uri, ..Case::new() };
        assert_eq!(case.sent(&[]).uri.to_string(), expected, "{uri}");
    }
    let root = Case { method: Method::OPTIONS, uri: "http://other.test/", ..Case::new() };
    assert_eq!(root.sent(&["access-control-request-method: POST"]).uri, "/");
    assert_eq!(Case { version: Version::HTTP_2, ..root }.sent(&[]).uri, "/");
}

#[test]
fn the_version_is_our_own_and_via_names_theirs() {
    for (version, via) in [(Version::HTTP_10, "1.0"), (Version::HTTP_11, "1.1"), (Version::HTTP_2, "2.0")] {
        let sent = Case { version, ..Case::new() }.sent(&["via: 1.0 fred", "via: 1.1 p.example.net (Apache)", "a: b"]);
        assert_eq!(sent.version, Version::HTTP_11);
        let via = format!("via: 1.0 fred, 1.1 p.example.net (Apache), {via} gate");
        assert_eq!(print(&sent.headers), ["host: api.test", &via, "a: b"]);
    }
}

#[test]
fn host_stands_where_it_stood() {
    let lines = ["a: 1", "host: wrong", "b: 2"];
    assert_eq!(print(&Case::new().sent(&lines).headers), ["a: 1", "host: api.test", "b: 2", "via: 1.1 gate"]);
    assert_eq!(print(&Case::new().sent(&["a: 1"]).headers), ["host: api.test", "a: 1", "via: 1.1 gate"]);
}

#[test]
fn host_is_the_upstreams_own_by_policy_or_for_want_of_another() {
    let tcp = |host: &str, port| Target::Tcp { host: host.to_owned(), port };
    for (target, expected) in [
        (tcp("app", 9000), "app:9000"),
        (tcp("app", 80), "app"),
        (tcp("::1", 9000), "[::1]:9000"),
        (tcp("::1", 80), "[::1]"),
        (Target::Unix(PathBuf::from("/run/app.sock")), "localhost"),
    ] {
        let mut case = Case::new();
        case.settings.target = target;
        case.settings.host = HostPolicy::Upstream;
        assert_eq!(case.sent(&["host: api.test"]).headers["host"], expected);
        case.settings.host = HostPolicy::Preserve;
        case.authority = "";
        assert_eq!(case.sent(&[]).headers["host"], expected);
    }
}

#[test]
fn hop_by_hop_fields_and_nominated_ones_go() {
    let lines = [
        "connection: close, X-Hop ,,x-second",
        "a: 1",
        "connection: \u{ff}\u{e9}, X-Third",
        "x-hop: 1",
        "x-second: 1",
        "x-third: 1",
        "x-fourth: 1",
        "keep-alive: timeout=5",
        "proxy-connection: keep-alive",
        "te: gzip, deflate;q=0.5",
        "trailer: X-Sum",
        "upgrade: websocket",
        "http2-settings: AAMAAABkAAQAAP__",
        "proxy-authorization: Basic eA==",
    ];
    assert_eq!(Case::new().lines(&lines), ["a: 1", "x-fourth: 1", "trailer: X-Sum"]);
    let protected = Case { kind: Kind::Protected, ..Case::new() };
    assert_eq!(protected.lines(&lines), ["a: 1", "x-fourth: 1"]);
}

#[test]
fn framing_fields_cannot_be_nominated_away() {
    let lines = ["connection: host, content-length, transfer-encoding", "host: x", "content-length: 3"];
    assert_eq!(Case::new().lines(&lines), ["content-length: 3"]);
}

#[test]
fn expect_is_for_streamed_requests_only() {
    assert_eq!(Case::new().lines(&["expect: 100-continue"]), ["expect: 100-continue"]);
    assert!(Case { kind: Kind::Protected, ..Case::new() }.lines(&["expect: 100-continue"]).is_empty());
}

#[test]
fn trailers_are_asked_for_when_the_client_asks() {
    for (te, asked) in [("trailers", true), ("gzip, Trailers", true), ("gzip", false), ("trailers;q=0", false)] {
        let te = format!("te: {te}");
        let lines = Case::new().lines(&["a: 1", &te, "b: 2"]);
        let expected: &[&str] =
            if asked { &["a: 1", "te: trailers", "b: 2", "connection: TE"] } else { &["a: 1", "b: 2"] };
        assert_eq!(lines, expected, "{te}");
    }
}

#[test]
fn an_upgrade_goes_on_only_when_it_may() {
    let lines = ["connection: keep-alive, Upgrade", "upgrade: h2c, websocket", "upgrade: H2C", "sec-websocket-key: k"];
    let upgraded = ["connection: Upgrade", "upgrade: websocket", "sec-websocket-key: k"];
    let case = |kind, version| Case { kind, version, ..Case::new() };
    assert_eq!(case(UPGRADING, Version::HTTP_11).lines(&lines), upgraded);
    assert_eq!(case(STREAMED, Version::HTTP_11).lines(&lines), ["sec-websocket-key: k"]);
    assert_eq!(case(Kind::Protected, Version::HTTP_11).lines(&lines), ["sec-websocket-key: k"]);
    assert!(case(UPGRADING, Version::HTTP_11).lines(&["connection: upgrade", "upgrade: h2c"]).is_empty());
    assert!(!case(UPGRADING, Version::HTTP_10).sent(&lines).headers.contains_key("upgrade"));
    let both = ["te: trailers", "connection: TE, Upgrade", "upgrade: websocket"];
    assert_eq!(
        case(UPGRADING, Version::HTTP_11).lines(&both),
        ["te: trailers", "connection: TE, Upgrade", "upgrade: websocket"]
    );
}

#[test]
fn cookies_of_http_2_are_joined_and_values_trimmed() {
    let lines = ["cookie: a=1", "x: y", "cookie: b=2", "set-cookie: c"];
    let case = |version| Case { version, ..Case::new() };
    let joined = case(Version::HTTP_2).sent(&lines);
    assert_eq!(
        print(&joined.headers),
        ["host: api.test", "cookie: a=1; b=2", "x: y", "set-cookie: c", "via: 2.0 gate"]
    );
    assert_eq!(case(Version::HTTP_11).lines(&lines), ["cookie: a=1", "cookie: b=2", "x: y", "set-cookie: c"]);
    let padded = case(Version::HTTP_2).sent(&["x:  \t y \t"]);
    assert_eq!(padded.headers["x"], "y");
}

#[test]
fn max_forwards_of_options_is_counted_down() {
    for (method, value, expected) in
        [(Method::OPTIONS, "5", "4"), (Method::OPTIONS, "0", "0"), (Method::OPTIONS, "x", "x"), (Method::GET, "5", "5")]
    {
        let case = Case { method, ..Case::new() };
        assert_eq!(case.sent(&[&format!("max-forwards: {value}")]).headers["max-forwards"], expected);
    }
}

/// What a forger, or a proxy, may have sent.
const SAID: [&str; 9] = [
    "x-forwarded-for: 198.51.100.1",
    "x-forwarded-for: 198.51.100.2",
    "x-forwarded-host: shop.test",
    "x-forwarded-proto: https",
    "x-forwarded-prefix: /shop",
    "forwarded: for=198.51.100.1",
    "x-real-ip: 198.51.100.1",
    "x_forwarded_for: 198.51.100.1",
    "x-forwarding: kept",
];

#[test]
fn what_an_untrusted_peer_says_of_others_is_removed() {
    assert_eq!(Case::style(ForwardedStyle::None, false).lines(&SAID), ["x-forwarding: kept"]);
    assert_eq!(
        Case::style(ForwardedStyle::XForwarded, false).lines(&SAID),
        ["x-forwarding: kept", "x-forwarded-for: 192.0.2.1", "x-forwarded-host: api.test", "x-forwarded-proto: http"]
    );
    assert_eq!(
        Case::style(ForwardedStyle::Forwarded, false).lines(&SAID),
        ["x-forwarding: kept", "forwarded: for=192.0.2.1;host=api.test;proto=http"]
    );
    for twin in ["X_Forwarded_For", "x-forwarded_proto", "X_REAL_IP", "x_forwarded-Anything", "X-ForwardedFor"] {
        let line = format!("{twin}: 1");
        assert!(Case::style(ForwardedStyle::None, false).lines(&[&line]).is_empty(), "{twin}");
    }
}

#[test]
fn what_a_trusted_peer_says_stands_and_is_added_to() {
    let kept = [
        "x-forwarded-host: shop.test",
        "x-forwarded-proto: https",
        "x-forwarded-prefix: /shop",
        "forwarded: for=198.51.100.1",
        "x-real-ip: 198.51.100.1",
        "x-forwarding: kept",
    ];
    let mut none = vec!["x-forwarded-for: 198.51.100.1", "x-forwarded-for: 198.51.100.2"];
    none.extend(kept);
    assert_eq!(Case::style(ForwardedStyle::None, true).lines(&SAID), none);
    let mut x_forwarded = vec!["x-forwarded-for: 198.51.100.1, 198.51.100.2, 192.0.2.1"];
    x_forwarded.extend(kept);
    assert_eq!(Case::style(ForwardedStyle::XForwarded, true).lines(&SAID), x_forwarded);
    let both = Case::style(ForwardedStyle::Both, true).sent(&SAID).headers;
    assert_eq!(both["x-forwarded-for"], "198.51.100.1, 198.51.100.2, 192.0.2.1");
    assert_eq!(both["forwarded"], "for=198.51.100.1, for=192.0.2.1;host=api.test;proto=http");
}

#[test]
fn a_nominated_forwarding_field_is_replaced_not_kept() {
    let mut lines = vec!["connection: x-forwarded-for, via", "via: 1.1 other"];
    lines.extend(SAID);
    let sent = Case::style(ForwardedStyle::XForwarded, true).sent(&lines).headers;
    assert_eq!(sent["x-forwarded-for"], "192.0.2.1");
    assert_eq!(sent["via"], "1.1 gate");
}

#[test]
fn addresses_are_quoted_as_rfc_7239_wants() {
    for (peer, x_forwarded, forwarded) in [
        (Some("2001:db8::1"), Some("2001:db8::1"), "for=\"[2001:db8::1]\""),
        (Some("::ffff:192.0.2.7"), Some("192.0.2.7"), "for=192.0.2.7"),
        (None, None, "for=unknown"),
    ] {
        let case = Case { peer, authority: "api.test:8080", ..Case::style(ForwardedStyle::Both, false) };
        let sent = case.sent(&[]).headers;
        assert_eq!(sent.get("x-forwarded-for").map(|value| value.to_str().unwrap()), x_forwarded);
        assert_eq!(sent["forwarded"], format!("{forwarded};host=\"api.test:8080\";proto=http"));
    }
}

#[test]
fn an_authority_that_is_no_field_value_is_refused() {
    let hop = Hop {
        peer: None,
        trusted: false,
        scheme: "http",
        authority: "a\r\nX-Injected: 1",
        pseudonym: "gate",
        version: Version::HTTP_11,
    };
    let refused = outbound(Case::new().parts(&[]), &hop, STREAMED, &Case::new().settings);
    assert_eq!(refused.unwrap_err(), OutboundError::Authority);
}

#[test]
fn an_answer_loses_what_belongs_to_its_connection() {
    let lines = [
        "date: now",
        "connection: X-Hop",
        "set-cookie: a",
        "connection: \u{e9}, x-other",
        "x-hop: 1",
        "x-other: 1",
        "keep-alive: timeout=5",
        "upgrade: h2,h2c",
        "set-cookie: b",
        "trailer: X-Sum",
        "via: 1.1 inner",
        "proxy-authenticate: Basic",
        "content-length: 5",
        "content-length: 5",
    ];
    let expected = [
        "date: now",
        "set-cookie: a",
        "set-cookie: b",
        "trailer: X-Sum",
        "via: 1.1 inner",
        "proxy-authenticate: Basic",
        "content-length: 5",
    ];
    assert_eq!(answered(200, &lines), expected);
    assert_eq!(answered(200, &["content-length: 5, 5"]), ["content-length: 5"]);
    assert!(answered(200, &["content-length: 5", "transfer-encoding: chunked"]).is_empty());
}

#[test]
fn an_answer_that_switches_keeps_its_upgrade() {
    let lines = ["connection: x-hop, upgrade", "upgrade: websocket", "x-hop: 1", "sec-websocket-accept: k"];
    let expected = ["connection: Upgrade", "upgrade: websocket", "sec-websocket-accept: k"];
    assert_eq!(answered(101, &lines), expected);
    assert_eq!(answered(426, &lines), ["sec-websocket-accept: k"]);
}

#[test]
fn trailers_lose_what_belongs_into_a_head() {
    let trailers = Case::new()
        .parts(&[
            "x-sum: 1",
            "authorization: x",
            "cookie: x",
            "idempotency-key: x",
            "forwarded: x",
            "x-forwarded-for: x",
            "x_forwarded_for: x",
            "content-length: 1",
            "transfer-encoding: chunked",
            "host: x",
            "te: x",
            "x-hop: 1",
            "x-sum: 2",
            "grpc-status: 0",
        ])
        .headers;
    let named = nominated(&Case::new().parts(&["connection: X-Hop"]).headers);
    let expected = ["x-sum: 1", "x-sum: 2", "grpc-status: 0"];
    assert_eq!(print(&outbound_trailers(trailers.clone(), &named)), expected);
    let inbound = inbound_trailers(trailers, &named);
    assert!(inbound.contains_key("authorization"), "an answer has no credentials");
    for gone in ["content-length", "transfer-encoding", "host", "te", "x-hop"] {
        assert!(!inbound.contains_key(gone), "{gone}");
    }
}
