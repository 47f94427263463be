//! Tests of `cli`.

use clap::{CommandFactory, error::ErrorKind};

use super::*;

fn refused(arguments: &[&str]) -> ErrorKind {
    let arguments = std::iter::once("oncegate").chain(arguments.iter().copied());
    Cli::try_parse_from(arguments).expect_err("a usage error").kind()
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_file_and_quick_mode_exclude_each_other() {
    let both = ["run", "--config", "x.toml", "--upstream", "http://127.0.0.1:9000"];
    assert_eq!(refused(&both), ErrorKind::ArgumentConflict);
    for flag in [["--listen", "127.0.0.1:1"], ["--admin", "off"], ["--store", "memory:"], ["--require", "POST /"]] {
        let with_file = ["run", "--config", "x.toml", flag[0], flag[1]];
        assert_eq!(refused(&with_file), ErrorKind::ArgumentConflict, "{flag:?}");
        assert_eq!(refused(&["run", flag[0], flag[1]]), ErrorKind::MissingRequiredArgument, "{flag:?}");
    }
}

#[test]
fn what_comes_later_is_refused_as_unknown() {
    assert_eq!(refused(&["run", "--accept-config-change"]), ErrorKind::UnknownArgument);
    for command in ["keys", "init", "openapi", "policy", "report", "top", "drain", "doctor"] {
        assert_eq!(refused(&[command]), ErrorKind::InvalidSubcommand, "{command}");
    }
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
