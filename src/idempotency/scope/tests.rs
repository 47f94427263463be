//! Tests of `idempotency::scope`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::{Caller, CallerError, Issuer, RecordKey, jwt};
use crate::idempotency::{
    IdempotencyKey,
    policy::{Anonymous, HeaderNameOrd, KeyRules, ScopeRules, ScopeSource},
};

fn header(name: &str) -> ScopeSource {
    ScopeSource::Header(HeaderNameOrd(name.parse().unwrap()))
}

fn cookie(name: &str) -> ScopeSource {
    ScopeSource::Cookie(name.to_owned())
}

fn rules(sources: impl IntoIterator<Item = ScopeSource>) -> ScopeRules {
    ScopeRules { sources: sources.into_iter().collect(), anonymous: Anonymous::Reject }
}

fn default_rules() -> ScopeRules {
    rules([header("authorization"), header("x-api-key")])
}

fn sharing(rules: ScopeRules) -> ScopeRules {
    ScopeRules { anonymous: Anonymous::Share, ..rules }
}

fn headers<V: AsRef<[u8]>>(lines: impl IntoIterator<Item = (&'static str, V)>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_ref()).unwrap());
    }
    headers
}

fn caller(rules: &ScopeRules, lines: &[(&'static str, &str)]) -> Caller {
    Caller::of(rules, &headers(lines.iter().copied())).unwrap()
}

fn refused(rules: &ScopeRules, lines: &[(&'static str, &str)]) -> CallerError {
    Caller::of(rules, &headers(lines.iter().copied())).unwrap_err()
}

/// The cell of the key `k`.
fn cell(caller: &Caller) -> RecordKey {
    RecordKey::derive("oncegate", caller, &key("k"))
}

fn key(text: &str) -> IdempotencyKey {
    let rules = KeyRules {
        header: HeaderName::from_static("idempotency-key"),
        required: true,
        max_length: usize::MAX,
        pattern: None,
    };
    let quoted = format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    IdempotencyKey::parse(quoted.as_bytes(), &rules).unwrap()
}

fn token(header: &str, payload: &str, signature: &str) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", encode(header), encode(payload), encode(signature))
}

fn bearer(payload: &str) -> String {
    format!("Bearer {}", token(r#"{"alg":"ES256"}"#, payload, "signature"))
}

/// Whom an `Authorization` value names, where it is a JWT.
fn named(authorization: &[u8]) -> Option<(Issuer, String)> {
    jwt::read(authorization).map(|jwt| (jwt.issuer, jwt.subject))
}

fn bearer_caller(payload: &str) -> Caller {
    caller(&default_rules(), &[("authorization", &bearer(payload))])
}

// Credentials as such.

#[test]
fn the_same_credential_is_the_same_caller() {
    let one = caller(&default_rules(), &[("authorization", "Basic abc")]);
    assert_eq!(one, caller(&default_rules(), &[("authorization", "Basic abc"), ("accept", "x")]));
}

#[test]
fn another_credential_is_another_caller() {
    let one = caller(&default_rules(), &[("authorization", "Basic abc")]);
    let two = caller(&default_rules(), &[("authorization", "Basic abd")]);
    assert_ne!(cell(&one), cell(&two));
    assert_ne!(one.tag(), two.tag());
}

#[test]
fn the_name_of_the_source_counts() {
    let one = caller(&default_rules(), &[("authorization", "abc")]);
    let two = caller(&default_rules(), &[("x-api-key", "abc")]);
    assert_ne!(cell(&one), cell(&two));
    let sources = rules([header("session"), cookie("session")]);
    let one = caller(&sources, &[("session", "abc")]);
    let two = caller(&sources, &[("cookie", "session=abc")]);
    assert_ne!(cell(&one), cell(&two));
}

#[test]
fn all_sources_that_are_present_count() {
    let both = caller(&default_rules(), &[("authorization", "a"), ("x-api-key", "b")]);
    let one = caller(&default_rules(), &[("authorization", "a")]);
    let swapped = caller(&default_rules(), &[("authorization", "b"), ("x-api-key", "a")]);
    assert_ne!(cell(&both), cell(&one));
    assert_ne!(cell(&both), cell(&swapped));
}

#[test]
fn the_order_of_sources_and_repeated_ones_in_a_configuration_do_not_count() {
    let lines = [("authorization", "a"), ("x-api-key", "b"), ("cookie", "s=c")];
    let one = caller(&rules([header("authorization"), header("x-api-key"), cookie("s")]), &lines);
    let two = caller(&rules([cookie("s"), header("x-api-key"), header("authorization"), cookie("s")]), &lines);
    assert_eq!(one, two);
}

#[test]
fn a_source_that_is_absent_does_not_count() {
    let lines = [("authorization", "a")];
    assert_eq!(caller(&rules([header("authorization")]), &lines), caller(&default_rules(), &lines));
}

#[test]
fn credentials_are_bytes() {
    let of = |value: &[u8]| Caller::of(&default_rules(), &headers([("x-api-key", value)])).unwrap();
    assert_ne!(cell(&of(b"a\xFF")), cell(&of(b"a\xFE")));
    assert_ne!(cell(&of(b"a\xFF")), cell(&of("a\u{FFFD}".as_bytes())));
}

#[test]
fn white_space_around_a_credential_does_not_count() {
    let one = caller(&default_rules(), &[("authorization", "Basic abc")]);
    assert_eq!(one, caller(&default_rules(), &[("authorization", " \tBasic abc ")]));
}

#[test]
fn two_lines_of_a_source_are_refused_even_if_identical_empty_or_beside_another_source() {
    assert_eq!(refused(&default_rules(), &[("authorization", "a"), ("authorization", "a")]), CallerError::Twice);
    assert_eq!(refused(&default_rules(), &[("authorization", ""), ("authorization", "a")]), CallerError::Twice);
    let beside = [("authorization", "a"), ("x-api-key", "b"), ("x-api-key", "c")];
    assert_eq!(refused(&default_rules(), &beside), CallerError::Twice);
    assert_eq!(refused(&sharing(default_rules()), &beside), CallerError::Twice);
}

#[test]
fn two_lines_of_another_field_do_not_matter() {
    caller(&default_rules(), &[("authorization", "a"), ("x-tenant", "b"), ("x-tenant", "c")]);
}

#[test]
fn an_empty_credential_names_nobody() {
    for empty in ["", " ", "Bearer", "bearer ", "Basic"] {
        assert_eq!(refused(&default_rules(), &[("authorization", empty)]), CallerError::Unknown, "{empty:?}");
    }
    let one = caller(&default_rules(), &[("x-api-key", "b")]);
    assert_eq!(one, caller(&default_rules(), &[("authorization", ""), ("x-api-key", "b")]));
    // Elsewhere these words are as good as any.
    caller(&default_rules(), &[("x-api-key", "bearer")]);
}

#[test]
fn debug_output_shows_no_digest() {
    let shown = format!("{:?}", caller(&default_rules(), &[("authorization", "a")]));
    assert_eq!(shown, "Caller { identity: Identity(…), tag: CallerTag(…), by_unverified_jwt: false }");
}

// Cookies.

#[test]
fn a_cookie_is_found_among_others_and_on_any_line() {
    let sources = rules([cookie("session")]);
    let one = caller(&sources, &[("cookie", "session=abc")]);
    for lines in [
        &[("cookie", "a=1; session=abc; b=2")][..],
        &[("cookie", "a=1;session=abc;")],
        &[("cookie", "a=1"), ("cookie", "session=abc"), ("cookie", "b=2")],
        &[("cookie", " ; ;session=abc \t; x")],
        &[("cookie", "SESSION=other; session=abc; xsession=1; session2=2")],
    ] {
        assert_eq!(one, caller(&sources, lines), "{lines:?}");
    }
}

#[test]
fn the_value_of_a_cookie_is_taken_as_sent() {
    let sources = rules([cookie("s")]);
    let cells: Vec<_> = ["s=a", "s=A", "s=\"a\"", "s=%61", "s==a", "s=a=", "s= a"]
        .map(|line| cell(&caller(&sources, &[("cookie", line)])))
        .into();
    for (index, one) in cells.iter().enumerate() {
        assert!(!cells[..index].contains(one), "{index}");
    }
}

#[test]
fn two_cookies_of_one_name_are_refused_wherever_they_are() {
    let sources = rules([cookie("s"), header("authorization")]);
    for lines in [
        &[("cookie", "s=a; s=b")][..],
        &[("cookie", "s=a; s=a")],
        &[("cookie", "s=a"), ("cookie", "s=b")],
        &[("cookie", "s=a; s")],
        &[("cookie", "s =a; s=b")],
        &[("cookie", "s=; s=b"), ("authorization", "x")],
    ] {
        assert_eq!(refused(&sources, lines), CallerError::Twice, "{lines:?}");
    }
}

#[test]
fn two_cookies_of_another_name_do_not_matter() {
    caller(&rules([cookie("s")]), &[("cookie", "a=1; s=a; a=2")]);
}

#[test]
fn a_cookie_without_a_value_names_nobody() {
    for line in ["s=", "s", "s= ", "t=1"] {
        assert_eq!(refused(&rules([cookie("s")]), &[("cookie", line)]), CallerError::Unknown, "{line:?}");
    }
}

#[test]
fn the_whole_cookie_line_may_be_a_source_and_may_arrive_in_pieces() {
    let sources = rules([header("cookie")]);
    let whole = caller(&sources, &[("cookie", "a=1; b=2; c=3")]);
    assert_eq!(whole, caller(&sources, &[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")]));
    assert_ne!(cell(&whole), cell(&caller(&sources, &[("cookie", "a=1; b=2")])));
}

// Nobody.

#[test]
fn a_request_without_any_source_is_refused_or_shared_as_the_route_says() {
    assert_eq!(refused(&default_rules(), &[("accept", "x")]), CallerError::Unknown);
    let shared = caller(&sharing(default_rules()), &[("accept", "x")]);
    assert_eq!(shared, caller(&sharing(default_rules()), &[]));
    assert_ne!(cell(&shared), cell(&caller(&sharing(default_rules()), &[("authorization", "anonymous")])));
}

#[test]
fn a_cookie_that_is_no_source_is_never_shared() {
    for line in ["session=abc", "", "x"] {
        assert_eq!(refused(&sharing(default_rules()), &[("cookie", line)]), CallerError::Unknown, "{line:?}");
    }
    assert_eq!(refused(&sharing(rules([cookie("s")])), &[("cookie", "t=1")]), CallerError::Unknown);
    caller(&sharing(default_rules()), &[("cookie", "session=abc"), ("authorization", "a")]);
}

#[test]
fn an_empty_scope_is_one_scope_for_all() {
    for rules in [rules([]), sharing(rules([]))] {
        let one = caller(&rules, &[]);
        assert_eq!(one, caller(&rules, &[("authorization", "a"), ("authorization", "b"), ("cookie", "s=1; s=2")]));
    }
    assert_ne!(cell(&caller(&rules([]), &[])), cell(&caller(&sharing(default_rules()), &[])));
}

// Tokens.

#[test]
fn a_jwt_names_its_subject_and_its_tag_the_token() {
    let one = bearer_caller(r#"{"iss":"idp","sub":"7","exp":1}"#);
    let two = bearer_caller(r#"{"exp":2,"sub":"7","iss":"idp"}"#);
    assert!(one.is_by_unverified_jwt() && two.is_by_unverified_jwt());
    assert_eq!(cell(&one), cell(&two));
    assert_ne!(one.tag(), two.tag());
    assert_eq!(one, bearer_caller(r#"{"iss":"idp","sub":"7","exp":1}"#));
}

#[test]
fn another_issuer_or_subject_is_another_caller() {
    let cells = [
        r#"{"iss":"idp","sub":"7"}"#,
        r#"{"iss":"idp","sub":"8"}"#,
        r#"{"iss":"id","sub":"p7"}"#,
        r#"{"iss":"idp7","sub":"7"}"#,
        r#"{"sub":"idp7"}"#,
        r#"{"sub":"7"}"#,
    ]
    .map(|payload| cell(&bearer_caller(payload)));
    for (index, one) in cells.iter().enumerate() {
        assert!(!cells[..index].contains(one), "{index}");
    }
}

#[test]
fn no_issuer_is_the_empty_issuer() {
    assert_eq!(cell(&bearer_caller(r#"{"sub":"7"}"#)), cell(&bearer_caller(r#"{"iss":"","sub":"7"}"#)));
}

#[test]
fn the_other_sources_count_beside_a_jwt() {
    let authorization = bearer(r#"{"sub":"7"}"#);
    let with = |api_key| caller(&default_rules(), &[("authorization", authorization.as_str()), ("x-api-key", api_key)]);
    assert_ne!(cell(&with("a")), cell(&with("b")));
    assert_ne!(with("a").tag(), with("b").tag());
    assert!(with("a").is_by_unverified_jwt());
}

#[test]
fn the_scheme_has_no_case_and_may_be_followed_by_several_spaces() {
    let token = token("{}", r#"{"sub":"7"}"#, "s");
    let one = caller(&default_rules(), &[("authorization", &format!("Bearer {token}"))]);
    for scheme in ["bearer ", "BEARER ", "bEaReR   "] {
        // The same token is the same credential: no 409 for how its scheme is spelled.
        assert_eq!(one, caller(&default_rules(), &[("authorization", &format!("{scheme}{token}"))]), "{scheme}");
    }
    let opaque = |value: &str| caller(&default_rules(), &[("authorization", value)]);
    assert_ne!(opaque("Bearer abc").tag(), opaque("bearer abc").tag(), "what is not understood is compared as sent");
}

#[test]
fn an_issuer_of_any_type_is_an_issuer() {
    for iss in ["3", "true", "{}", "[]", r#"["idp"]"#, r#"{"name":"idp"}"#, "1.5e300", r#""idp""#, "null"] {
        let of = |signature: &str| {
            let value = format!("Bearer {}", token("{}", &format!(r#"{{"iss":{iss},"sub":"u"}}"#), signature));
            caller(&default_rules(), &[("authorization", &value)])
        };
        let (one, refreshed) = (of("s1"), of("s2"));
        assert!(one.is_by_unverified_jwt(), "{iss}");
        assert_eq!(cell(&one), cell(&refreshed), "a refreshed token of {iss} never runs the operation again");
        assert_ne!(one.tag(), refreshed.tag(), "{iss}");
    }
}

#[test]
fn issuers_are_compared_by_type_and_value() {
    let of = |iss: &str| cell(&bearer_caller(&format!(r#"{{"iss":{iss},"sub":"u"}}"#)));
    let cells =
        [r#""""#, r#""3""#, "3", r#""true""#, "true", "{}", r#""{}""#, r#"{"a":1,"b":2}"#, "[1,2]", "[2,1]"].map(of);
    for (index, one) in cells.iter().enumerate() {
        assert!(!cells[..index].contains(one), "{index}");
    }
    assert_eq!(of(r#"{"a":1,"b":{"c":2,"d":3}}"#), of(r#"{ "b": {"d":3, "c":2}, "\u0061":1 }"#));
    // `null` says that there is none.
    assert_eq!(of("null"), of(r#""""#));
}

#[test]
fn of_repeated_claims_the_last_one_counts() {
    let plain = cell(&bearer_caller(r#"{"iss":"i","sub":"7"}"#));
    for payload in [
        r#"{"iss":"i","sub":"7","sub":"7"}"#,
        r#"{"iss":"i","sub":"8","\u0073ub":"7"}"#,
        r#"{"iss":"a","sub":"7","iss":"i"}"#,
        r#"{"iss":3,"sub":[],"iss":"i","sub":"7"}"#,
    ] {
        assert_eq!(cell(&bearer_caller(payload)), plain, "{payload}");
    }
    assert_ne!(cell(&bearer_caller(r#"{"iss":"i","sub":"7","sub":"8"}"#)), plain);
}

#[test]
fn only_a_bearer_token_in_authorization_is_read_as_a_jwt() {
    let token = token("{}", r#"{"sub":"7"}"#, "s");
    let sources = rules([header("authorization"), header("proxy-authorization"), header("x-token"), cookie("t")]);
    for (name, value) in [
        ("authorization", token.clone()),
        ("authorization", format!("Bearer\t{token}")),
        ("authorization", format!("Bearer{token}")),
        ("authorization", format!("DPoP {token}")),
        ("proxy-authorization", format!("Bearer {token}")),
        ("x-token", format!("Bearer {token}")),
        ("cookie", format!("t=Bearer {token}")),
    ] {
        assert!(!caller(&sources, &[(name, &value)]).is_by_unverified_jwt(), "{name}: {value}");
    }
}

#[test]
fn what_has_not_the_form_of_a_jwt_is_compared_as_sent() {
    let good = r#"{"sub":"7"}"#;
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let (h, p) = (encode("{}"), encode(good));
    for (what, value) in [
        ("an opaque token", "abc".to_owned()),
        ("two parts", format!("{h}.{p}")),
        ("four parts", format!("{h}.{p}.c2ln.c2ln")),
        ("five parts, encrypted", format!("{h}.{p}.c2ln.c2ln.c2ln")),
        ("padding", format!("{h}=.{p}.c2ln")),
        ("padding in the signature", format!("{h}.{p}.c2lnbg==")),
        ("the other alphabet", format!("{h}.{p}.+/+/")),
        ("an impossible length", format!("{h}.{p}.abcde")),
        ("text behind it", format!("{h}.{p}.c2ln x")),
        ("a header that is no object", token("[]", good, "s")),
        ("a header that is no JSON", token("{", good, "s")),
        ("an empty header", format!(".{p}.c2ln")),
        ("a payload that is a string", token("{}", r#""sub""#, "s")),
        ("a payload that is an array", token("{}", r#"["idp","7"]"#, "s")),
        ("a payload with text behind it", token("{}", r#"{"sub":"7"}x"#, "s")),
        ("a payload with a byte order mark", token("{}", "\u{feff}{\"sub\":\"7\"}", "s")),
        ("no subject", token("{}", r#"{"iss":"idp"}"#, "s")),
        ("an empty subject", token("{}", r#"{"sub":""}"#, "s")),
        ("a subject that is a number", token("{}", r#"{"sub":7}"#, "s")),
        ("a subject that is null", token("{}", r#"{"sub":null}"#, "s")),
        ("two subjects, the last one a number", token("{}", r#"{"sub":"7","sub":8}"#, "s")),
    ] {
        let value = format!("Bearer {value}");
        assert_eq!(jwt::read(value.as_bytes()), None, "{what}");
        assert!(!caller(&default_rules(), &[("authorization", &value)]).is_by_unverified_jwt(), "{what}");
    }
    let invalid = format!("Bearer {h}.{}.c2ln", URL_SAFE_NO_PAD.encode(b"{\"sub\":\"7\",\"x\":\"\xFF\"}"));
    assert_eq!(jwt::read(invalid.as_bytes()), None);
}

#[test]
fn what_has_the_form_of_a_jwt_is_read() {
    for (what, header, payload, signature) in [
        ("repeated members that name nobody", "{}", r#"{"iss":"i","sub":"7","a":1,"a":2}"#, "s"),
        ("nested members of those names", "{}", r#"{"iss":"i","act":{"sub":"8","iss":[]},"sub":"7"}"#, "s"),
        ("white space", " {} ", " {\n\"iss\" : \"i\", \"sub\":\"7\" } ", "s"),
        ("escapes", "{}", r#"{"\u0069ss":"\u0069","sub":"\u0037"}"#, "s"),
        ("no signature", r#"{"alg":"none"}"#, r#"{"iss":"i","sub":"7"}"#, ""),
        ("a header with members of any type", r#"{"iss":1,"sub":[],"sub":{}}"#, r#"{"iss":"i","sub":"7"}"#, "s"),
    ] {
        let value = format!("Bearer {}", token(header, payload, signature));
        assert_eq!(named(value.as_bytes()), Some((Issuer::Text("i".to_owned()), "7".to_owned())), "{what}");
    }
}

#[test]
fn surplus_bits_in_the_encoding_do_not_make_another_caller() {
    let payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"7"}"#);
    let (rest, last) = payload.split_at(payload.len() - 1);
    assert_eq!((payload.len() % 4, last), (3, "0"), "the last character has two bits to spare");
    let read = |payload: &str| named(format!("Bearer e30.{payload}.s1").as_bytes());
    assert!(read(&payload).is_some());
    assert_eq!(read(&payload), read(&format!("{rest}1")));
}

#[test]
fn a_deep_payload_does_not_overflow_the_stack() {
    let payload = format!(r#"{{"sub":"7","x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let _ = named(format!("Bearer {}", token("{}", &payload, "s")).as_bytes());
    let payload = payload.replace("\"x\"", "\"iss\"");
    let _ = named(format!("Bearer {}", token("{}", &payload, "s")).as_bytes());
}

#[test]
fn no_opaque_credential_is_the_caller_of_a_jwt() {
    let by_jwt = bearer_caller(r#"{"iss":"i","sub":"s"}"#);
    for opaque in ["is", "i s", "jwtis", "\"i\"\"s\"", "Bearer i.s.x"] {
        assert_ne!(cell(&by_jwt), cell(&caller(&default_rules(), &[("authorization", opaque)])), "{opaque}");
    }
}

// Cells.

#[test]
fn the_name_of_a_cell_is_fixed_for_ever() {
    // Another value here means that no key of yesterday is found again: every retry of it would run a second time.
    let caller = caller(&default_rules(), &[("authorization", "Bearer abc"), ("x-api-key", "k")]);
    let cell = RecordKey::derive("oncegate", &caller, &key("8e03978e-40d5-43dd-bc93-6894a57f9324"));
    assert_eq!(cell.to_string(), GOLDEN_OPAQUE);
    let caller = bearer_caller(r#"{"iss":"https://idp.example","sub":"7"}"#);
    let cell = RecordKey::derive("oncegate", &caller, &key("k"));
    assert_eq!(cell.to_string(), GOLDEN_JWT);
}

const GOLDEN_OPAQUE: &str = "96a00cd839a12aacefd031014ec0b67e75dbb6f5bafc94d06f576a7b7778b912";
const GOLDEN_JWT: &str = "a4b539d58b72872d720af336ca908095a034fb953fc0fd9177e9037e733d5ae2";

#[test]
fn a_cell_is_shown_in_hex() {
    let cell = RecordKey(std::array::from_fn(|index| u8::try_from(index).unwrap()));
    assert_eq!(cell.to_string(), "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    assert_eq!(format!("{cell:?}"), "cell:00010203");
}

/// What names a cell, as plain text: for the properties below.
#[derive(Clone, Debug, PartialEq)]
struct Name {
    namespace: String,
    authorization: String,
    api_key: String,
    cookie: String,
    key: String,
}

impl Name {
    fn cell(&self) -> RecordKey {
        let lines = [("authorization", self.authorization.clone()), ("x-api-key", self.api_key.clone())];
        let mut headers = headers(lines);
        headers.append("cookie", format!("s={}", self.cookie).parse().unwrap());
        let rules = sharing(rules([header("authorization"), header("x-api-key"), cookie("s")]));
        RecordKey::derive(&self.namespace, &Caller::of(&rules, &headers).unwrap(), &key(&self.key))
    }

    fn fields(&mut self) -> [&mut String; 5] {
        [&mut self.namespace, &mut self.authorization, &mut self.api_key, &mut self.cookie, &mut self.key]
    }
}

fn any_name() -> impl Strategy<Value = Name> {
    let text = "[a-z.:\"]{2,6}";
    (text, text, text, text, text).prop_map(|(namespace, authorization, api_key, cookie, key)| Name {
        namespace,
        authorization,
        api_key,
        cookie,
        key,
    })
}

proptest! {
    #[test]
    fn a_byte_moved_between_any_two_parts_names_another_cell(name in any_name(), from in 0..5usize, to in 0..5usize, front: bool) {
        let mut moved = name.clone();
        let byte = if front { Some(moved.fields()[from].remove(0)) } else { moved.fields()[from].pop() }.unwrap();
        if front { moved.fields()[to].push(byte) } else { moved.fields()[to].insert(0, byte) }
        prop_assert_eq!(name == moved, name.cell() == moved.cell());
    }

    #[test]
    fn two_parts_exchanged_name_another_cell(name in any_name(), one in 0..5usize, two in 0..5usize) {
        let mut swapped = name.clone();
        let (left, right) = (swapped.fields()[one].clone(), swapped.fields()[two].clone());
        *swapped.fields()[one] = right;
        *swapped.fields()[two] = left;
        prop_assert_eq!(name == swapped, name.cell() == swapped.cell());
    }

    #[test]
    fn a_byte_moved_between_issuer_and_subject_names_another_cell(iss in "[a-z]{1,6}", sub in "[a-z]{1,6}") {
        let (rest, last) = iss.split_at(iss.len() - 1);
        let of = |iss: &str, sub: &str| cell(&bearer_caller(&format!(r#"{{"iss":"{iss}","sub":"{sub}"}}"#)));
        prop_assert_ne!(of(&iss, &sub), of(rest, &format!("{last}{sub}")));
    }

    #[test]
    fn no_field_values_make_it_panic(
        authorization in prop::collection::vec(prop_oneof![b'\t'..=b'\t', b' '..=b'~', 0x80u8..=0xFF], 0..40),
        cookies in prop::collection::vec("[s=; \t\"a]{0,12}", 0..4),
    ) {
        let mut headers = headers([("authorization", authorization)]);
        for line in cookies {
            headers.append("cookie", line.parse().unwrap());
        }
        let _ = Caller::of(&sharing(rules([header("authorization"), header("cookie"), cookie("s")])), &headers);
    }

    #[test]
    fn no_token_makes_it_panic(header: Vec<u8>, payload in r#"\{?("(iss|sub)"|[:,{}"\[\]0-9a-z\\]){0,12}\}?"#, signature: Vec<u8>, dots in "[.]{0,2}") {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let token = format!("Bearer {}{dots}{}.{}", encode(&header), encode(payload.as_bytes()), encode(&signature));
        let _ = named(token.as_bytes());
        let token = format!("Bearer e30.{}.{}", encode(payload.as_bytes()), encode(&signature));
        let _ = named(token.as_bytes());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = named(&bytes);
        let _ = named(&[b"Bearer ", &bytes[..]].concat());
    }
}
