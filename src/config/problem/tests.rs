//! Tests of `config::problem`.

use proptest::prelude::*;

use super::*;

fn problem(text: &str, span: Option<Range<usize>>) -> Problem {
    let source = Arc::new(Source::new("a.toml", text));
    Problem::new(&source, Severity::Warning, span, "it is so", Some("do so".to_owned()))
}

#[test]
fn a_problem_is_shown_with_its_line_a_caret_and_the_hint() {
    let expected = "\
warning: it is so
 --> a.toml:2:5
  |
2 | é = 1
  |     ^
  |
  = help: do so";
    assert_eq!(problem("x = 0\né = 1\nz = 2\n", Some(11..12)).render(false), expected);
}

#[test]
fn a_problem_of_the_whole_file_has_no_line() {
    let problem = problem("", None);
    assert_eq!(problem.render(false), "warning: it is so\n--> a.toml\n = help: do so");
    assert_eq!((problem.line, problem.column), (1, 1));
    assert_eq!(problem.to_string(), "a.toml: it is so (do so)");
}

#[test]
fn colour_is_there_only_where_it_was_asked_for() {
    let problem = problem("x", Some(0..1));
    assert!(problem.render(true).contains('\u{1b}'));
    assert!(!problem.render(false).contains('\u{1b}'));
}

#[test]
fn programs_get_an_array_of_objects() {
    let mut problem = problem("\nab", Some(2..3));
    let expected = serde_json::json!([{
        "file": "a.toml",
        "line": 2,
        "column": 2,
        "severity": "warning",
        "message": "it is so",
        "hint": "do so",
    }]);
    assert_eq!(to_json(std::slice::from_ref(&problem)), expected);
    problem.hint = None;
    assert_eq!(problem.to_json()["hint"], serde_json::Value::Null);
    assert_eq!(problem.to_string(), "a.toml:2:2: it is so");
}

#[test]
fn problems_are_shown_with_an_empty_line_between_two() {
    let one = problem("x", None);
    let problems = Problems(vec![one.clone(), one]);
    let rendered = "warning: it is so\n--> a.toml\n = help: do so\n";
    assert_eq!(problems.render(false), format!("{rendered}\n{rendered}"));
    assert_eq!(problems.to_string(), "a.toml: it is so (do so)\na.toml: it is so (do so)");
    assert_eq!(render(&[], false), "");
}

proptest! {
    #[test]
    fn any_place_of_any_text_can_be_shown(text in any::<String>(), start in 0..80usize, length in 0..80usize) {
        let problem = problem(&text, Some(start..start + length));
        for color in [true, false] {
            prop_assert!(problem.render(color).contains("it is so"));
        }
    }
}
