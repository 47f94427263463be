//! The format: golden files (yesterday's bytes must decode tomorrow), round trips, hostile bytes.

use http::HeaderName;
use proptest::{collection::vec, option, prelude::*};

use super::*;

const KEY: RecordKey = RecordKey([0xA5; 32]);

fn record(state: State) -> Record {
    Record {
        token: ClaimToken(*b"0123456789abcdef"),
        fingerprint: Fingerprint([0x11; 32]),
        caller: CallerTag([0x22; 32]),
        lease: Duration::from_secs(30),
        retention: Duration::from_secs(86_400),
        began: WallMillis(1_796_000_000_123),
        route: RouteName::from("create-payment"),
        state,
    }
}

fn line(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), HeaderValue::from_static(value))
}

fn answer() -> StoredResponse {
    StoredResponse {
        status: Some(StatusCode::CREATED),
        headers: vec![
            line("content-type", "application/json"),
            line("link", "</a>; rel=next"),
            line("link", "</b>; rel=prev"),
            line("x-empty", ""),
        ],
        body: StoredBody::Whole {
            bytes: Bytes::from_static(b"{\"id\":\"pay_1\"}\n"),
            trailers: vec![line("x-checksum", "9f31")],
        },
    }
}

/// A record and the bytes that the first release wrote for it.
macro_rules! golden {
    ($($name:literal: $record:expr,)*) => {
        vec![$(($name, $record, include_str!(concat!("../../../tests/fixtures/records/", $name, ".v1.hex")))),*]
    };
}

/// Every kind of record there is, with the name and the content of its golden file.
fn golden() -> Vec<(&'static str, Record, &'static str)> {
    let not_kept = |status, why| {
        record(State::Completed(StoredResponse { status, headers: Vec::new(), body: StoredBody::NotKept(why) }))
    };
    let unknown = |doubt, kept| record(State::Unknown { doubt, kept });
    let ok = Some(StatusCode::OK);
    let said = StatusCode::BAD_GATEWAY;
    let kept = StoredResponse { status: Some(said), ..answer() };
    golden! {
        "claimed": record(State::Claimed),
        "completed": record(State::Completed(answer())),
        "completed-too-large": not_kept(ok, NotKept::TooLarge),
        "completed-streamed": not_kept(ok, NotKept::Streamed),
        "completed-broken": not_kept(ok, NotKept::Broken),
        "completed-resolved": not_kept(None, NotKept::Resolved),
        "unknown-answer-lost": unknown(Doubt::AnswerLost, None),
        "unknown-timed-out": unknown(Doubt::UpstreamTimedOut, None),
        "unknown-said": unknown(Doubt::UpstreamSaid(said), Some(kept)),
        "unknown-lapsed": unknown(Doubt::ClaimLapsed, None),
        "unknown-shutdown": unknown(Doubt::Shutdown, None),
        "unknown-gate-failed": unknown(Doubt::GateFailed, None),
    }
}

fn hex(bytes: &[u8]) -> String {
    let lines: Vec<String> =
        bytes.chunks(32).map(|chunk| chunk.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    lines.join("\n") + "\n"
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

fn decoded(bytes: Vec<u8>) -> Result<Record, DecodeError> {
    decode(&KEY, &Bytes::from(bytes))
}

#[test]
fn yesterdays_bytes_decode_today_and_are_written_again_unchanged() {
    for (name, record, file) in golden() {
        assert_eq!(decode(&KEY, &unhex(file)).as_ref(), Ok(&record), "{name}");
        let today = hex(&encode(&KEY, &record));
        assert_eq!(today, file, "{name}: the format changed; it needs a new version byte, and files of its own");
    }
}

#[test]
fn the_header_is_where_the_scripts_of_a_store_look_for_it() {
    let bytes = encode(&KEY, &record(State::Claimed));
    assert_eq!(bytes[..2], [VERSION, b'I']);
    assert_eq!(&bytes[2..18], b"0123456789abcdef");
    assert_eq!(bytes[18..26], 30_000u64.to_be_bytes());
    assert_eq!(bytes[26..34], 86_400_000u64.to_be_bytes());
    assert_eq!(bytes[34..50], [0xA5; 16]);
    assert_eq!(bytes[HEADER_LEN], 14, "the length of the route's name follows the header");
    assert_eq!(bytes.len(), HEADER_LEN + 1 + 14);
}

#[test]
fn a_record_of_another_version_is_named_as_such() {
    let mut bytes = encode(&KEY, &record(State::Claimed));
    bytes[0] = 2;
    assert_eq!(decoded(bytes), Err(DecodeError::Version(2)));
    assert_eq!(decoded(b"\xFFwhatever".to_vec()), Err(DecodeError::Version(255)));
    assert_eq!(decoded(Vec::new()), Err(DecodeError::Damaged("it is empty")));
}

#[test]
fn a_record_under_the_name_of_another_cell_is_foreign() {
    let bytes = Bytes::from(encode(&KEY, &record(State::Completed(answer()))));
    let mut other = KEY;
    other.0[15] ^= 1;
    assert_eq!(decode(&other, &bytes), Err(DecodeError::Foreign));
}

#[test]
fn a_line_break_in_a_stored_header_is_damage_and_never_a_header() {
    for (good, bad) in [
        ("9f31", "9\r\n1"),
        ("9f31", "9f\n1"),
        ("9f31", "9\0f1"),
        ("x-checksum", "X-checksum"),
        ("x-checksum", "x-check um"),
    ] {
        let bytes = encode(&KEY, &record(State::Completed(answer())));
        let at = bytes.windows(good.len()).position(|window| window == good.as_bytes()).unwrap();
        let mut bytes = bytes;
        bytes[at..at + bad.len()].copy_from_slice(bad.as_bytes());
        let what = if good == "9f31" { "a header value is not one" } else { "a header name is not one" };
        assert_eq!(decoded(bytes), Err(DecodeError::Damaged(what)), "{bad:?}");
    }
}

#[test]
fn a_status_that_is_no_final_one_is_damage() {
    let good = encode(&KEY, &record(State::Completed(answer())));
    let at = HEADER_LEN + 1 + 14;
    assert_eq!(good[at..at + 2], 201u16.to_be_bytes());
    for (status, what) in [
        (1, "a status is not a final one"),
        (100, "a status is not a final one"),
        (199, "a status is not a final one"),
        (1000, "a status is out of range"),
        (u16::MAX, "a status is out of range"),
    ] {
        let mut bytes = good.clone();
        bytes[at..at + 2].copy_from_slice(&status.to_be_bytes());
        assert_eq!(decoded(bytes), Err(DecodeError::Damaged(what)), "{status}");
    }
    let mut bytes = good;
    bytes[at..at + 2].copy_from_slice(&999u16.to_be_bytes());
    assert!(decoded(bytes).is_ok());
}

#[test]
fn every_shortened_and_every_lengthened_record_is_refused() {
    for (name, record, _) in golden() {
        let bytes = encode(&KEY, &record);
        for length in 0..bytes.len() {
            let cut = decoded(bytes[..length].to_vec());
            assert!(matches!(cut, Err(DecodeError::Damaged(_))), "{name}, the first {length} bytes: {cut:?}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(decoded(longer), Err(DecodeError::Damaged("it goes on after its end")), "{name}");
    }
}

#[test]
fn a_length_beyond_the_bytes_is_refused_without_making_room_for_it() {
    let head = &encode(&KEY, &record(State::Completed(answer())))[..HEADER_LEN];
    let claims_a_lot = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
    // The route's name, the number of header lines.
    assert_eq!(decoded([head, &claims_a_lot].concat()), Err(SHORT));
    assert_eq!(decoded([head, &[0, 0, 200], &claims_a_lot].concat()), Err(SHORT));
    let overflow = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
    assert_eq!(decoded([head, &overflow].concat()), Err(DecodeError::Damaged("a length is not well-formed")));
    let not_the_shortest = [0x80, 0x00];
    assert_eq!(decoded([head, &not_the_shortest].concat()), Err(DecodeError::Damaged("a length is not well-formed")));
}

#[test]
fn durations_are_whole_milliseconds_never_none_and_never_absurd() {
    assert_eq!(millis(Duration::ZERO), 1);
    assert_eq!(millis(Duration::from_nanos(1)), 1);
    assert_eq!(millis(Duration::from_micros(1_001)), 2);
    assert_eq!(millis(Duration::from_millis(250)), 250);
    assert_eq!(millis(Duration::MAX), MAX_MILLIS);
    let mut bytes = encode(&KEY, &record(State::Claimed));
    bytes[18..26].copy_from_slice(&0u64.to_be_bytes());
    assert_eq!(decoded(bytes.clone()), Err(DecodeError::Damaged("a duration is out of range")));
    bytes[18..26].copy_from_slice(&(MAX_MILLIS + 1).to_be_bytes());
    assert_eq!(decoded(bytes), Err(DecodeError::Damaged("a duration is out of range")));
}

#[test]
fn a_body_shares_the_memory_it_was_read_into() {
    let bytes = Bytes::from(encode(&KEY, &record(State::Completed(answer()))));
    let State::Completed(StoredResponse { body: StoredBody::Whole { bytes: body, .. }, .. }) =
        decode(&KEY, &bytes).unwrap().state
    else {
        panic!("not what was written");
    };
    assert!(bytes.as_ptr_range().contains(&body.as_ptr()));
}

fn any_lines() -> impl Strategy<Value = HeaderList> {
    let name = "[a-z][a-z0-9-]{0,20}".prop_map(|name| HeaderName::from_bytes(name.as_bytes()).unwrap());
    let value = vec(prop_oneof![Just(b'\t'), 0x20u8..=0x7E, 0x80u8..=0xFF], 0..40)
        .prop_map(|value| HeaderValue::from_bytes(&value).unwrap());
    vec((name, value), 0..6)
}

fn any_response() -> impl Strategy<Value = StoredResponse> {
    let body = prop_oneof![
        (vec(any::<u8>(), 0..300), any_lines())
            .prop_map(|(bytes, trailers)| StoredBody::Whole { bytes: bytes.into(), trailers }),
        prop_oneof![Just(NotKept::TooLarge), Just(NotKept::Streamed), Just(NotKept::Broken), Just(NotKept::Resolved)]
            .prop_map(StoredBody::NotKept),
    ];
    (option::of(any_status()), any_lines(), body).prop_map(|(status, headers, body)| StoredResponse {
        status,
        headers,
        body,
    })
}

fn any_status() -> impl Strategy<Value = StatusCode> {
    (200u16..=999).prop_map(|code| StatusCode::from_u16(code).unwrap())
}

fn any_state() -> impl Strategy<Value = State> {
    let doubt = prop_oneof![
        Just(Doubt::AnswerLost),
        Just(Doubt::UpstreamTimedOut),
        any_status().prop_map(Doubt::UpstreamSaid),
        Just(Doubt::ClaimLapsed),
        Just(Doubt::Shutdown),
        Just(Doubt::GateFailed),
    ];
    prop_oneof![
        Just(State::Claimed),
        any_response().prop_map(State::Completed),
        (doubt, option::of(any_response())).prop_map(|(doubt, kept)| State::Unknown { doubt, kept }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    let duration = (1u64..=MAX_MILLIS).prop_map(Duration::from_millis);
    let digest = any::<[u8; 32]>;
    (any::<[u8; 16]>(), digest(), digest(), duration.clone(), duration, any::<u64>(), ".{0,200}", any_state()).prop_map(
        |(token, fingerprint, caller, lease, retention, began, route, state)| Record {
            token: ClaimToken(token),
            fingerprint: Fingerprint(fingerprint),
            caller: CallerTag(caller),
            lease,
            retention,
            began: WallMillis(began),
            route: RouteName::from(route.as_str()),
            state,
        },
    )
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(key: [u8; 32], record in any_record()) {
        let key = RecordKey(key);
        let bytes = Bytes::from(encode(&key, &record));
        prop_assert_eq!(decode(&key, &bytes), Ok(record));
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(bytes in vec(any::<u8>(), 0..400), versioned: bool) {
        let mut bytes = bytes;
        if let (true, Some(first)) = (versioned, bytes.first_mut()) {
            *first = VERSION;
        }
        let _ = decoded(bytes);
    }

    /// Whatever decodes is what would be written: no two byte strings mean the same record.
    #[test]
    fn a_mutated_record_is_refused_or_is_another_record_in_its_one_encoding(
        record in any_record(),
        mutations in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encode(&KEY, &record);
        for (at, value) in mutations {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(other) = decoded(bytes.clone()) {
            prop_assert_eq!(encode(&KEY, &other), bytes);
        }
    }
}
