//! Tests of `idempotency::fingerprint`.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::{Fingerprint, METHOD_OVERRIDES, overriding_methods};
use crate::idempotency::{
    RequestHead,
    policy::{BodyForm, FingerprintRules},
};

/// A request, as plain text.
#[derive(Clone, Debug, PartialEq)]
struct Request {
    method: String,
    authority: String,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn request() -> Request {
    Request {
        method: "POST".into(),
        authority: "api.example".into(),
        target: "/pay?a=1".into(),
        headers: vec![("content-type", "application/json".into())],
        body: br#"{"amount":1,"to":"x"}"#.to_vec(),
    }
}

impl Request {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn typed(mut self, value: &str) -> Self {
        self.headers.retain(|(name, _)| *name != "content-type");
        self.with("content-type", value)
    }

    fn body(self, body: impl AsRef<[u8]>) -> Self {
        Self { body: body.as_ref().to_vec(), ..self }
    }

    fn under(&self, rules: &FingerprintRules) -> Fingerprint {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let head = RequestHead {
            method: &Method::from_bytes(self.method.as_bytes()).unwrap(),
            authority: &self.authority,
            target: &self.target,
            headers: &headers,
        };
        Fingerprint::of(rules, &head, &self.body)
    }

    fn raw(&self) -> Fingerprint {
        self.under(&rules(BodyForm::Raw))
    }
}

fn rules(body: BodyForm) -> FingerprintRules {
    FingerprintRules { body, ignore: Vec::new(), headers: Vec::new() }
}

fn listing(names: &[&'static str]) -> FingerprintRules {
    FingerprintRules {
        headers: names.iter().map(|name| HeaderName::from_static(name)).collect(),
        ..rules(BodyForm::Raw)
    }
}

fn assert_all_different(fingerprints: impl IntoIterator<Item = Fingerprint>) {
    let fingerprints: Vec<_> = fingerprints.into_iter().collect();
    for (index, one) in fingerprints.iter().enumerate() {
        assert!(!fingerprints[..index].contains(one), "{index}");
    }
}

const FORMS: [BodyForm; 5] = [BodyForm::Raw, BodyForm::Json, BodyForm::Form, BodyForm::Multipart, BodyForm::None];

// The head.

#[test]
fn the_same_request_has_the_same_fingerprint() {
    for form in FORMS {
        assert_eq!(request().under(&rules(form)), request().under(&rules(form)), "{form:?}");
    }
}

#[test]
fn the_fingerprint_is_fixed_for_ever() {
    // Another value here means that a retry across an upgrade gets 422.
    let hex = |fingerprint: Fingerprint| fingerprint.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(FORMS.map(|form| hex(request().under(&rules(form)))), GOLDEN);
}

const GOLDEN: [&str; 5] = [
    "f3e67eae619be56254c89eff4db898ded0bc0259e2de54a0e3d0345f634a48c8",
    "0c8717d6ebeea45826f464196a2d5224b31a7d9ea1e6439f953083795d8c86fe",
    "f3e67eae619be56254c89eff4db898ded0bc0259e2de54a0e3d0345f634a48c8",
    "f3e67eae619be56254c89eff4db898ded0bc0259e2de54a0e3d0345f634a48c8",
    "4740699ecfa2f098a231ab3c288f5050521a25aaae60e706d97b999b52005433",
];

#[test]
fn method_authority_path_query_and_body_count() {
    assert_all_different([
        request().raw(),
        Request { method: "PATCH".into(), ..request() }.raw(),
        Request { authority: "api2.example".into(), ..request() }.raw(),
        Request { target: "/pay2?a=1".into(), ..request() }.raw(),
        Request { target: "/pay?a=2".into(), ..request() }.raw(),
        Request { target: "/pay?a=1&b=2".into(), ..request() }.raw(),
        Request { target: "/pay?".into(), ..request() }.raw(),
        Request { target: "/pay".into(), ..request() }.raw(),
        Request { target: "/pay/?a=1".into(), ..request() }.raw(),
        Request { target: "/p%61y?a=1".into(), ..request() }.raw(),
        request().body("").raw(),
        request().body(" ").raw(),
    ]);
}

#[test]
fn letter_case_and_default_port_of_the_authority_do_not_count() {
    for authority in ["API.example", "api.example:80", "Api.Example:443", "api.example:"] {
        assert_eq!(request().raw(), Request { authority: authority.into(), ..request() }.raw(), "{authority}");
    }
    let at = |authority: &str| Request { authority: authority.into(), ..request() }.raw();
    assert_eq!(at("[2001:DB8::80]:80"), at("[2001:db8::80]"));
    assert_all_different([
        at("api.example"),
        at("api.example:8080"),
        at("api.example:180"),
        at("api.example:081"),
        at(""),
    ]);
    assert_all_different([at("[2001:db8::80]"), at("[2001:db8:]"), at("[2001:db8::]")]);
}

#[test]
fn every_method_override_counts_by_name_by_line_and_by_being_there() {
    let mut all = vec![request().raw()];
    for name in METHOD_OVERRIDES {
        all.push(request().with(name, "").raw());
        all.push(request().with(name, "DELETE").raw());
        all.push(request().with(name, "delete").raw());
        all.push(request().with(name, "DELETE").with(name, "DELETE").raw());
        all.push(request().with(name, "DELETE, DELETE").raw());
    }
    assert_all_different(all);
}

/// Every override but the canonical ones that CGI takes for one of them.
const TWINS: [&str; 5] =
    ["x_http_method_override", "x_http_method", "x_method_override", "x-http_method-override", "x-http_method"];

#[test]
fn the_twins_of_method_overrides_count_too() {
    let mut all = vec![request().raw()];
    all.extend(METHOD_OVERRIDES.map(|name| request().with(name, "PUT").raw()));
    for name in TWINS {
        all.push(request().with(name, "").raw());
        all.push(request().with(name, "PUT").raw());
        all.push(request().with(name, "PUT").with(name, "PUT").raw());
        all.push(request().with("x-http-method", "PUT").with(name, "PUT").raw());
    }
    all.push(request().with("x_http_method", "PUT").with("x_method_override", "PATCH").raw());
    assert_all_different(all);
    // Neither the order of the fields counts nor what only looks like one of them.
    assert_eq!(
        request().with("x_http_method", "PUT").with("x_method_override", "PATCH").raw(),
        request().with("x_method_override", "PATCH").with("x_http_method", "PUT").raw(),
    );
    assert_eq!(request().raw(), request().with("x_http_methods", "PUT").with("x_method", "PUT").raw());
}

#[test]
fn every_member_of_every_override_asks_for_a_method() {
    let asked = |lines: &[(&'static str, &str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let mut methods: Vec<String> = overriding_methods(&headers).map(|method| method.to_string()).collect();
        methods.sort_unstable();
        methods.join(" ")
    };
    for name in METHOD_OVERRIDES.into_iter().chain(TWINS) {
        for (value, methods) in [
            ("POST", "POST"),
            ("post", "POST"),
            (" \tPost ", "POST"),
            ("POST,", "POST"),
            (",,POST , x", "POST X"),
            ("delete,put", "DELETE PUT"),
            ("", ""),
            ("PO ST", ""),
        ] {
            assert_eq!(asked(&[(name, value)]), methods, "{name}: {value}");
        }
        assert_eq!(asked(&[(name, "PUT"), (name, "POST"), ("x-method-override", "PATCH")]), "PATCH POST PUT", "{name}");
    }
    assert_eq!(asked(&[("x-http-methods", "POST"), ("method-override", "POST"), ("x.http.method", "POST")]), "");
}

#[test]
fn the_content_type_counts_as_sent_but_for_the_boundary() {
    assert_all_different(
        ["application/json", "application/json; charset=utf-8", "application/JSON", "text/plain"]
            .map(|it| request().typed(it).raw()),
    );
    let multipart = |boundary: &str| request().typed(&format!("multipart/form-data; boundary={boundary}")).body("x");
    for form in FORMS {
        assert_eq!(multipart("a").under(&rules(form)), multipart("b").under(&rules(form)), "{form:?}");
    }
}

#[test]
fn the_content_encoding_counts() {
    let coded = |coding: &str| request().with("content-encoding", coding).raw();
    assert_all_different([request().raw(), coded(""), coded("identity"), coded("gzip"), coded("br")]);
}

#[test]
fn other_fields_do_not_count() {
    let other = request().with("user-agent", "x").with("authorization", "y").with("date", "z").with("cookie", "c=1");
    assert_eq!(request().raw(), other.with("idempotency-key", "k").raw());
}

#[test]
fn listed_fields_count_by_every_line_and_by_being_there() {
    let listed = listing(&["if-match", "prefer"]);
    assert_all_different([
        request().under(&listed),
        request().with("if-match", "").under(&listed),
        request().with("prefer", "").under(&listed),
        request().with("if-match", "a").under(&listed),
        request().with("prefer", "a").under(&listed),
        request().with("if-match", "a").with("if-match", "b").under(&listed),
        request().with("if-match", "b").with("if-match", "a").under(&listed),
        request().with("if-match", "a, b").under(&listed),
        request().with("if-match", "a").with("prefer", "b").under(&listed),
    ]);
}

#[test]
fn the_order_of_listed_fields_in_the_configuration_does_not_count() {
    let request = request().with("if-match", "a").with("prefer", "b");
    let one = request.under(&listing(&["if-match", "prefer"]));
    assert_eq!(one, request.under(&listing(&["prefer", "if-match", "prefer"])));
}

#[test]
fn white_space_around_a_value_does_not_count() {
    let listed = listing(&["prefer"]);
    assert_eq!(request().with("prefer", "a").under(&listed), request().with("prefer", " a\t").under(&listed));
    assert_eq!(request().typed("a/b").raw(), request().typed(" a/b ").raw());
}

#[test]
fn debug_output_shows_no_digest() {
    assert_eq!(format!("{:?}", request().raw()), "Fingerprint(…)");
}

// The body.

#[test]
fn raw_bodies_are_compared_byte_for_byte() {
    assert_ne!(request().body(r#"{"a":1}"#).raw(), request().body(r#"{"a": 1}"#).raw());
}

#[test]
fn a_body_that_is_not_compared_does_not_count() {
    let none = rules(BodyForm::None);
    assert_eq!(request().under(&none), request().body("other").under(&none));
    assert_ne!(request().under(&none), Request { target: "/other".into(), ..request() }.under(&none));
}

#[test]
fn json_bodies_are_compared_by_what_they_say() {
    let json = rules(BodyForm::Json);
    let one = request().body(r#"{"amount":1.0,"to":"x"}"#).under(&json);
    assert_eq!(one, request().body("{ \"to\": \"\\u0078\",\n \"amount\": 1.0 }").under(&json));
    assert_ne!(one, request().body(r#"{"amount":1,"to":"x"}"#).under(&json));
}

#[test]
fn what_is_not_json_is_compared_raw() {
    let json = rules(BodyForm::Json);
    for (one, two) in [
        ("{\"a\":1,\"a\":2}", "{\"a\":1, \"a\":2}"),
        ("{\"a\":1} x", "{\"a\": 1} x"),
        ("\u{feff}{}", "\u{feff}{ }"),
        ("", " "),
        ("<a/>", "<a />"),
    ] {
        assert_ne!(request().body(one).under(&json), request().body(two).under(&json), "{one}");
        assert_eq!(request().body(one).under(&json), request().body(one).under(&json), "{one}");
    }
}

#[test]
fn no_raw_body_has_the_fingerprint_of_a_canonical_one() {
    let json = rules(BodyForm::Json);
    let canonical = super::json::canonical(&request().body, &[]).unwrap();
    assert_ne!(request().under(&json), request().body(canonical).under(&json));
    assert_ne!(request().under(&json), request().raw());
}

#[test]
fn ignored_json_members_do_not_count() {
    let json = FingerprintRules { ignore: vec!["/meta/sent_at".into()], ..rules(BodyForm::Json) };
    let one = request().body(r#"{"a":1,"meta":{"sent_at":1}}"#).under(&json);
    assert_eq!(one, request().body(r#"{"a":1,"meta":{"sent_at":2}}"#).under(&json));
    assert_ne!(one, request().body(r#"{"a":2,"meta":{"sent_at":1}}"#).under(&json));
}

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn forms_are_compared_by_their_pairs() {
    let form = FingerprintRules { ignore: vec!["t".into()], ..rules(BodyForm::Form) };
    let one = request().typed(FORM).body("b=x+y&a=1&t=1").under(&form);
    assert_eq!(one, request().typed(FORM).body("t=2&a=1&b=x%20y").under(&form));
    assert_ne!(one, request().typed(FORM).body("a=1&b=xy").under(&form));
    assert_ne!(one, request().typed(FORM).body("a=1&a=1&b=x+y").under(&form));
}

#[test]
fn what_is_no_form_is_compared_raw() {
    let form = rules(BodyForm::Form);
    let of = |content_type: &str, body: &str| request().typed(content_type).body(body).under(&form);
    assert_ne!(of(FORM, "a=%zz&b=1"), of(FORM, "b=1&a=%zz"));
    assert_ne!(of("application/json", r#"{"sum":"1+1"}"#), of("application/json", r#"{"sum":"1 1"}"#));
    assert_ne!(of("text/plain", "b&a"), of("text/plain", "a&b"));
}

#[test]
fn fields_do_not_run_into_each_other() {
    let form = rules(BodyForm::Form);
    let of = |body: &str| request().typed(FORM).body(body).under(&form);
    assert_all_different(["a=bc", "ab=c", "abc=", "abc", "a=b&c=", "a=b&c", "a=b%26c"].map(of));
}

fn multipart(boundary: &str, parts: &[&str]) -> Request {
    let mut body = String::new();
    for part in parts {
        body += &format!("--{boundary}\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n{part}\r\n");
    }
    body += &format!("--{boundary}--\r\n");
    request().typed(&format!("multipart/form-data; boundary={boundary}")).body(body)
}

#[test]
fn multipart_bodies_are_compared_without_the_boundary() {
    let form = rules(BodyForm::Multipart);
    let one = multipart("aaaa", &["1", "2"]).under(&form);
    assert_eq!(one, multipart("bbbb", &["1", "2"]).under(&form));
    assert_ne!(multipart("aaaa", &["1", "2"]).raw(), multipart("bbbb", &["1", "2"]).raw());
    assert_all_different([
        one,
        multipart("aaaa", &["2", "1"]).under(&form),
        multipart("aaaa", &["12", ""]).under(&form),
        multipart("aaaa", &["1"]).under(&form),
        multipart("aaaa", &["1", "2", ""]).under(&form),
        multipart("aaaa", &[]).under(&form),
    ]);
}

#[test]
fn preamble_and_epilogue_of_a_multipart_body_count() {
    let form = rules(BodyForm::Multipart);
    let plain = multipart("aaaa", &["1"]);
    let body = String::from_utf8(plain.body.clone()).unwrap();
    let with = |body: String| plain.clone().body(body).under(&form);
    assert_all_different([
        plain.under(&form),
        with(format!("\r\n{body}")),
        with(format!("x\r\n{body}")),
        with(format!("{body}x")),
        with(body.trim_end().to_owned()),
    ]);
}

#[test]
fn what_is_no_multipart_body_is_compared_raw() {
    let form = rules(BodyForm::Multipart);
    let (one, two) = (multipart("aaaa", &["1 --aaaa"]), multipart("bbbb", &["1 --bbbb"]));
    assert_ne!(one.under(&form), two.under(&form));
    assert_eq!(one.under(&form), one.under(&form));
    let (one, two) = (request().body("{\"a\":1}"), request().body("{\"a\": 1}"));
    assert_ne!(one.under(&form), two.under(&form));
}

#[test]
fn the_same_bytes_cut_by_another_boundary_are_another_request() {
    let body = "--a\r\n\r\n1\r\n--b\r\n\r\n2\r\n--b--\r\n--a--\r\n";
    let cut = |boundary: &str| request().typed(&format!("multipart/form-data; boundary={boundary}")).body(body);
    for form in [BodyForm::Raw, BodyForm::Json, BodyForm::Form, BodyForm::Multipart] {
        assert_ne!(cut("a").under(&rules(form)), cut("b").under(&rules(form)), "{form:?}");
    }
}

#[test]
fn a_coded_body_is_compared_raw() {
    for coding in ["gzip", "identity, gzip", "GZIP", "br"] {
        for (form, one, two) in [
            (BodyForm::Json, request().body("{}"), request().body("{ }")),
            (BodyForm::Form, request().typed(FORM).body("a&b"), request().typed(FORM).body("b&a")),
            (BodyForm::Multipart, multipart("aaaa", &["1"]), multipart("bbbb", &["1"])),
        ] {
            let [one, two] = [one, two].map(|it| it.with("content-encoding", coding).under(&rules(form)));
            assert_ne!(one, two, "{coding} {form:?}");
        }
    }
}

#[test]
fn a_body_that_is_coded_as_identity_is_read() {
    for coding in ["identity", "Identity", "", "identity, identity"] {
        let [one, two] = ["{}", "{ }"]
            .map(|body| request().body(body).with("content-encoding", coding).under(&rules(BodyForm::Json)));
        assert_eq!(one, two, "{coding}");
    }
}

// Neighbours.

/// The fields of the requests below, next to each other as in the hash; four more parts follow and one precedes.
const FIELDS: [&str; 8] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "content-type",
    "content-type",
    "content-encoding",
    "if-match",
    "if-match",
];

fn of_fields(fields: &[String]) -> Request {
    let (method, rest) = fields.split_first().unwrap();
    let (values, rest) = rest.split_at(FIELDS.len());
    let [authority, path, query, body] = rest else { unreachable!("four fields follow") };
    Request {
        method: method.clone(),
        authority: authority.clone(),
        target: format!("/{path}?{query}"),
        headers: FIELDS.into_iter().zip(values.iter().cloned()).collect(),
        body: body.clone().into_bytes(),
    }
}

proptest! {
    #[test]
    fn a_byte_moved_between_any_two_fields_is_another_request(
        texts in prop::collection::vec("[a-z]{2,5}", FIELDS.len() + 5),
        from in 0..FIELDS.len() + 5,
        to in 0..FIELDS.len() + 5,
        front: bool,
    ) {
        let mut moved = texts.clone();
        let byte = if front { Some(moved[from].remove(0)) } else { moved[from].pop() }.unwrap();
        if front { moved[to].push(byte) } else { moved[to].insert(0, byte) }
        let request = of_fields(&texts);
        for form in [BodyForm::Raw, BodyForm::Json, BodyForm::Form, BodyForm::Multipart] {
            let rules = FingerprintRules { body: form, ..listing(&["if-match"]) };
            prop_assert_eq!(texts == moved, request.under(&rules) == of_fields(&moved).under(&rules));
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        authority in "[a-z:\\[\\]0-9@]{0,12}",
        target in "[/?*a%]{0,8}",
        content_type in "(multipart/x; boundary=b|application/json|[ -~]{0,12})",
        coding in "(gzip|identity|[ -~]{0,6})?",
        body: Vec<u8>,
        ignore in prop::collection::vec("(/[a-z~01]{0,2}){0,3}", 0..3),
    ) {
        let request = Request { authority, target, ..request() }.typed(&content_type).with("content-encoding", &coding).body(body);
        for form in FORMS {
            let rules = FingerprintRules { ignore: ignore.clone(), ..rules(form) };
            prop_assert_eq!(request.under(&rules), request.under(&rules));
        }
    }

    #[test]
    fn a_changed_byte_of_a_raw_body_is_another_request(body in prop::collection::vec(any::<u8>(), 1..64), at: prop::sample::Index, flip in 1u8..) {
        let mut changed = body.clone();
        changed[at.index(body.len())] ^= flip;
        prop_assert_ne!(request().body(&body).raw(), request().body(&changed).raw());
    }
}
