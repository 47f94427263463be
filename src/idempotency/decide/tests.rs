//! Tests of the rules, as tables over CONTRACT §3.2, §3.7, §4 and §5.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::*;
use crate::idempotency::{
    CallerTag, Fingerprint, Record, WallMillis,
    key::KeyError,
    policy::{HeaderNameOrd, KeyRules, ScopeRules, StatusClasses},
    samples,
};

fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("a field value")))
        .collect()
}

const KEY: (&str, &[u8]) = ("idempotency-key", b"8e03978e-40d5-43dd-bc93-6894a57f9324");

fn guard(policy: &Policy) -> Admission {
    Admission::Guard(IdempotencyKey::parse(KEY.1, &policy.key).expect("a key"))
}

fn hop_by_hop_abuse() -> Admission {
    Admission::Refuse(Refusal::RequestInvalid(InvalidRequest::HopByHopAbuse))
}

fn requiring() -> Policy {
    let policy = samples::policy();
    Policy { key: KeyRules { required: true, ..policy.key.clone() }, ..policy }
}

// admit (CONTRACT §3.2, §5) -----------------------------------------------------------------------------------------

#[test]
fn a_request_with_a_key_is_guarded_under_it() {
    for policy in [samples::policy(), requiring()] {
        for method in [Method::POST, Method::PATCH] {
            assert_eq!(admit(&policy, &method, &headers(&[KEY])), guard(&policy), "{method}");
        }
    }
}

#[test]
fn the_key_is_read_from_the_header_of_the_route() {
    let policy = samples::policy();
    let header = HeaderName::from_static("x-request-key");
    let policy = Policy { key: KeyRules { header, required: true, ..policy.key.clone() }, ..policy };
    assert_eq!(admit(&policy, &Method::POST, &headers(&[("x-request-key", KEY.1)])), guard(&policy));
    assert_eq!(admit(&policy, &Method::POST, &headers(&[KEY])), Admission::Refuse(Refusal::KeyMissing));
}

#[test]
fn a_request_without_a_key_passes_unless_the_route_requires_one() {
    let none = headers(&[("authorization", b"Bearer a")]);
    assert_eq!(admit(&samples::policy(), &Method::POST, &none), Admission::Bypass(BypassReason::NoKey));
    assert_eq!(admit(&requiring(), &Method::POST, &none), Admission::Refuse(Refusal::KeyMissing));
}

#[test]
fn a_bad_key_is_refused_and_never_no_key() {
    for policy in [samples::policy(), requiring()] {
        let twice = headers(&[KEY, KEY]);
        assert_eq!(admit(&policy, &Method::POST, &twice), Admission::Refuse(Refusal::KeyInvalid(KeyError::Twice)));
        for value in [&b""[..], b" ", b"\"\"", b"a, b", b"\"a\";p=1", b"\"a", b"a b", b"\xff", &[b'k'; 256]] {
            let admission = admit(&policy, &Method::POST, &headers(&[("idempotency-key", value)]));
            assert!(
                matches!(admission, Admission::Refuse(Refusal::KeyInvalid(_))),
                "{:?} is {admission:?}",
                value.escape_ascii().to_string()
            );
        }
    }
}

#[test]
fn a_route_that_is_off_passes_everything() {
    let policy = Policy { mode: Mode::Off, ..requiring() };
    let cases: [&[(&'static str, &[u8])]; 5] = [
        &[],
        &[KEY],
        &[KEY, KEY],
        &[("connection", b"idempotency-key"), KEY],
        &[("content-type", b"application/grpc")],
    ];
    for lines in cases {
        assert_eq!(admit(&policy, &Method::POST, &headers(lines)), Admission::Bypass(BypassReason::Off), "{lines:?}");
    }
}

#[test]
fn a_method_that_is_not_listed_passes_with_and_without_a_key() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
        for lines in [&[][..], &[KEY], &[KEY, KEY]] {
            assert_eq!(
                admit(&requiring(), &method, &headers(lines)),
                Admission::Bypass(BypassReason::Method),
                "{method}"
            );
        }
    }
    let policy = Policy { methods: vec![Method::PUT], ..requiring() };
    assert_eq!(admit(&policy, &Method::POST, &headers(&[KEY])), Admission::Bypass(BypassReason::Method));
    assert_eq!(admit(&policy, &Method::PUT, &headers(&[KEY])), guard(&policy));
    // Methods are case-sensitive (RFC 9110 §9.1).
    let lower = Method::from_bytes(b"put").expect("a method");
    assert_eq!(admit(&policy, &lower, &headers(&[KEY])), Admission::Bypass(BypassReason::Method));
}

#[test]
fn a_cors_preflight_always_passes() {
    const ORIGIN: (&str, &[u8]) = ("origin", b"https://shop.example");
    const ASKS: (&str, &[u8]) = ("access-control-request-method", b"POST");
    let policy = Policy { methods: vec![Method::OPTIONS, Method::POST], ..requiring() };
    let missing = Admission::Refuse(Refusal::KeyMissing);
    for (method, lines, expected) in [
        (Method::OPTIONS, &[ORIGIN, ASKS][..], Admission::Bypass(BypassReason::Preflight)),
        (Method::OPTIONS, &[ORIGIN, ASKS, KEY], Admission::Bypass(BypassReason::Preflight)),
        (Method::OPTIONS, &[ORIGIN], missing.clone()),
        (Method::OPTIONS, &[ASKS], missing.clone()),
        (Method::OPTIONS, &[], missing.clone()),
        (Method::POST, &[ORIGIN, ASKS], missing),
        (Method::POST, &[ORIGIN, ASKS, KEY], guard(&policy)),
    ] {
        assert_eq!(admit(&policy, &method, &headers(lines)), expected, "{method} {lines:?}");
    }
}

#[test]
fn grpc_is_never_protected_and_refused_where_a_key_is_required() {
    for (content_type, grpc) in [
        (&b"application/grpc"[..], true),
        (b"application/grpc+proto", true),
        (b"application/grpc-web", true),
        (b"application/grpc; charset=utf-8", true),
        (b"Application/GRPC+json", true),
        (b" \tapplication/grpc", true),
        (b"application/grp", false),
        (b"application/json", false),
        (b"text/application/grpc", false),
        (b"", false),
        (b"\xffapplication/grpc", false),
        // A list says two things.
        (b"application/grpc, application/json", false),
    ] {
        let keyed = headers(&[("content-type", content_type), KEY]);
        let plain = headers(&[("content-type", content_type)]);
        let name = content_type.escape_ascii().to_string();
        assert_eq!(is_grpc(&keyed), grpc, "{name}");
        let optional = samples::policy();
        let required = requiring();
        if grpc {
            let refused = Admission::Refuse(Refusal::RequestInvalid(InvalidRequest::Grpc));
            for lines in [&keyed, &plain] {
                assert_eq!(admit(&optional, &Method::POST, lines), Admission::Bypass(BypassReason::Grpc), "{name}");
                assert_eq!(admit(&required, &Method::POST, lines), refused, "{name}");
            }
        } else {
            assert_eq!(admit(&optional, &Method::POST, &keyed), guard(&optional), "{name}");
            assert_eq!(admit(&required, &Method::POST, &plain), Admission::Refuse(Refusal::KeyMissing), "{name}");
        }
    }
    assert!(!is_grpc(&HeaderMap::new()));
}

#[test]
fn two_content_types_never_switch_protection_off() {
    const JSON: (&str, &[u8]) = ("content-type", b"application/json");
    const GRPC: (&str, &[u8]) = ("content-type", b"application/grpc");
    let refused = Admission::Refuse(Refusal::RequestInvalid(InvalidRequest::Http("more than one Content-Type line")));
    for types in [[JSON, GRPC], [GRPC, JSON], [GRPC, GRPC], [JSON, JSON]] {
        assert!(!is_grpc(&headers(&types)), "{types:?}");
        let [one, two] = types;
        let (keyed, keyless) = (headers(&[one, two, KEY]), headers(&types));
        assert_eq!(admit(&samples::policy(), &Method::POST, &keyed), refused, "{types:?}");
        assert_eq!(admit(&requiring(), &Method::POST, &keyed), refused, "{types:?}");
        assert_eq!(admit(&requiring(), &Method::POST, &keyless), refused, "{types:?}");
        // What is not protected passes as it is.
        let bypass = Admission::Bypass(BypassReason::NoKey);
        assert_eq!(admit(&samples::policy(), &Method::POST, &keyless), bypass, "{types:?}");
    }
}

#[test]
fn grpc_that_has_its_content_type_removed_on_the_way_is_refused() {
    let content_type: (&str, &[u8]) = ("content-type", b"application/grpc");
    for nominated in ["Content-Type", "close, content-type", "Content-Encoding"] {
        let lines = headers(&[content_type, ("connection", nominated.as_bytes()), KEY]);
        for policy in [samples::policy(), requiring()] {
            assert_eq!(admit(&policy, &Method::POST, &lines), hop_by_hop_abuse(), "{nominated}");
        }
    }
}

#[test]
fn a_connection_field_that_names_what_the_gate_depends_on_is_refused() {
    let policy = samples::policy();
    for (lines, refused) in [
        (&[&b"idempotency-key"[..]][..], true),
        (&[b"Idempotency-Key"], true),
        (&[b"close, IDEMPOTENCY-KEY"], true),
        (&[b"close,\tidempotency-key \t, x"], true),
        (&[b",,idempotency-key,"], true),
        (&[b"keep-alive", b"idempotency-key"], true),
        (&[b"authorization"], true),
        (&[b"X-Api-Key"], true),
        (&[b"Host"], true),
        (&[b"close, Content-Length"], true),
        (&[b"Transfer-Encoding"], true),
        (&[b"Content-Type"], true),
        (&[b"content-encoding"], true),
        (&[b"X-HTTP-Method-Override"], true),
        (&[b"x-http-method"], true),
        (&[b"x-method-override"], true),
        (&[b"X_HTTP_Method-Override"], true),
        (&[b"x-http-methods"], false),
        (&[b"content-language"], false),
        // A byte outside ASCII hides nothing, neither in the name before nor on the line before.
        (&[b"\xff, idempotency-key"], true),
        (&[b"x-\xe9t\xe9", b"idempotency-key, \xff"], true),
        (&[b"idempotency-key\xff"], false),
        (&[b"idempotency-keys"], false),
        (&[b"x-idempotency-key"], false),
        (&[b"idempotency key"], false),
        (&[b"close"], false),
        (&[b"te, upgrade, keep-alive"], false),
        (&[b""], false),
        // No source of this route is a cookie.
        (&[b"cookie"], false),
    ] {
        let mut all = headers(&[KEY]);
        for line in lines {
            all.append(header::CONNECTION, HeaderValue::from_bytes(line).expect("a field value"));
        }
        let expected = if refused { hop_by_hop_abuse() } else { guard(&policy) };
        let shown: Vec<_> = lines.iter().map(|line| line.escape_ascii().to_string()).collect();
        assert_eq!(admit(&policy, &Method::POST, &all), expected, "{shown:?}");
    }
}

#[test]
fn naming_the_key_is_refused_whether_or_not_there_is_one_and_whether_or_not_it_is_required() {
    for policy in [samples::policy(), requiring()] {
        for lines in [&[("connection", &b"idempotency-key"[..])][..], &[("connection", b"idempotency-key"), KEY, KEY]] {
            assert_eq!(admit(&policy, &Method::POST, &headers(lines)), hop_by_hop_abuse());
        }
    }
}

#[test]
fn naming_the_cookie_field_is_refused_where_a_cookie_is_a_scope_source() {
    let policy = samples::policy();
    let session = ScopeSource::Cookie("session".to_owned());
    let tenant = ScopeSource::Header(HeaderNameOrd(HeaderName::from_static("x-tenant")));
    let policy = Policy { scope: ScopeRules { sources: vec![session, tenant], ..policy.scope.clone() }, ..policy };
    for (line, refused) in [("cookie", true), ("Cookie", true), ("x-tenant", true), ("session", false)] {
        let expected = if refused { hop_by_hop_abuse() } else { guard(&policy) };
        assert_eq!(
            admit(&policy, &Method::POST, &headers(&[("connection", line.as_bytes()), KEY])),
            expected,
            "{line}"
        );
    }
    // What is no source of this route may be named.
    assert_eq!(admit(&policy, &Method::POST, &headers(&[("connection", b"authorization"), KEY])), guard(&policy));
}

#[test]
fn naming_a_field_of_the_fingerprint_is_refused_on_the_route_that_lists_it() {
    let mut policy = samples::policy();
    let lines = headers(&[("connection", b"X-Tenant"), KEY]);
    assert_eq!(admit(&policy, &Method::POST, &lines), guard(&policy));
    policy.fingerprint.headers = vec![HeaderName::from_static("x-tenant")];
    assert_eq!(admit(&policy, &Method::POST, &lines), hop_by_hop_abuse());
}

#[test]
fn unprotected_requests_may_name_what_they_like() {
    let lines = headers(&[("connection", b"idempotency-key")]);
    assert_eq!(admit(&requiring(), &Method::GET, &lines), Admission::Bypass(BypassReason::Method));
}

// arbitrate (CONTRACT §3.7) -----------------------------------------------------------------------------------------

const MINE: u8 = 1;
const OTHERS: u8 = 2;
const BEGAN: WallMillis = WallMillis(1_600_000_000_000);

fn answer(status: Option<u16>, body: StoredBody) -> StoredResponse {
    let status = status.map(|status| StatusCode::from_u16(status).expect("a status"));
    StoredResponse { status, headers: Vec::new(), body }
}

fn whole(bytes: &'static [u8]) -> StoredBody {
    StoredBody::Whole { bytes: Bytes::from_static(bytes), trailers: Vec::new() }
}

/// Every state of a record: its name, the state, and how long ago it was written.
fn states(policy: &Policy) -> Vec<(&'static str, State, Duration)> {
    let tick = Duration::from_nanos(1);
    vec![
        ("claimed", State::Claimed, Duration::ZERO),
        ("claimed, at its lease", State::Claimed, policy.lease),
        ("lapsed", State::Claimed, policy.lease + tick),
        ("unknown", State::Unknown { doubt: Doubt::AnswerLost, kept: None }, Duration::ZERO),
        (
            "unknown, answer kept",
            State::Unknown {
                doubt: Doubt::UpstreamSaid(StatusCode::BAD_GATEWAY),
                kept: Some(answer(Some(502), whole(b"bad gateway"))),
            },
            policy.lease * 2,
        ),
        ("completed", State::Completed(answer(Some(201), whole(b"paid"))), policy.lease * 2),
        ("completed, empty", State::Completed(answer(Some(204), whole(b""))), Duration::ZERO),
        ("too large", State::Completed(answer(Some(200), StoredBody::NotKept(NotKept::TooLarge))), Duration::ZERO),
        ("broken", State::Completed(answer(Some(200), StoredBody::NotKept(NotKept::Broken))), Duration::ZERO),
        ("resolved", State::Completed(answer(None, StoredBody::NotKept(NotKept::Resolved))), Duration::ZERO),
        ("resolved with a body alone", State::Completed(answer(None, whole(b"?"))), Duration::ZERO),
    ]
}

fn occupant(of: u8, policy: &Policy, state: State, idle: Duration) -> Occupant {
    Occupant { record: Record { began: BEGAN, ..samples::claim(of, policy).record(state) }, idle }
}

fn policies() -> Vec<(&'static str, Policy)> {
    let wait = InFlight::Wait { at_most: Duration::from_secs(10) };
    vec![
        ("reject, hold", samples::policy()),
        ("reject, retry", Policy { unknown: OnUnknown::Retry, ..samples::policy() }),
        ("wait, hold", Policy { in_flight: wait, ..samples::policy() }),
        ("wait, retry", Policy { in_flight: wait, unknown: OnUnknown::Retry, ..samples::policy() }),
    ]
}

/// What another claimant's retry of the same request meets: the columns are the policies above.
fn expected(state: &str, policy: &str) -> Decision {
    let from = samples::claim(OTHERS, &samples::policy()).token;
    let unknown = Decision::Refuse(Refusal::OutcomeUnknown { since: Some(BEGAN) });
    let not_kept = |status: Option<u16>| {
        let original_status = status.map(|status| StatusCode::from_u16(status).expect("a status"));
        Decision::Refuse(Refusal::AnswerNotKept { original_status })
    };
    match (state, policy) {
        ("claimed" | "claimed, at its lease", "reject, hold" | "reject, retry") => {
            Decision::Refuse(Refusal::InProgress { began: BEGAN })
        }
        ("claimed" | "claimed, at its lease", "wait, hold" | "wait, retry") => Decision::Wait,
        ("lapsed", "reject, hold" | "wait, hold") => Decision::Declare { from },
        ("unknown" | "unknown, answer kept", "reject, hold" | "wait, hold") => unknown,
        ("lapsed" | "unknown" | "unknown, answer kept", "reject, retry" | "wait, retry") => {
            Decision::Bid(Expect::Doubtful(from))
        }
        ("completed", _) => Decision::Replay(answer(Some(201), whole(b"paid"))),
        ("completed, empty", _) => Decision::Replay(answer(Some(204), whole(b""))),
        ("too large" | "broken", _) => not_kept(Some(200)),
        ("resolved" | "resolved with a body alone", _) => not_kept(None),
        other => panic!("{other:?} is not in the table"),
    }
}

#[test]
fn a_retry_meets_in_every_state_and_under_every_policy_what_the_contract_says() {
    for (name, policy) in policies() {
        let claim = samples::claim(MINE, &policy);
        for (state_name, state, idle) in states(&policy) {
            let occupant = occupant(OTHERS, &policy, state, idle);
            assert_eq!(
                arbitrate(&policy, &claim, Some(&occupant)),
                expected(state_name, name),
                "{state_name} under {name}"
            );
        }
    }
}

#[test]
fn a_record_that_vanished_is_bid_for_again_and_never_run_unclaimed() {
    for (name, policy) in policies() {
        let claim = samples::claim(MINE, &policy);
        assert_eq!(arbitrate(&policy, &claim, None), Decision::Bid(Expect::Absent), "{name}");
    }
}

#[test]
fn a_bid_that_did_land_is_the_bidders_own_in_every_state() {
    for (name, policy) in policies() {
        let claim = samples::claim(MINE, &policy);
        for (state_name, state, idle) in states(&policy) {
            let occupant = occupant(MINE, &policy, state, idle);
            assert_eq!(arbitrate(&policy, &claim, Some(&occupant)), Decision::Own, "{state_name} under {name}");
        }
    }
}

#[test]
fn another_credential_is_told_so_in_every_state_and_before_anything_else() {
    for (name, policy) in policies() {
        let same = Claim { caller: CallerTag([0xEE; 32]), ..samples::claim(MINE, &policy) };
        let other_request = Claim { fingerprint: Fingerprint([0xEE; 32]), ..same.clone() };
        for claim in [same, other_request] {
            for (state_name, state, idle) in states(&policy) {
                assert_eq!(
                    arbitrate(&policy, &claim, Some(&occupant(OTHERS, &policy, state, idle))),
                    Decision::Refuse(Refusal::CallerChanged),
                    "{state_name} under {name}"
                );
            }
        }
    }
}

#[test]
fn another_request_is_refused_in_every_state_also_while_the_first_runs() {
    for (name, policy) in policies() {
        let claim = Claim { fingerprint: Fingerprint([0xEE; 32]), ..samples::claim(MINE, &policy) };
        for (state_name, state, idle) in states(&policy) {
            assert_eq!(
                arbitrate(&policy, &claim, Some(&occupant(OTHERS, &policy, state, idle))),
                Decision::Refuse(Refusal::KeyReused),
                "{state_name} under {name}"
            );
        }
    }
}

#[test]
fn a_lapse_is_judged_by_the_lease_of_the_record_and_not_of_the_reader() {
    let writer = samples::policy();
    let reader = Policy { lease: writer.lease / 10, ..samples::policy() };
    let claim = samples::claim(MINE, &reader);
    let lasting = occupant(OTHERS, &writer, State::Claimed, writer.lease);
    assert_eq!(arbitrate(&reader, &claim, Some(&lasting)), Decision::Refuse(Refusal::InProgress { began: BEGAN }));
}

#[test]
fn a_lapsed_claim_is_never_executed_again_unless_the_route_says_so() {
    for (name, policy) in policies() {
        let claim = samples::claim(MINE, &policy);
        for (state_name, state, idle) in states(&policy) {
            let occupant = occupant(OTHERS, &policy, state, idle);
            let bids = matches!(arbitrate(&policy, &claim, Some(&occupant)), Decision::Bid(_) | Decision::Own);
            let may = policy.unknown == OnUnknown::Retry && occupant.is_doubtful();
            assert_eq!(bids, may, "{state_name} under {name}");
        }
    }
}

// settle (CONTRACT §4) ------------------------------------------------------------------------------------------------

fn answered(status: u16, retry_after: bool, body: StoredBody) -> Outcome {
    let status = StatusCode::from_u16(status).expect("a status");
    Outcome::Answered { status, retry_after, answer: answer(Some(status.as_u16()), body) }
}

fn classified(policy: &Policy, status: u16, retry_after: bool) -> StatusClass {
    match settle(policy, answered(status, retry_after, whole(b"x"))) {
        Settlement::Complete(_) => StatusClass::Store,
        Settlement::Release => StatusClass::Release,
        Settlement::Doubt { .. } => StatusClass::Unknown,
    }
}

#[test]
fn proof_that_nothing_was_sent_releases_the_key() {
    assert_eq!(settle(&samples::policy(), Outcome::NotSent), Settlement::Release);
}

#[test]
fn a_lost_answer_is_doubt_whatever_lost_it() {
    for doubt in [Doubt::AnswerLost, Doubt::UpstreamTimedOut, Doubt::Shutdown, Doubt::GateFailed] {
        for policy in policies().into_iter().map(|(_, policy)| policy) {
            assert_eq!(settle(&policy, Outcome::Lost(doubt)), Settlement::Doubt { doubt, kept: None });
        }
    }
}

#[test]
fn every_status_has_the_class_of_the_contract() {
    let policy = samples::policy();
    for status in 100..=999_u16 {
        let expected = match status {
            307 | 308 | 401 | 403 | 407 | 408 | 409 | 411..=415 | 417 | 421 | 423 | 425 | 426 | 428 | 429 | 431 => {
                StatusClass::Release
            }
            521 | 523 | 525 | 526 => StatusClass::Release,
            502 | 503 | 504 | 520 | 522 | 524 | 530 | 600.. => StatusClass::Unknown,
            // Not answers; the contract knows them as "unasked 101".
            100..=199 => StatusClass::Unknown,
            _ => StatusClass::Store,
        };
        assert_eq!(classified(&policy, status, false), expected, "{status}");
        let with_retry_after = if status == 503 { StatusClass::Release } else { expected };
        assert_eq!(classified(&policy, status, true), with_retry_after, "{status} with Retry-After");
    }
}

#[test]
fn the_class_is_decided_before_completeness() {
    let policy = samples::policy();
    for body in [
        whole(b"all of it"),
        StoredBody::NotKept(NotKept::TooLarge),
        StoredBody::NotKept(NotKept::Streamed),
        StoredBody::NotKept(NotKept::Broken),
    ] {
        let stored = answer(Some(200), body.clone());
        assert_eq!(settle(&policy, answered(200, false, body.clone())), Settlement::Complete(stored));
        assert_eq!(settle(&policy, answered(409, false, body.clone())), Settlement::Release);
        let kept = Some(answer(Some(502), body.clone()));
        let doubt = Doubt::UpstreamSaid(StatusCode::BAD_GATEWAY);
        assert_eq!(settle(&policy, answered(502, false, body)), Settlement::Doubt { doubt, kept });
    }
}

#[test]
fn presets_and_a_routes_own_lists_decide_over_the_default() {
    use StatusClass::{Release, Store, Unknown};
    let of = |outcome: StatusClasses| Policy { outcome, ..samples::policy() };
    let listed = StatusClasses::new(&[
        (crate::idempotency::policy::StatusPattern::Class(4), Store),
        (crate::idempotency::policy::StatusPattern::Range(411, 415), Unknown),
        (crate::idempotency::policy::StatusPattern::Exact(413), Release),
        (crate::idempotency::policy::StatusPattern::Exact(503), Store),
    ])
    .expect("no conflict");
    for (name, policy, rows) in [
        (
            "stripe",
            of(StatusClasses::stripe()),
            &[(200, Store), (401, Release), (409, Release), (429, Release), (408, Store), (500, Store), (503, Store)][..],
        ),
        (
            "success-only",
            of(StatusClasses::success_only()),
            &[(201, Store), (302, Store), (404, Release), (500, Unknown), (503, Unknown), (600, Unknown)],
        ),
        (
            "listed",
            of(listed),
            &[(400, Store), (409, Store), (411, Unknown), (413, Release), (415, Unknown), (503, Store), (502, Unknown)],
        ),
    ] {
        for &(status, class) in rows {
            for retry_after in [false, true] {
                assert_eq!(classified(&policy, status, retry_after), class, "{status} under {name}");
            }
        }
    }
}

// degrade, streams (CONTRACT §3.6, §3.7, §4) -----------------------------------------------------------------------------

#[test]
fn without_a_verdict_nothing_runs_but_what_was_certainly_not_claimed_on_a_route_that_says_so() {
    let unavailable = || Degraded::Refuse(Refusal::StoreUnavailable);
    let unreadable = || Degraded::Refuse(Refusal::OutcomeUnknown { since: None });
    for (store_down, failure, expected) in [
        (OnStoreDown::Reject, StoreFailure::NotApplied, unavailable()),
        (OnStoreDown::Reject, StoreFailure::InDoubt, unavailable()),
        (OnStoreDown::Reject, StoreFailure::Unreadable, unreadable()),
        (OnStoreDown::Bypass, StoreFailure::NotApplied, Degraded::Bypass),
        (OnStoreDown::Bypass, StoreFailure::InDoubt, unavailable()),
        (OnStoreDown::Bypass, StoreFailure::Unreadable, unreadable()),
    ] {
        for (name, policy) in policies() {
            let policy = Policy { store_down, ..policy };
            assert_eq!(degrade(&policy, failure), expected, "{failure:?}, {store_down:?}, {name}");
        }
    }
}

#[test]
fn an_event_stream_is_not_held_back() {
    for (content_type, streamed) in [
        (&b"text/event-stream"[..], true),
        (b"Text/Event-Stream; charset=utf-8", true),
        (b" text/event-stream ;x=y", true),
        (b"text/event-streams", false),
        (b"application/json", false),
        (b"application/json; a=text/event-stream", false),
        (b"", false),
    ] {
        let lines = headers(&[("content-type", content_type)]);
        let expected = streamed.then_some(NotKept::Streamed);
        assert_eq!(streams(&lines), expected, "{:?}", content_type.escape_ascii().to_string());
    }
    assert_eq!(streams(&HeaderMap::new()), None);
}

// Words (CONTRACT §5) -----------------------------------------------------------------------------------------------------

#[test]
fn a_client_is_asked_to_wait_as_long_again_between_one_and_thirty_whole_seconds() {
    use crate::idempotency::refusal::retry_after;
    for (age_millis, seconds) in
        [(0, 1), (999, 1), (1_000, 1), (1_999, 1), (2_000, 2), (29_999, 29), (30_000, 30), (3_600_000, 30)]
    {
        assert_eq!(retry_after(Duration::from_millis(age_millis)), seconds, "{age_millis} ms");
    }
}

#[test]
fn each_refusal_is_called_by_its_slug() {
    for (refusal, slug) in [
        (Refusal::KeyMissing, "key-missing"),
        (Refusal::KeyInvalid(KeyError::Empty), "key-invalid"),
        (Refusal::CallerUnknown, "caller-unknown"),
        (Refusal::CallerChanged, "caller-changed"),
        (Refusal::RequestInvalid(InvalidRequest::Grpc), "request-invalid"),
        (Refusal::RequestTimeout, "request-timeout"),
        (Refusal::RequestTooLarge { limit: 1 }, "request-too-large"),
        (Refusal::KeyReused, "key-reused"),
        (Refusal::InProgress { began: BEGAN }, "in-progress"),
        (Refusal::OutcomeUnknown { since: None }, "outcome-unknown"),
        (Refusal::AnswerNotKept { original_status: None }, "answer-not-kept"),
        (Refusal::StoreUnavailable, "store-unavailable"),
        (Refusal::Draining, "draining"),
    ] {
        assert_eq!(refusal.label(), slug);
    }
}
