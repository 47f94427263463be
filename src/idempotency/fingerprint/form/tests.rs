//! Tests of `idempotency::fingerprint::form`.

use proptest::prelude::*;

use super::pairs;

type Decoded = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn read(body: &[u8], ignore: &[&str]) -> Option<Decoded> {
    let ignore: Vec<String> = ignore.iter().map(|text| (*text).to_owned()).collect();
    let pairs = pairs(body, &ignore)?;
    Some(pairs.into_iter().map(|pair| (pair.name.into_owned(), pair.value.map(|value| value.into_owned()))).collect())
}

fn decoded(body: &str) -> Decoded {
    read(body.as_bytes(), &[]).unwrap()
}

fn pair(name: &[u8], value: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    (name.to_vec(), Some(value.to_vec()))
}

#[test]
fn pairs_are_decoded() {
    assert_eq!(decoded("a=1&b=x+y%20z%26%3D"), [pair(b"a", b"1"), pair(b"b", b"x y z&=")]);
    assert_eq!(decoded("%61%2b=%C3%A9"), [pair(b"a+", "é".as_bytes())]);
    assert_eq!(decoded("a=b=c"), [pair(b"a", b"b=c")]);
    assert_eq!(decoded("=1"), [pair(b"", b"1")]);
}

#[test]
fn pairs_are_sorted_by_name_and_those_of_one_name_stay_in_order() {
    assert_eq!(decoded("b=1&a=2"), decoded("a=2&b=1"));
    assert_eq!(decoded("c=3&a=2&b=9&a=1"), [pair(b"a", b"2"), pair(b"a", b"1"), pair(b"b", b"9"), pair(b"c", b"3")]);
    assert_ne!(decoded("a=1&a=2"), decoded("a=2&a=1"));
}

#[test]
fn how_a_byte_is_spelled_does_not_count() {
    assert_eq!(decoded("a=%7e"), decoded("a=%7E"));
    assert_eq!(decoded("a=~"), decoded("%61=%7E"));
    assert_eq!(decoded("a=+"), decoded("a=%20"));
    assert_ne!(decoded("a=%2B"), decoded("a=+"));
    assert_ne!(decoded("a%3D1=2"), decoded("a=1=2"));
    assert_ne!(decoded("a=1%26b=2"), decoded("a=1&b=2"));
}

#[test]
fn bytes_that_are_not_utf8_are_told_apart() {
    assert_ne!(decoded("a=%FF"), decoded("a=%FE"));
    assert_ne!(decoded("a=%FF"), decoded("a=%EF%BF%BD"));
    assert_eq!(read(b"a=\xFF", &[]), read(b"a=%ff", &[]));
}

#[test]
fn a_name_without_a_value_is_not_one_with_an_empty_value() {
    assert_eq!(decoded("a&b="), [(b"a".to_vec(), None), pair(b"b", b"")]);
    assert_ne!(decoded("a"), decoded("a="));
}

#[test]
fn empty_fields_do_not_count() {
    assert_eq!(decoded("&a=1&&b=2&"), decoded("a=1&b=2"));
    assert_eq!(decoded(""), []);
}

#[test]
fn a_malformed_escape_makes_the_body_no_form() {
    for body in ["a=%", "a=%4", "a=%4g", "a=%g4", "%", "a=1&b=%zz&c=3", "a=%+1", "a=%%20", "a=%&4"] {
        assert_eq!(read(body.as_bytes(), &[]), None, "{body}");
    }
}

#[test]
fn ignored_names_do_not_count_however_they_are_spelled() {
    assert_eq!(read(b"a=1&t=2&t=3&b=4", &["t"]), read(b"b=4&a=1", &["t"]));
    assert_eq!(read(b"a=1&%74=2", &["t"]), read(b"a=1", &["t"]));
    assert_eq!(read(b"a=1&%C3%A9+x", &["é x"]), read(b"a=1", &[]));
    assert_ne!(read(b"a=1&T=2", &["t"]), read(b"a=1", &["t"]));
    assert_eq!(read(b"a=1&t=%", &["t"]), None);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, almost in "[a&=%+0-9A-F]{0,30}") {
        let _ = (pairs(&bytes, &[]), pairs(almost.as_bytes(), &["a".to_owned()]));
    }

    #[test]
    fn what_is_encoded_is_read_back(fields in prop::collection::vec((".{0,6}", ".{0,6}"), 0..6)) {
        let body: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
        let mut expected: Decoded = fields.iter().map(|(name, value)| pair(name.as_bytes(), value.as_bytes())).collect();
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        prop_assert_eq!(decoded(&body), expected);
    }
}
