//! Tests of `idempotency::key`.

use http::{HeaderMap, HeaderValue, header::HeaderName};
use proptest::prelude::*;

use super::{IdempotencyKey, KeyError};
use crate::idempotency::policy::{KeyPattern, KeyRules};

fn rules() -> KeyRules {
    KeyRules { header: HeaderName::from_static("idempotency-key"), required: false, max_length: 255, pattern: None }
}

fn parse(value: impl AsRef<[u8]>) -> Result<String, KeyError> {
    IdempotencyKey::parse(value.as_ref(), &rules()).map(|key| key.as_str().to_owned())
}

fn key(value: &str) -> Result<String, KeyError> {
    Ok(value.to_owned())
}

#[test]
fn a_bare_key_is_what_it_is() {
    for bare in
        ["abc", "8e03978e-40d5-43dd-bc93-6894a57f9324", "8", "?1", ":aGk=:", "(a)", "!#$%&'*+-./:<=>?@[]^_`{|}~"]
    {
        assert_eq!(parse(bare), key(bare));
    }
}

#[test]
fn a_quoted_key_is_its_contents() {
    assert_eq!(parse(r#""abc""#), key("abc"));
    assert_eq!(parse(r#""a b""#), key("a b"));
    assert_eq!(parse(r#""a,b;c""#), key("a,b;c"));
    assert_eq!(parse(r#""a\"b\\c""#), key(r#"a"b\c"#));
    assert_eq!(parse(r#""\"\"""#), key(r#""""#));
    assert_eq!(parse(r#"" a ""#), key(" a "));
}

#[test]
fn quoted_and_bare_are_the_same_key() {
    let (quoted, bare) = (IdempotencyKey::parse(b"\"k1\"", &rules()), IdempotencyKey::parse(b"k1", &rules()));
    assert_eq!(quoted.unwrap(), bare.unwrap());
}

#[test]
fn the_case_of_a_key_counts() {
    assert_ne!(parse("k1"), parse("K1"));
}

#[test]
fn white_space_around_the_value_does_not_count() {
    assert_eq!(parse(" \tabc\t "), key("abc"));
    assert_eq!(parse(" \t\"abc\"\t "), key("abc"));
}

#[test]
fn nothing_is_not_a_key() {
    for nothing in ["", " ", "\t \t", r#""""#, r#"" ""#, r#""   ""#] {
        assert_eq!(parse(nothing), Err(KeyError::Empty), "{nothing:?}");
    }
}

#[test]
fn a_list_is_not_a_key() {
    for list in ["a, b", "a,b", r#""a", "b""#, r#""a","b""#, ",", "a,", "a ,b"] {
        assert_eq!(parse(list), Err(KeyError::Malformed), "{list:?}");
    }
}

#[test]
fn parameters_are_refused_not_dropped() {
    for parameters in [r#""abc";v=1"#, r#""abc"; v"#, r#""abc";"#, "abc;v=1", "abc;"] {
        assert_eq!(parse(parameters), Err(KeyError::Malformed), "{parameters:?}");
    }
}

#[test]
fn broken_quoting_is_refused() {
    for broken in
        [r#"""#, r#""abc"#, r#"abc""#, r#"a"b"#, r#""abc"d"#, r#""ab\"#, r#""ab\""#, r#""a\b""#, r"a\b", r#"%"abc""#]
    {
        assert_eq!(parse(broken), Err(KeyError::Malformed), "{broken:?}");
    }
}

#[test]
fn bytes_outside_the_charset_are_refused() {
    for bytes in [
        &b"a\x80"[..],
        b"a\xFF",
        b"\"a\xC3\xA9\"",
        "é".as_bytes(),
        b"a\x7F",
        b"\"a\x7F\"",
        b"a\x1F",
        b"\"a\tb\"",
        b"a\tb",
        b"a\0",
    ] {
        assert_eq!(parse(bytes), Err(KeyError::Charset), "{bytes:?}");
    }
}

#[test]
fn a_blank_within_a_bare_key_is_refused() {
    assert_eq!(parse("a b"), Err(KeyError::Charset));
}

#[test]
fn the_length_is_that_of_the_key_without_its_quotes() {
    let limited = KeyRules { max_length: 3, ..rules() };
    let parse = |value: &str| IdempotencyKey::parse(value.as_bytes(), &limited).map(|key| key.as_str().to_owned());
    assert_eq!(parse("abc"), key("abc"));
    assert_eq!(parse("\"abc\""), key("abc"));
    assert_eq!(parse(r#""a\"b""#), key("a\"b"));
    assert_eq!(parse("abcd"), Err(KeyError::TooLong { limit: 3 }));
    assert_eq!(parse("\"abcd\""), Err(KeyError::TooLong { limit: 3 }));
}

#[test]
fn by_default_255_bytes_are_a_key_and_256_are_not() {
    assert_eq!(parse("k".repeat(255)), key(&"k".repeat(255)));
    assert_eq!(parse("k".repeat(256)), Err(KeyError::TooLong { limit: 255 }));
}

#[test]
fn the_pattern_is_matched_by_the_key_without_its_quotes_and_by_all_of_it() {
    let rules = KeyRules { pattern: Some(KeyPattern::new("[a-f0-9]{4}").unwrap()), ..rules() };
    let parse = |value: &str| IdempotencyKey::parse(value.as_bytes(), &rules).map(|key| key.as_str().to_owned());
    assert_eq!(parse("00ff"), key("00ff"));
    assert_eq!(parse("\"00ff\""), key("00ff"));
    assert_eq!(parse("00ff0"), Err(KeyError::Pattern));
    assert_eq!(parse("x00ff"), Err(KeyError::Pattern));
}

#[test]
fn an_absent_header_is_no_key_and_two_lines_are_an_error_even_if_identical() {
    let mut headers = HeaderMap::new();
    assert_eq!(IdempotencyKey::find(&headers, &rules()), Ok(None));
    headers.append("idempotency-key", HeaderValue::from_static("k"));
    assert_eq!(IdempotencyKey::find(&headers, &rules()).unwrap().unwrap().as_str(), "k");
    headers.append("idempotency-key", HeaderValue::from_static("k"));
    assert_eq!(IdempotencyKey::find(&headers, &rules()), Err(KeyError::Twice));
}

#[test]
fn an_empty_header_is_an_error_and_not_an_absent_key() {
    let mut headers = HeaderMap::new();
    headers.append("idempotency-key", HeaderValue::from_static(""));
    assert_eq!(IdempotencyKey::find(&headers, &rules()), Err(KeyError::Empty));
}

#[test]
fn the_key_is_not_shown_in_debug_output() {
    assert_eq!(format!("{:?}", IdempotencyKey::parse(b"secret", &rules()).unwrap()), "IdempotencyKey(…)");
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(value: Vec<u8>) {
        if let Ok(key) = IdempotencyKey::parse(&value, &rules()) {
            prop_assert!(!key.as_str().is_empty() && key.as_str().len() <= 255);
            prop_assert!(key.as_str().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }

    #[test]
    fn any_printable_text_is_parsed_or_refused(value in r#"[ -~]{0,12}|"[ -~]{0,8}"?[;,]?.?"#) {
        let _ = IdempotencyKey::parse(value.as_bytes(), &rules());
    }

    #[test]
    fn quoting_a_text_gives_the_key_of_that_text(text in "[ -~]{0,20}[!-~]") {
        let quoted = format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
        prop_assert_eq!(parse(quoted), key(&text));
    }

    #[test]
    fn a_bare_key_is_also_the_key_of_its_quoted_form(text in r"[!#-+\--:<-\[\]-~]{1,20}") {
        prop_assert_eq!(parse(&text), key(&text));
        prop_assert_eq!(parse(format!("\"{text}\"")), key(&text));
    }
}
