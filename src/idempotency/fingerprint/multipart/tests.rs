//! Tests of `idempotency::fingerprint::multipart`.

use proptest::prelude::*;

use super::{mentions, parse};

type Pieces = (Option<Vec<u8>>, Vec<Vec<u8>>, Vec<u8>);

fn pieces(body: &str, boundary: &str) -> Option<Pieces> {
    let parsed = parse(body.as_bytes(), boundary.as_bytes())?;
    let parts = parsed.parts.iter().map(|part| part.to_vec()).collect();
    Some((parsed.preamble.map(<[u8]>::to_vec), parts, parsed.epilogue.to_vec()))
}

fn parts(parts: &[&str]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

#[test]
fn a_body_is_taken_apart() {
    let body =
        "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B\r\nX: y\r\n\r\n\r\n2\r\n\r\n--B--\r\n";
    let expected = parts(&["Content-Disposition: form-data; name=\"a\"\r\n\r\n1", "X: y\r\n\r\n\r\n2\r\n"]);
    assert_eq!(pieces(body, "B"), Some((None, expected, b"\r\n".to_vec())));
}

#[test]
fn preamble_and_epilogue_are_told_from_absent_ones() {
    assert_eq!(pieces("--B\r\n\r\n1\r\n--B--", "B"), Some((None, parts(&["\r\n1"]), Vec::new())));
    assert_eq!(pieces("\r\n--B\r\n\r\n1\r\n--B--", "B"), Some((Some(Vec::new()), parts(&["\r\n1"]), Vec::new())));
    assert_eq!(
        pieces("hi\r\n--B\r\n\r\n1\r\n--B--\r\nbye", "B"),
        Some((Some(b"hi".to_vec()), parts(&["\r\n1"]), b"\r\nbye".to_vec()))
    );
}

#[test]
fn empty_parts_and_no_parts_are_possible() {
    assert_eq!(pieces("--B\r\n\r\n--B\r\n\r\n--B--", "B"), Some((None, parts(&["", ""]), Vec::new())));
    assert_eq!(pieces("--B--", "B"), Some((None, Vec::new(), Vec::new())));
}

#[test]
fn what_one_parser_may_take_for_a_delimiter_and_another_not_is_no_multipart() {
    for (what, body) in [
        ("nothing", ""),
        ("no delimiter", "abc"),
        ("never closed", "--B\r\n\r\n1\r\n--B\r\n"),
        ("closed in the middle of a line", "--B\r\n\r\n1--B--"),
        ("bare line feeds", "--B\n\n1\n--B--\n"),
        ("a bare line feed before a delimiter", "--B\r\n\r\n1\n--B\r\n\r\n2\r\n--B--"),
        ("a bare line feed behind one", "--B\n\r\n1\r\n--B--"),
        ("the boundary within a part", "--B\r\n\r\n--B is within\r\n--B--"),
        ("a longer boundary", "--B\r\n\r\n1\r\n--BB\r\n\r\n2\r\n--B--"),
        ("padding", "--B \r\n\r\n1\r\n--B--"),
        ("text behind the end", "--B\r\n\r\n1\r\n--B--x"),
        ("a delimiter in the epilogue", "--B\r\n\r\n1\r\n--B--\r\n--B\r\n\r\n2\r\n--B--"),
        ("a delimiter in the preamble", "a --B\r\n--B\r\n\r\n1\r\n--B--"),
        ("one line end for two delimiters", "--B\r\n--B--"),
    ] {
        assert_eq!(pieces(body, "B"), None, "{what}");
    }
}

#[test]
fn hyphens_in_a_boundary_do_not_confuse_it() {
    let body = "-----x\r\n\r\n1\r\n-----x--\r\n";
    assert_eq!(pieces(body, "---x"), Some((None, parts(&["\r\n1"]), b"\r\n".to_vec())));
    let _ = (pieces("---\r\n\r\n---\r\n\r\n-----", "-"), pieces("------", "--"), pieces("-----", "-"));
}

#[test]
fn a_body_mentions_its_boundary_or_not() {
    assert!(mentions(b"x--B", b"B"));
    assert!(!mentions(b"x-B", b"B"));
    assert!(!mentions(b"", b"B"));
}

fn body(boundary: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        body.extend_from_slice(part);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

proptest! {
    #[test]
    fn parts_are_read_back_whatever_the_boundary(
        parts in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'-'), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..12), 1..5),
        boundary in "[a-zA-Z0-9]{20,40}",
    ) {
        let body = body(&boundary, &parts);
        let parsed = parse(&body, boundary.as_bytes()).unwrap();
        prop_assert_eq!(parsed.preamble, None);
        prop_assert_eq!(parsed.parts, parts);
        prop_assert_eq!(parsed.epilogue, b"\r\n");
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, boundary in prop::collection::vec(any::<u8>(), 1..4), almost in "(\r\n|--|b|B|-|\r|\n){0,20}", short in "[-bB]{1,3}") {
        let _ = (parse(&bytes, &boundary), mentions(&bytes, &boundary));
        let _ = (parse(almost.as_bytes(), short.as_bytes()), mentions(almost.as_bytes(), short.as_bytes()));
    }
}
