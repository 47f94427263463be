//! Tests of `config::source`.

use proptest::prelude::*;

use super::*;

fn shown(text: &str) -> String {
    mask(text)
}

#[test]
fn places_count_lines_and_characters_from_one() {
    let source = Source::new("a", "ab\r\né€x\n\tz");
    let place = |offset| {
        let Place { line, column } = source.place(offset);
        (line, column)
    };
    assert_eq!([place(0), place(1), place(4)], [(1, 1), (1, 2), (2, 1)]);
    // After é (two bytes) and € (three bytes).
    assert_eq!([place(6), place(9), place(10)], [(2, 2), (2, 3), (2, 4)]);
    // Within a character; behind a tab; behind the end.
    assert_eq!([place(7), place(12), place(99)], [(2, 2), (3, 2), (3, 3)]);
}

#[test]
fn the_line_of_a_span_ends_where_the_line_ends() {
    let source = Source::new("a", "first\r\nsecond = [\n  1,\n]\n");
    assert_eq!(source.line(&(7..13)), ("second = [", 0..6));
    assert_eq!(source.line(&(16..24)), ("second = [", 9..10));
    assert_eq!(source.line(&(5..7)), ("first", 5..5));
    assert_eq!(source.line(&(24..24)), ("]", 1..1));
    assert_eq!(source.line(&(25..25)), ("", 0..0));
}

#[test]
fn secrets_that_are_written_into_a_file_are_not_shown() {
    for (text, masked) in [
        ("token = \"abc\"", "token = \"***\""),
        ("token='abc' # x", "token='***' # x"),
        ("\"token\" = \"abc\"", "\"token\" = \"***\""),
        ("token = \"abc", "token = \"***"),
        ("admin = { listen = \"off\", token = \"abc\" }", "admin = { listen = \"off\", token = \"***\" }"),
        ("admin.token = \"hé€🔑\"\r\n", "admin.token = \"*·•🞄\"\r\n"),
        ("url = \"redis://:abc@h:1/0\"", "url = \"redis://:***@h:1/0\""),
        ("url = \"redis://user:a@c@h\"", "url = \"redis://user:***@h\""),
        ("url = \"redis://abc@h\"", "url = \"redis://***@h\""),
        ("url = \"redis+unix:/x?db=1&pass=abc\"", "url = \"redis+unix:/x?db=1&pass=***\""),
    ] {
        assert_eq!(shown(text), masked);
    }
    for text in [
        "token = \"${ONCEGATE_TOKEN}\"",
        "token = \"${file:/run/secrets/t}\"",
        "tokens = \"abc\"",
        "my_token = \"abc\"",
        "url = \"redis://:${PASSWORD}@h\"",
        "url = \"http://127.0.0.1:9000\"",
        "# see https://example.com/a and me@example.com",
    ] {
        assert_eq!(shown(text), text);
    }
}

proptest! {
    #[test]
    fn masking_moves_nothing(text in "[a-z\"'=:/@{}$\n\r é🔑]{0,60}|(token|pass| = |\"|x://|:|@|\n){0,12}") {
        let masked = shown(&text);
        prop_assert_eq!(masked.len(), text.len());
        for ((a, one), (b, other)) in masked.char_indices().zip(text.char_indices()) {
            prop_assert_eq!(a, b);
            prop_assert_eq!(one == '\n', other == '\n');
        }
    }

    #[test]
    fn any_span_has_a_line(text in "[a\r\né€]{0,20}", start in 0..40usize, length in 0..40usize) {
        let source = Source::new("a", &text);
        let (line, within) = source.line(&(start..start + length));
        prop_assert!(line.get(within).is_some());
        source.place(start);
    }
}
