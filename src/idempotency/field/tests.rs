//! Tests of `idempotency::field`.

use proptest::prelude::*;

use super::{split_unquoted, trim_ows, unquote};

#[test]
fn only_spaces_and_tabs_are_trimmed() {
    assert_eq!(trim_ows(b" \t a b\t "), b"a b");
    assert_eq!(trim_ows(b"\x0Ba\xA0"), b"\x0Ba\xA0");
    assert_eq!(trim_ows(b" \t "), b"");
}

#[test]
fn a_separator_within_quotes_does_not_separate() {
    let split = |text: &'static str| split_unquoted(text.as_bytes(), b';');
    assert_eq!(split("a; b=c ;d"), Some(vec![&b"a"[..], b"b=c", b"d"]));
    assert_eq!(split(r#"a;b="x;y";c"#), Some(vec![&b"a"[..], br#"b="x;y""#, b"c"]));
    assert_eq!(split(r#"a;b="x\";y";c"#), Some(vec![&b"a"[..], br#"b="x\";y""#, b"c"]));
    assert_eq!(split(""), Some(vec![&b""[..]]));
    assert_eq!(split("a;"), Some(vec![&b"a"[..], b""]));
}

#[test]
fn a_quoted_string_without_an_end_is_not_split() {
    assert_eq!(split_unquoted(br#"a;b="x;y"#, b';'), None);
    assert_eq!(split_unquoted(br#"a;b="x;y\""#, b';'), None);
}

#[test]
fn a_value_is_unquoted_or_taken_as_it_is() {
    assert_eq!(unquote(b"a/b"), Some(b"a/b".to_vec()));
    assert_eq!(unquote(br#""a b""#), Some(b"a b".to_vec()));
    assert_eq!(unquote(br#""a\"b\\""#), Some(br#"a"b\"#.to_vec()));
    assert_eq!(unquote(br#""a"#), None);
    assert_eq!(unquote(br#""a"b"#), None);
    assert_eq!(unquote(br#"a"b""#), None);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = (trim_ows(&bytes), split_unquoted(&bytes, b';'), unquote(&bytes));
    }
}
