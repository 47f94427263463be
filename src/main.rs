//! The program: arguments in, exit code out. What happens between is `cli`'s.

use std::process::ExitCode;

use clap::Parser;
use oncegate::cli::Cli;

fn main() -> ExitCode {
    // clap answers --help and --version (0) and usage errors (2) itself.
    Cli::parse().execute().into()
}
