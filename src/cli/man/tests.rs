//! Tests of `cli::man`.

use super::*;

#[test]
fn the_manual_page_has_every_command_and_option() {
    let page = page().expect("writing to memory does not fail");
    for sub in Cli::command().get_subcommands() {
        let heading = format!(".SH \"ONCEGATE {}\"", sub.get_name().to_uppercase());
        assert!(page.contains(&heading), "{heading}");
        for option in sub.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(page.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "{option}");
        }
    }
    assert!(page.contains("Exit codes"));
}

#[test]
fn the_manual_page_is_read_by_a_roff_that_knows_ascii_only() {
    let page = page().expect("writing to memory does not fail");
    let foreign: Vec<char> = page.chars().filter(|character| !character.is_ascii()).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert_eq!(in_ascii("${file:…} é"), "${file:\\[u2026]} \\[u00E9]");
    // What is written as a character in the help text is still there.
    assert!(page.contains("\\[u2026]"));
}
