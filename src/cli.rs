//! The command line: one file per command. Help texts are documentation: each option names its default and its
//! key in the configuration.
//!
//! Not here: what a gate does (`app`), what a file may say (`config`).

mod check;
mod completions;
mod demo;
mod exit;
mod explain;
mod healthcheck;
mod lookup;
mod man;
mod output;
mod run;
mod schema;

use clap::{Parser, Subcommand};

pub use self::exit::Exit;

/// The memory of Idempotency-Key: a reverse proxy that makes any HTTP API idempotent.
///
/// Put it in front of an API that must not be changed. One caller and one Idempotency-Key: one execution at the
/// upstream, and the same answer on every retry, however many times, through however many gates.
#[derive(Debug, Parser)]
#[command(name = "oncegate", version, max_term_width = 100, after_long_help = AFTER)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Exit codes:
  0   ok
  1   failed (a check did not hold, a gate is not healthy)
  2   usage
  69  store, upstream or gate unreachable or refused
  71  cannot bind a listener
  73  the store's file is in use or cannot be opened
  78  the configuration is not valid

Signals (run):
  SIGTERM, SIGINT  drain and end; a second one hurries
  SIGHUP           reload the configuration file

Start here:
  oncegate demo
  oncegate run --upstream http://127.0.0.1:9000";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Check(check::Args),
    Explain(explain::Args),
    Demo(demo::Args),
    Healthcheck(healthcheck::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Cli {
    /// Does what was asked for, to its end.
    #[must_use]
    pub fn execute(self) -> Exit {
        match self.command {
            Command::Run(args) => run::execute(&args),
            Command::Check(args) => check::execute(&args),
            Command::Explain(args) => explain::execute(&args),
            Command::Demo(args) => demo::execute(&args),
            Command::Healthcheck(args) => healthcheck::execute(&args),
            Command::Schema(args) => schema::execute(&args),
            Command::Completions(args) => completions::execute(&args),
            Command::Man(args) => man::execute(&args),
        }
    }
}

#[cfg(test)]
mod tests;
