//! Tests of `idempotency::fingerprint::json`.

use proptest::prelude::*;

use super::{Pointer, canonical};

fn form(body: &str) -> Option<Vec<u8>> {
    canonical(body.as_bytes(), &[])
}

fn form_without(body: &str, ignore: &[&str]) -> Vec<u8> {
    let ignore: Vec<String> = ignore.iter().map(|text| (*text).to_owned()).collect();
    canonical(body.as_bytes(), &ignore).unwrap()
}

fn assert_same(one: &str, two: &str) {
    assert_eq!(form(one).unwrap(), form(two).unwrap(), "{one} and {two}");
}

fn assert_different(one: &str, two: &str) {
    assert_ne!(form(one).unwrap(), form(two).unwrap(), "{one} and {two}");
}

fn assert_not_json(body: &str) {
    assert_eq!(form(body), None, "{body}");
}

#[test]
fn the_form_is_fixed_for_ever() {
    // Another form means that a retry across an upgrade gets 422.
    let body = r#" {"b" : [1, -2.50e+3, true, false, null, "\u00e9\n"], "a": {}, "": ""} "#;
    let expected = b"{\"a\xFF{}\"b\xFF[#1#-2.50e+3tfn\"\xC3\xA9\n\xFF]\"\xFF\"\xFF}";
    assert_eq!(form(body).unwrap(), expected);
}

#[test]
fn member_order_does_not_count_at_any_depth() {
    assert_same(r#"{"a":1,"b":2,"c":3}"#, r#"{"c":3,"a":1,"b":2}"#);
    assert_same(r#"[{"a":{"x":1,"y":[]},"b":2}]"#, r#"[{"b":2,"a":{"y":[],"x":1}}]"#);
    assert_different(r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#);
}

#[test]
fn white_space_between_tokens_does_not_count() {
    assert_same(r#"{"a":[1,2],"b":{}}"#, "\r\n\t {\r\n\t \"a\" : [ 1 , 2 ] , \"b\" : { } }\r\n\t ");
    assert_same("[]", "[ ]");
    assert_different(r#""a b""#, r#""ab""#);
}

#[test]
fn element_order_counts() {
    assert_different("[1,2]", "[2,1]");
    assert_different("[[1],2]", "[1,[2]]");
    assert_different("[[],[]]", "[[[]]]");
}

#[test]
fn number_tokens_count_byte_for_byte() {
    for (one, two) in [("1", "1.0"), ("1", "1e0"), ("1e5", "1E5"), ("1e5", "1e+5"), ("0", "-0"), ("10", "1")] {
        assert_different(one, two);
    }
    assert_different("9007199254740993", "9007199254740992");
    assert_different("[12]", "[1,2]");
    assert_same("1e400", " 1e400 ");
}

#[test]
fn values_of_different_types_are_different() {
    let values =
        ["1", "\"1\"", "true", "\"true\"", "null", "\"null\"", "false", "[]", "{}", "\"\"", "[null]", "\"#1\""];
    for (index, one) in values.iter().enumerate() {
        for two in &values[..index] {
            assert_different(one, two);
        }
    }
}

#[test]
fn strings_are_compared_by_their_text() {
    assert_same(r#""a""#, r#""\u0061""#);
    assert_same(r#""é""#, r#""\u00E9""#);
    assert_same(r#""é""#, r#""\u00e9""#);
    assert_same(r#""/""#, r#""\/""#);
    assert_same(r#""\"\\\b\f\n\r\t""#, r#""\u0022\u005C\u0008\u000c\u000A\u000D\u0009""#);
    assert_same("\"\u{1F600}\"", r#""\ud83d\ude00""#);
    assert_same(r#"{"a":1}"#, r#"{"\u0061":1}"#);
    assert_different("\"é\"", "\"e\u{301}\"");
    assert_different(r#""\u0000""#, r#""""#);
}

#[test]
fn lone_surrogates_equal_nothing_but_themselves() {
    assert_same(r#""\ud83d""#, r#""\uD83D""#);
    let strings = [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ude00\ud83d""#,
        r#""\ud83d\ude00""#,
        r#""\ud83d\ud83d\ude00""#,
        r#""\ud83d\n\ude00""#,
        r#""\ud83dx\ude00""#,
        r#""\ud83d\u0061""#,
        "\"\u{FFFD}\"",
        "\"\u{FFFD}\u{FFFD}\"",
    ];
    for (index, one) in strings.iter().enumerate() {
        for two in &strings[..index] {
            assert_different(one, two);
        }
    }
}

#[test]
fn repeated_members_have_no_canonical_form() {
    assert_not_json(r#"{"a":1,"a":1}"#);
    assert_not_json(r#"{"a":1,"b":2,"a":3}"#);
    assert_not_json(r#"{"a":1,"\u0061":2}"#);
    assert_not_json(r#"[{"x":{"a":1,"a":2}}]"#);
    assert!(form(r#"{"a":{"a":1},"b":{"a":1}}"#).is_some());
}

#[test]
fn an_ignored_member_that_is_repeated_has_no_canonical_form_either() {
    assert_eq!(canonical(br#"{"a":1,"a":2}"#, &["/a".to_owned()]), None);
    assert_eq!(canonical(br#"{"a":{"b":1,"b":2}}"#, &["/a".to_owned()]), None);
}

#[test]
fn what_is_not_json_has_no_canonical_form() {
    for body in [
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "{]",
        "[}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{\"a\" 1}",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"\\ud83d\\u\"",
        "\"\\ud83d\\\"",
        "\"a\tb\"",
        "\"a\nb\"",
        "\"\0\"",
        "'a'",
        "tru",
        "True",
        "nul",
        "nan",
        "NaN",
        "Infinity",
        "-",
        "-a",
        "+1",
        "01",
        "-01",
        "00",
        "1.",
        ".1",
        "1.e1",
        "1e",
        "1e+",
        "0x1",
        "1_0",
        "1 1",
        "1x",
        "truex",
        "true false",
        "{} {}",
        "[] ,",
        "// c\n1",
        "/* c */ 1",
        "\u{feff}1",
        "1\u{a0}",
        "\u{a0}1",
        "1\u{b}",
        "1\0",
    ] {
        assert_not_json(body);
    }
}

#[test]
fn what_is_not_utf8_has_no_canonical_form() {
    for body in [&b"\"\xFF\""[..], b"\"\xC3\"", b"\"\xED\xA0\xBD\"", b"\xFE\xFF\x001", b"1\xFF", b"\"\xC0\x80\""] {
        assert_eq!(canonical(body, &[]), None, "{body:?}");
    }
}

#[test]
fn a_nest_of_128_is_read_and_a_deeper_one_is_not() {
    let nest = |open: &str, inside: &str, close: &str, depth: usize| open.repeat(depth) + inside + &close.repeat(depth);
    assert!(form(&nest("[", "1", "]", 128)).is_some());
    assert_not_json(&nest("[", "1", "]", 129));
    assert!(form(&nest(r#"{"a":"#, "1", "}", 128)).is_some());
    assert_not_json(&nest(r#"{"a":"#, "1", "}", 129));
    assert_not_json(&"[".repeat(1_000_000));
    assert_not_json(&nest("[", "", "]", 1_000_000));
    assert_not_json(&r#"{"a":["#.repeat(1_000_000));
}

#[test]
fn an_ignored_member_counts_neither_by_value_nor_by_presence() {
    let ignore = ["/time"];
    assert_eq!(form_without(r#"{"a":1,"time":2}"#, &ignore), form_without(r#"{"time":[{}],"a":1}"#, &ignore));
    assert_eq!(form_without(r#"{"a":1,"time":2}"#, &ignore), form_without(r#"{"a":1}"#, &ignore));
    assert_ne!(form_without(r#"{"a":1,"time":2}"#, &ignore), form_without(r#"{"a":2,"time":2}"#, &ignore));
    assert_ne!(form_without(r#"{"a":{"time":1}}"#, &ignore), form_without(r#"{"a":{"time":2}}"#, &ignore));
    assert_eq!(form_without(r#"{"time":1}"#, &ignore), form_without("{}", &ignore));
}

#[test]
fn a_pointer_leads_through_members_and_elements() {
    let ignore = ["/a/1/b", "/a/0"];
    assert_eq!(
        form_without(r#"{"a":[1,{"b":2,"c":3}]}"#, &ignore),
        form_without(r#"{"a":[9,{"c":3,"b":8}]}"#, &ignore)
    );
    assert_ne!(
        form_without(r#"{"a":[1,{"b":2,"c":3}]}"#, &ignore),
        form_without(r#"{"a":[1,{"b":2,"c":4}]}"#, &ignore)
    );
    assert_eq!(form_without(r#"{"a":{"0":1,"1":{"b":1}}}"#, &ignore), form_without(r#"{"a":{"1":{}}}"#, &ignore));
    assert_eq!(form_without("[1,2,3]", &["/1"]), form_without("[1,5,3]", &["/1"]));
    assert_ne!(form_without("[1,2,3]", &["/1"]), form_without("[1,2,4]", &["/1"]));
}

#[test]
fn an_index_has_no_leading_zero_and_no_sign() {
    for pointer in ["/01", "/+1", "/-", "/1 ", "/99999999999999999999"] {
        assert_ne!(form_without("[1,2]", &[pointer]), form_without("[1,3]", &[pointer]), "{pointer}");
        let member = pointer.trim_start_matches('/');
        let object = |value: u8| format!(r#"{{"{member}":{value}}}"#);
        assert_eq!(form_without(&object(1), &[pointer]), form_without(&object(2), &[pointer]), "{pointer}");
    }
}

#[test]
fn a_pointer_escapes_slash_and_tilde() {
    let body = |value: u8| format!(r#"{{"a/b":{value},"m~n":{value},"~1":{value},"":{value}}}"#);
    let ignore = ["/a~1b", "/m~0n", "/~01", "/"];
    assert_eq!(form_without(&body(1), &ignore), form_without(&body(2), &ignore));
    assert_eq!(form_without(&body(1), &ignore), form_without("{}", &ignore));
}

#[test]
fn a_pointer_finds_a_member_however_it_is_spelled() {
    let ignore = ["/é"];
    assert_eq!(form_without(r#"{"\u00e9":1}"#, &ignore), form_without(r#"{"é":2}"#, &ignore));
}

#[test]
fn the_empty_pointer_ignores_everything_that_is_json() {
    assert_eq!(form_without(r#"{"a":1}"#, &[""]), form_without("[2]", &[""]));
    assert_eq!(canonical(b"{", &[String::new()]), None);
}

#[test]
fn a_pointer_beyond_a_value_ignores_nothing() {
    for pointer in ["/a/b", "/b", "/a/0", "//a", "/a/"] {
        assert_ne!(form_without(r#"{"a":1}"#, &[pointer]), form_without(r#"{"a":2}"#, &[pointer]), "{pointer}");
    }
}

#[test]
fn what_is_not_a_pointer_ignores_nothing() {
    for text in ["", "/", "/a", "/a/0/b", "/a~1b~0c", "/ä"] {
        assert!(Pointer::parse(text).is_some(), "{text}");
    }
    for text in ["a", "a/b", "#/a", "/~", "/~2", "/a~"] {
        assert!(Pointer::parse(text).is_none(), "{text}");
        assert_eq!(form_without(r#"{"a":1}"#, &[text]), form(r#"{"a":1}"#).unwrap(), "{text}");
    }
}

#[test]
fn overlapping_pointers_do_no_harm() {
    let ignore = ["/a", "/a/b", "/a"];
    assert_eq!(form_without(r#"{"a":{"b":1,"c":2},"d":3}"#, &ignore), form_without(r#"{"d":3}"#, &ignore));
}

/// A JSON value, to be printed in many ways. Members have distinct names.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Literal(&'static str),
    Number(String),
    Text(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        prop::sample::select(vec!["true", "false", "null"]).prop_map(Value::Literal),
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?".prop_map(Value::Number),
        ".{0,6}".prop_map(Value::Text),
    ];
    scalar.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(".{0,4}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Decides, bit by bit, how a value is printed.
struct Taste<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl<'a> Taste<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter().cycle())
    }

    fn next(&mut self) -> usize {
        usize::from(*self.0.next().unwrap())
    }
}

fn print(value: &Value, taste: &mut Taste<'_>, out: &mut String) {
    print_space(taste, out);
    match value {
        Value::Literal(text) => out.push_str(text),
        Value::Number(text) => out.push_str(text),
        Value::Text(text) => print_string(text, taste, out),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                print(element, taste, out);
            }
            print_space(taste, out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for index in (1..members.len()).rev() {
                members.swap(index, taste.next() % (index + 1));
            }
            out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                print_space(taste, out);
                print_string(name, taste, out);
                print_space(taste, out);
                out.push(':');
                print(value, taste, out);
            }
            print_space(taste, out);
            out.push('}');
        }
    }
    print_space(taste, out);
}

fn print_space(taste: &mut Taste<'_>, out: &mut String) {
    out.push_str(["", " ", "\t", "\n", "\r\n  ", "", "", ""][taste.next() % 8]);
}

fn print_string(text: &str, taste: &mut Taste<'_>, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        if taste.next().is_multiple_of(3) || letter < ' ' || matches!(letter, '"' | '\\') {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                out.push_str(&if taste.next().is_multiple_of(2) {
                    format!("\\u{unit:04x}")
                } else {
                    format!("\\u{unit:04X}")
                });
            }
        } else {
            out.push(letter);
        }
    }
    out.push('"');
}

fn printed(value: &Value, taste: &[u8]) -> String {
    let mut out = String::new();
    print(value, &mut Taste::new(taste), &mut out);
    out
}

/// Changes one scalar, the `at`th of them; whether there was one.
fn change(value: &mut Value, at: &mut usize) -> bool {
    match value {
        Value::Array(elements) => elements.iter_mut().any(|element| change(element, at)),
        Value::Object(members) => members.iter_mut().any(|(_, value)| change(value, at)),
        Value::Literal(_) | Value::Number(_) | Value::Text(_) if *at > 0 => {
            *at -= 1;
            false
        }
        Value::Literal(text) => {
            *text = if *text == "null" { "true" } else { "null" };
            true
        }
        Value::Number(text) => {
            text.push('7');
            true
        }
        Value::Text(text) => {
            text.push('x');
            true
        }
    }
}

proptest! {
    #[test]
    fn a_value_has_one_form_however_it_is_printed(value in any_value(), one in "\\PC{1,40}", two in "\\PC{1,40}") {
        let (one, two) = (printed(&value, one.as_bytes()), printed(&value, two.as_bytes()));
        let expected = form(&one);
        prop_assert!(expected.is_some(), "{}", one);
        prop_assert_eq!(expected, form(&two), "{} and {}", one, two);
    }

    #[test]
    fn two_values_have_two_forms(one in any_value(), two in any_value()) {
        prop_assert_eq!(one == two, form(&printed(&one, b"a")) == form(&printed(&two, b"b")));
    }

    #[test]
    fn a_scalar_that_is_changed_changes_the_form(value in any_value(), mut at in 0..8usize) {
        let mut changed = value.clone();
        let has_changed = change(&mut changed, &mut at);
        prop_assert_eq!(!has_changed, form(&printed(&value, b"a")) == form(&printed(&changed, b"b")));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, ignore in prop::collection::vec(".{0,8}", 0..3)) {
        let _ = canonical(&bytes, &ignore);
    }

    #[test]
    fn no_text_that_is_almost_json_makes_it_panic(
        text in r#"([\[\]{}:, "\\]|"(a|b|\\u[0-9a-fd]{0,4}|\\.){0,3}"|-?[0-9.eE+]{1,3}|true|null){0,30}"#,
        ignore in prop::collection::vec("(/[ab0~1]{0,2}){0,3}", 0..3),
    ) {
        // Both agree on what is JSON, but for what only one of them refuses.
        let read = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        if canonical(text.as_bytes(), &ignore).is_some() && !text.contains('\\') && !text.contains(['e', 'E']) {
            prop_assert!(read, "{}", text);
        }
    }
}
