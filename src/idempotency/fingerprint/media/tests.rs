//! Tests of `idempotency::fingerprint::media`.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::ContentType;
use crate::idempotency::digest::Digest;

fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append("content-type", HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    headers
}

fn boundary(lines: &[&str]) -> Option<String> {
    ContentType::of(&headers(lines)).boundary().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

fn count(lines: &[&str]) -> [u8; 32] {
    let mut digest = Digest::new("test/v1");
    ContentType::of(&headers(lines)).count(&mut digest);
    digest.finish()
}

#[test]
fn the_boundary_is_found() {
    for line in [
        "multipart/form-data; boundary=abc",
        "multipart/form-data;boundary=abc",
        "Multipart/Mixed ; BOUNDARY=abc ; charset=utf-8",
        "multipart/related; type=\"a;boundary=x\"; boundary=\"abc\"",
        "multipart/form-data; boundary=\"a\\bc\"",
        " multipart/form-data; boundary=abc\t",
    ] {
        assert_eq!(boundary(&[line]).as_deref(), Some("abc"), "{line}");
    }
    assert_eq!(boundary(&["multipart/form-data; boundary=\"a b:c\""]).as_deref(), Some("a b:c"));
    assert_eq!(boundary(&["multipart/form-data; boundary=a=b"]).as_deref(), Some("a=b"));
    assert_eq!(boundary(&[&format!("multipart/form-data; boundary={}", "b".repeat(70))]), Some("b".repeat(70)));
}

#[test]
fn an_ambiguous_boundary_is_none() {
    for line in [
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=\"a\"b",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=a\"b\"",
        "multipart/form-data; boundary=a; boundary=a",
        "multipart/form-data; boundary=a; Boundary=b",
        "multipart/form-data; boundary=a; boundary =b",
        "multipart/form-data; boundary =a",
        "multipart/form-data; boundary*=utf-8''a",
        "multipart/form-data; boundary=a{b",
        "multipart/form-data; boundary=é",
        "text/plain; boundary=a",
        "multipart; boundary=a",
        "",
    ] {
        assert_eq!(boundary(&[line]), None, "{line}");
    }
    assert_eq!(boundary(&[&format!("multipart/form-data; boundary={}", "b".repeat(71))]), None);
    assert_eq!(boundary(&[]), None);
    assert_eq!(boundary(&["multipart/form-data; boundary=a", "multipart/form-data; boundary=a"]), None);
}

#[test]
fn the_boundary_of_a_multipart_type_does_not_count_but_everything_else_does() {
    let one = count(&["multipart/form-data; boundary=a"]);
    assert_eq!(one, count(&["multipart/form-data; boundary=b"]));
    assert_eq!(one, count(&["multipart/form-data;boundary=\"c d\""]));
    assert_ne!(one, count(&["multipart/mixed; boundary=a"]));
    assert_ne!(one, count(&["multipart/form-data; boundary=a; charset=utf-8"]));
    assert_ne!(one, count(&["multipart/form-data"]));
}

#[test]
fn an_ambiguous_boundary_counts_as_sent() {
    assert_ne!(count(&["multipart/form-data; boundary=\"a"]), count(&["multipart/form-data; boundary=\"b"]));
    assert_ne!(
        count(&["multipart/form-data; boundary=a; boundary=b"]),
        count(&["multipart/form-data; boundary=b; boundary=a"])
    );
}

#[test]
fn any_other_type_counts_as_sent() {
    assert_eq!(count(&["text/plain; boundary=a"]), count(&[" text/plain; boundary=a "]));
    assert_ne!(count(&["text/plain; boundary=a"]), count(&["text/plain; boundary=b"]));
    assert_ne!(count(&["text/plain"]), count(&["Text/plain"]));
    assert_ne!(count(&["text/plain;charset=utf-8"]), count(&["text/plain; charset=utf-8"]));
}

#[test]
fn an_absent_type_is_not_an_empty_one_and_every_line_counts() {
    let counts = [count(&[]), count(&[""]), count(&["", ""]), count(&["a", "b"]), count(&["b", "a"]), count(&["a, b"])];
    for (index, one) in counts.iter().enumerate() {
        assert!(!counts[..index].contains(one), "{index}");
    }
}

#[test]
fn a_form_is_what_says_so_or_says_nothing() {
    let may_be_form = |lines: &[&str]| ContentType::of(&headers(lines)).may_be_form();
    assert!(may_be_form(&[]));
    assert!(may_be_form(&["application/x-www-form-urlencoded"]));
    assert!(may_be_form(&["Application/X-WWW-Form-URLencoded ; charset=utf-8"]));
    assert!(!may_be_form(&["application/json"]));
    assert!(!may_be_form(&[""]));
    assert!(!may_be_form(&["application/x-www-form-urlencoded", "application/x-www-form-urlencoded"]));
}

proptest! {
    #[test]
    fn no_value_makes_it_panic(line in "(multipart/)?[ -~é]{0,10}(;[ a]?(boundary)?[=\"\\\\;a ]{0,8}){0,3}") {
        count(&[&line]);
    }
}
