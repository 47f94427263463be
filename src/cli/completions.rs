//! `oncegate completions`: what a shell needs to complete our command line.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Exit, output};

/// Print the completion script of a shell
///
/// For example: oncegate completions bash > /usr/share/bash-completion/completions/oncegate
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn execute(args: &Args) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "oncegate", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    Exit::Ok
}
