use clap::CommandFactory;

use super::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_and_option_has_a_help_text() {
    for sub in Cli::command().get_subcommands() {
        assert!(sub.get_about().is_some(), "{}", sub.get_name());
        for argument in sub.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", sub.get_name(), argument.get_id());
        }
    }
}

#[test]
fn the_exit_codes_of_the_help_are_those_of_the_program() {
    let codes =
        [Exit::Ok, Exit::Failed, Exit::Usage, Exit::Unavailable, Exit::CannotBind, Exit::StoreFile, Exit::Config];
    let listed: Vec<u8> = AFTER.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    assert_eq!(listed, codes.map(|code| code as u8));
}
