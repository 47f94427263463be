//! Which heads are valid, row by row of HTTP.md §1.

use http::Request;

use super::*;

const US: &str = "oncegate-0123456789ab";

fn head(method: &str, uri: &str, version: Version, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri).version(version);
    for (name, value) in fields {
        request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    request.body(()).unwrap().into_parts().0
}

fn h1(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<Intake, Flaw> {
    judge(&head(method, uri, Version::HTTP_11, fields), US)
}

fn h2(uri: &str, fields: &[(&str, &str)]) -> Result<Intake, Flaw> {
    judge(&head("GET", uri, Version::HTTP_2, fields), US)
}

fn authority_of(intake: Result<Intake, Flaw>) -> String {
    intake.unwrap().authority
}

#[test]
fn the_host_line_names_the_authority() {
    for host in
        ["api.test", "API.test:8080", "127.0.0.1:1", "[::1]:80", "[::1]", "a_b-c.test", "api.test.", "api.test:"]
    {
        assert_eq!(authority_of(h1("GET", "/p", &[("host", host)])), host);
    }
}

#[test]
fn a_host_line_that_is_no_host_puts_the_framing_in_doubt() {
    for host in [
        "a,b",
        "user@api.test",
        "a b",
        "a/b",
        "api.test:x",
        "api.test:99999",
        ":80",
        "a:1:2",
        "[::1",
        "a\u{e9}b",
        "a;b",
        "a'b",
        "a(b)",
    ] {
        assert!(matches!(h1("GET", "/p", &[("host", host)]), Err(Flaw::Framing(_))), "{host}");
    }
    assert!(matches!(h1("GET", "/p", &[("host", "a"), ("host", "a")]), Err(Flaw::Framing(_))));
    assert!(matches!(h1("GET", "/p", &[]), Err(Flaw::Framing(_))));
}

#[test]
fn http_1_0_needs_no_host() {
    assert_eq!(authority_of(judge(&head("GET", "/p", Version::HTTP_10, &[]), US)), "");
}

#[test]
fn an_absolute_target_replaces_host() {
    assert_eq!(authority_of(h1("GET", "http://other.test/p", &[("host", "api.test")])), "other.test");
    assert!(matches!(h1("GET", "http://other.test/p", &[]), Err(Flaw::Framing(_))), "Host is required all the same");
    assert!(matches!(h1("GET", "ftp://other.test/p", &[("host", "a")]), Err(Flaw::Invalid(_))));
    assert!(matches!(h1("GET", "http://u@other.test/p", &[("host", "a")]), Err(Flaw::Framing(_))));
}

#[test]
fn authority_and_asterisk_form_belong_to_their_methods() {
    assert!(matches!(h1("GET", "api.test:80", &[("host", "api.test")]), Err(Flaw::Invalid(_))));
    assert!(matches!(h1("GET", "*", &[("host", "api.test")]), Err(Flaw::Invalid(_))));
    assert!(h1("OPTIONS", "*", &[("host", "api.test")]).is_ok());
}

#[test]
fn on_h2_host_must_agree_with_the_authority() {
    assert_eq!(authority_of(h2("http://api.test/p", &[])), "api.test");
    assert_eq!(authority_of(h2("http://api.test/p", &[("host", "API.test")])), "api.test");
    assert!(matches!(h2("http://api.test/p", &[("host", "other.test")]), Err(Flaw::Invalid(_))));
    assert!(matches!(h2("http://u@api.test/p", &[]), Err(Flaw::Framing(_))));
    assert!(matches!(h2("/p", &[]), Err(Flaw::Invalid(_))));
}

#[test]
fn connect_closes_the_connection_and_trace_does_not() {
    assert_eq!(judge(&head("CONNECT", "internal:22", Version::HTTP_11, &[]), US), Err(Flaw::Method { close: true }));
    assert_eq!(h1("TRACE", "/p", &[("host", "a")]), Err(Flaw::Method { close: false }));
}

#[test]
fn chunked_is_the_only_transfer_coding() {
    assert!(h1("POST", "/p", &[("host", "a"), ("transfer-encoding", "Chunked")]).is_ok());
    for codings in [
        &["gzip, chunked"][..],
        &["chunked, chunked"],
        &[",chunked"],
        &["chunked", "chunked"],
        &["gzip", "chunked"],
        &[""],
    ] {
        let mut fields = vec![("host", "a")];
        fields.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
        assert_eq!(h1("POST", "/p", &fields), Err(Flaw::Coding), "{codings:?}");
    }
}

#[test]
fn our_own_name_in_via_is_a_loop_and_a_neighbours_is_not() {
    let via = |via: &str| h1("GET", "/p", &[("host", "a"), ("via", via)]);
    assert!(via("1.1 oncegate-ffffffffffff, 1.1 proxy").is_ok());
    assert_eq!(via(&format!("1.1 front, 1.1 {US} (comment)")), Err(Flaw::Loop));
    assert_eq!(via(&format!("1.1\t{}", US.to_uppercase())), Err(Flaw::Loop));
}

#[test]
fn max_forwards_ends_with_options_only() {
    let options =
        |value: &str| h1("OPTIONS", "/p", &[("host", "a"), ("max-forwards", value)]).map(|i| i.is_final_recipient);
    assert_eq!(options("0"), Ok(true));
    assert_eq!(options("000"), Ok(true));
    assert_eq!(options("5"), Ok(false));
    assert_eq!(options("99999999999999999999999999"), Ok(false));
    assert!(options("x").is_err());
    assert!(options("").is_err());
    assert!(!h1("GET", "/p", &[("host", "a"), ("max-forwards", "0")]).unwrap().is_final_recipient);
}
