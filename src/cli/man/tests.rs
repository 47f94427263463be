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
