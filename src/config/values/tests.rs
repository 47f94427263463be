//! Tests of `config::values`.

use super::*;

fn parse<T: Text>(text: &str) -> Result<T, (String, Option<String>)> {
    <T as Text>::parse(text).map_err(|complaint| (complaint.message, complaint.hint))
}

#[test]
fn a_choice_that_is_not_there_suggests_the_nearest_or_lists_all() {
    assert_eq!(parse::<Mode>("off"), Ok(Mode::Off));
    assert_eq!(
        parse::<Mode>("enforced"),
        Err(("unknown value `enforced`".into(), Some("did you mean `enforce`?".into())))
    );
    assert_eq!(parse::<Mode>("x"), Err(("unknown value `x`".into(), Some("one of `enforce`, `off`".into()))));
    let (message, hint) = parse::<Mode>("shadow").unwrap_err();
    assert_eq!(message, "`shadow` is not supported by this version");
    assert_eq!(hint.unwrap(), "counting without protecting comes later; here it is one of `enforce`, `off`");
    assert_eq!(parse::<tracing::Level>("warning").unwrap_err().1.unwrap(), "did you mean `warn`?");
    assert_eq!(parse::<BodyForm>("JSON").unwrap_err().1.unwrap(), "did you mean `json`?");
}

#[test]
fn every_choice_parses() {
    fn all<T: Text>() {
        for choice in T::CHOICES {
            assert!(<T as Text>::parse(choice).is_ok(), "{choice}");
            assert!(T::EXPECTED.contains(choice));
        }
    }
    all::<Mode>();
    all::<Anonymous>();
    all::<BodyForm>();
    all::<OnUnknown>();
    all::<OnStoreDown>();
    all::<HostPolicy>();
    all::<ForwardedStyle>();
    all::<Format>();
    all::<tracing::Level>();
    all::<WhenInFlight>();
    all::<Preset>();
}

#[test]
fn bounds_are_part_of_the_type() {
    assert_eq!(parse::<Span<1000>>("1s").unwrap().0, Duration::from_secs(1));
    assert_eq!(
        parse::<Span<1000>>("999ms").map(|_| ()),
        Err(("`999ms` is too short".into(), Some("at least 1s".into())))
    );
    assert_eq!(parse::<Size<1024, 2048>>("2KiB").unwrap().0, 2048);
    for text in ["1023B", "2049B"] {
        let expected = (format!("`{text}` is out of range"), Some("1KiB to 2KiB".to_owned()));
        assert_eq!(parse::<Size<1024, 2048>>(text).map(|_| ()), Err(expected));
    }
}

#[test]
fn methods_are_in_capitals_and_can_be_forwarded() {
    assert_eq!(parse("POST"), Ok(Method::POST));
    assert_eq!(parse("PROPFIND"), Ok(Method::from_bytes(b"PROPFIND").unwrap()));
    assert_eq!(parse::<Method>("Post").unwrap_err().1.unwrap(), "did you mean `POST`?");
    for text in ["", "A B", "é", "CONNECT", "TRACE"] {
        assert!(parse::<Method>(text).is_err(), "{text}");
    }
}

#[test]
fn statuses_are_numbers_ranges_and_classes() {
    for (text, pattern) in [
        ("404", StatusPattern::Exact(404)),
        ("411-415", StatusPattern::Range(411, 415)),
        ("600-999", StatusPattern::Range(600, 999)),
        ("500-500", StatusPattern::Range(500, 500)),
        ("4xx", StatusPattern::Class(4)),
        ("5XX", StatusPattern::Class(5)),
        ("9xx", StatusPattern::Class(9)),
    ] {
        assert_eq!(parse::<StatusText>(text).unwrap().0, pattern, "{text}");
    }
    for text in [
        "",
        "4",
        "40",
        "4x",
        "xxx",
        "0xx",
        "1xx",
        "199",
        "1000",
        "415-411",
        "411-",
        "-411",
        "411-415-420",
        "+404",
        "4.4",
        "é",
    ] {
        assert!(parse::<StatusText>(text).is_err(), "{text}");
    }
}

#[test]
fn framing_is_no_part_of_a_message() {
    assert_eq!(field_name("X-Custom").unwrap().as_str(), "x-custom");
    for name in ["", "a b", "Host", "content-length", "Transfer-Encoding", "CONNECTION", "TE", "Via", "é"] {
        assert!(field_name(name).is_err(), "{name}");
    }
}
