//! Tests of `config::source`.

use proptest::prelude::*;

use super::*;

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

proptest! {
    #[test]
    fn any_span_has_a_line(text in "[a\r\né€]{0,20}", start in 0..40usize, length in 0..40usize) {
        let source = Source::new("a", &text);
        let (line, within) = source.line(&(start..start + length));
        prop_assert!(line.get(within).is_some());
        source.place(start);
    }
}
